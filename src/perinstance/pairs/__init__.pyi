"""The public names of ``perinstance.pairs``: one line each, loaded when first used."""

from .base import Pairs as Pairs
from .base import PairSchema as PairSchema
from .composition import Composed as Composed
from .composition import compose as compose
from .gaussian_shift import GaussianShift as GaussianShift
from .general_gaussian import GeneralGaussian as GeneralGaussian
from .laplace_shift import LaplaceShift as LaplaceShift
from .objective import ObjectivePair as ObjectivePair
from .posterior_sample import PosteriorSamplePair as PosteriorSamplePair
from .sampled_gaussian import SampledGaussian as SampledGaussian
from .stored import from_columns as from_columns
from .student_shift import StudentShift as StudentShift
