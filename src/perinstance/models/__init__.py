"""What is fitted: losses, mergeable statistics, leave-one-out answers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perinstance.folds.sweep import ArraySweep, People, Sweep
from perinstance.models.interface.problem import Movement, Problem
from perinstance.models.problem_registry import problem_of

if TYPE_CHECKING:
    from perinstance.models.kernel_ridge import predictions
    from perinstance.models.losses.catalogue import CATALOGUE
    from perinstance.models.losses.negative_binomial import NegativeBinomial
    from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothL1Penalty, SmoothObjective
    from perinstance.models.losses.smooth import Gamma, Logistic, Poisson, PseudoHuber, SmoothHinge, Squared
    from perinstance.models.losses.with_knots import Huber, SquaredHinge
    from perinstance.models.sklearn_estimators import huber
    from perinstance.models.smooth.problem import SmoothProblem

# Loaded when first asked for: a linear audit does not pay for them.
_HOMES = {
    "CATALOGUE": "losses.catalogue",
    "huber": "sklearn_estimators",
    "predictions": "kernel_ridge",
    "Huber": "losses.with_knots",
    "SquaredHinge": "losses.with_knots",
    "Gamma": "losses.smooth",
    "Logistic": "losses.smooth",
    "NegativeBinomial": "losses.negative_binomial",
    "Poisson": "losses.smooth",
    "PseudoHuber": "losses.smooth",
    "SmoothHinge": "losses.smooth",
    "Squared": "losses.smooth",
    "RidgePenalty": "losses.penalised_objective",
    "SmoothL1Penalty": "losses.penalised_objective",
    "SmoothObjective": "losses.penalised_objective",
    "SmoothProblem": "smooth.problem",
}

__all__ = [
    "CATALOGUE",
    "ArraySweep",
    "Gamma",
    "Huber",
    "Logistic",
    "Movement",
    "NegativeBinomial",
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
