"""The public names of ``perinstance.models``: one line each, loaded when first used."""

from ..folds.sweep import ArraySweep as ArraySweep
from ..folds.sweep import People as People
from ..folds.sweep import Sweep as Sweep
from .interface import Movement as Movement
from .interface import Problem as Problem
from .kernel_ridge import predictions as predictions
from .losses.catalogue import CATALOGUE as CATALOGUE
from .losses.catalogue import Gamma as Gamma
from .losses.catalogue import Huber as Huber
from .losses.catalogue import Logistic as Logistic
from .losses.catalogue import NegativeBinomial as NegativeBinomial
from .losses.catalogue import Poisson as Poisson
from .losses.catalogue import PseudoHuber as PseudoHuber
from .losses.catalogue import SmoothHinge as SmoothHinge
from .losses.catalogue import Squared as Squared
from .losses.catalogue import SquaredHinge as SquaredHinge
from .losses.penalised_objective import RidgePenalty as RidgePenalty
from .losses.penalised_objective import SmoothL1Penalty as SmoothL1Penalty
from .losses.penalised_objective import SmoothObjective as SmoothObjective
from .problem_registry import huber as huber
from .problem_registry import problem_of as problem_of
from .smooth.problem import SmoothProblem as SmoothProblem
