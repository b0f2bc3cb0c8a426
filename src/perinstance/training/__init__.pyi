"""The public names of ``perinstance.training``: one line each, loaded when first used."""

from . import opacus as opacus
from .simulated_trainings import SimulatedLoss as SimulatedLoss
from .simulated_trainings import simulate as simulate
from .step_watch import Watch as Watch
