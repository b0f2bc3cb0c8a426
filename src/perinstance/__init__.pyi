"""The public names of ``perinstance``: one line each, loaded when first used."""

from . import analysis as analysis
from . import auditing as auditing
from . import data as data
from . import disclosure as disclosure
from . import engines as engines
from . import errors as errors
from . import inference as inference
from . import ledger as ledger
from . import models as models
from . import pairs as pairs
from . import plots as plots
from . import published as published
from . import releases as releases
from . import report as report
from . import sampling as sampling
from . import training as training
from ._version import __version__ as __version__
from .auditing import Audit as Audit
from .auditing import audit as audit
from .auditing import calibrate as calibrate
from .auditing import epsilon as epsilon
from .data import Recipe as Recipe
from .data import scan as scan
from .ledger import Ledger as Ledger
from .published import load_model as load_model
from .releases import *
