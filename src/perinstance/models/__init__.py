"""What is fitted: losses, mergeable statistics, leave-one-out answers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perinstance.models.problem import Movement, Problem, problem_of
from perinstance.models.sweep import ArraySweep, People, Sweep

if TYPE_CHECKING:
    from perinstance.models.catalogue import CATALOGUE
    from perinstance.models.estimators import huber
    from perinstance.models.kernel import predictions
    from perinstance.models.knots import Huber, SquaredHinge
    from perinstance.models.losses import Gamma, Logistic, Poisson, PseudoHuber, SmoothHinge, Squared
    from perinstance.models.objective import RidgePenalty, SmoothL1Penalty, SmoothObjective
    from perinstance.models.smooth import SmoothProblem

# Loaded when first asked for: a linear audit does not pay for them.
_HOMES = {
    "CATALOGUE": "catalogue",
    "huber": "estimators",
    "predictions": "kernel",
    "Huber": "knots",
    "SquaredHinge": "knots",
    "Gamma": "losses",
    "Logistic": "losses",
    "Poisson": "losses",
    "PseudoHuber": "losses",
    "SmoothHinge": "losses",
    "Squared": "losses",
    "RidgePenalty": "objective",
    "SmoothL1Penalty": "objective",
    "SmoothObjective": "objective",
    "SmoothProblem": "smooth",
}

__all__ = [
    "CATALOGUE",
    "ArraySweep",
    "Gamma",
    "Huber",
    "Logistic",
    "Movement",
    "People",
    "Poisson",
    "Problem",
    "PseudoHuber",
    "RidgePenalty",
    "SmoothHinge",
    "SmoothL1Penalty",
    "SmoothObjective",
    "SmoothProblem",
    "Squared",
    "SquaredHinge",
    "Sweep",
    "huber",
    "predictions",
    "problem_of",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"perinstance.models.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'perinstance.models' has no attribute {name!r}")
