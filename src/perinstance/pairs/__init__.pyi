"""The public names of ``perinstance.pairs``: one line each, loaded when first used."""

from .base import Pairs as Pairs
from .base import PairSchema as PairSchema
from .composition import Composed as Composed
from .composition import compose as compose
from .gaussian_shift import Shift as Shift
from .general_gaussian import Gaussian as Gaussian
from .laplace_shift import Laplace as Laplace
from .objective import Objective as Objective
from .posterior_sample import Posterior as Posterior
from .sampled_gaussian import SampledGaussian as SampledGaussian
from .stored import from_columns as from_columns
from .student_shift import StudentShift as StudentShift
