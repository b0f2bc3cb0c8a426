"""The public names of ``perinstance.models``: one line each, loaded when first used."""

from ..folds.sweep import ArraySweep as ArraySweep
from ..folds.sweep import People as People
from ..folds.sweep import Sweep as Sweep
from .interface.problem import Movement as Movement
from .interface.problem import Problem as Problem
from .kernel_ridge.problem import predictions as predictions
from .losses.catalogue import CATALOGUE as CATALOGUE
from .losses.penalised_objective import RidgePenalty as RidgePenalty
from .losses.penalised_objective import SmoothL1Penalty as SmoothL1Penalty
from .losses.penalised_objective import SmoothObjective as SmoothObjective
from .losses.smooth import Gamma as Gamma
from .losses.smooth import Logistic as Logistic
from .losses.smooth import NegativeBinomial as NegativeBinomial
from .losses.smooth import Poisson as Poisson
from .losses.smooth import PseudoHuber as PseudoHuber
from .losses.smooth import SmoothHinge as SmoothHinge
from .losses.smooth import Squared as Squared
from .losses.with_knots import Huber as Huber
from .losses.with_knots import SquaredHinge as SquaredHinge
from .problem_registry import problem_of as problem_of
from .sklearn_estimators import huber as huber
from .smooth.problem import SmoothProblem as SmoothProblem
