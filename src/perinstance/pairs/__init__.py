"""Two distributions per person, and every number that follows from them.

Each module here is one kind of pair, named by the mechanism it belongs to; ``interface`` says what all of them can do.
Below lie the mathematics: ``closed_form`` for one coordinate, ``loss_sums`` for sums of independent losses. Above lie
``composition`` and ``stored_pairs`` (pairs read back from plain columns).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perinstance.pairs.gaussian_shift import Shift
from perinstance.pairs.interface.base import Pairs
from perinstance.pairs.interface.schema import PairSchema
from perinstance.pairs.laplace_shift import Laplace
from perinstance.pairs.posterior_sample import Posterior

if TYPE_CHECKING:
    from perinstance.pairs.composition import Composed, compose
    from perinstance.pairs.general_gaussian import Gaussian
    from perinstance.pairs.objective_perturbation import Objective
    from perinstance.pairs.stored_pairs import from_columns
    from perinstance.pairs.student_shift import StudentShift

# Loaded when first asked for: most audits need none of them.
_LATER = {
    "Objective": "objective_perturbation",
    "Gaussian": "general_gaussian",
    "Composed": "composition",
    "compose": "composition",
    "from_columns": "stored_pairs",
    "StudentShift": "student_shift",
}

__all__ = [
    "Composed",
    "Gaussian",
    "Laplace",
    "Objective",
    "PairSchema",
    "Pairs",
    "Posterior",
    "Shift",
    "StudentShift",
    "compose",
    "from_columns",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"perinstance.pairs.{_LATER[name]}"), name)
    raise AttributeError(f"module 'perinstance.pairs' has no attribute {name!r}")
