"""Two distributions per person, and every number that follows from them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from perinstance.pairs.base import Pairs
from perinstance.pairs.laplace import Laplace
from perinstance.pairs.posterior import Posterior
from perinstance.pairs.shift import Shift

if TYPE_CHECKING:
    from perinstance.pairs.composed import Composed, compose
    from perinstance.pairs.gaussian import Gaussian
    from perinstance.pairs.objective import Objective

# Loaded when first asked for: most audits need none of them.
_LATER = {"Objective": "objective", "Gaussian": "gaussian", "Composed": "composed", "compose": "composed"}

__all__ = ["Composed", "Gaussian", "Laplace", "Objective", "Pairs", "Posterior", "Shift", "compose"]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"perinstance.pairs.{_LATER[name]}"), name)
    raise AttributeError(f"module 'perinstance.pairs' has no attribute {name!r}")
