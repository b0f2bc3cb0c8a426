"""What the losses mean: distributions, everyone, groups, composition, worst cases, generalisation.

Every answer is a frozen record with its ``kind`` and its ``assumptions``. All of them are confidential unless they say
otherwise: they are functions of the data.
"""

from __future__ import annotations

import importlib
from typing import Any

# The catalogue: where each public name lives. Modules are loaded when first asked for.
_HOMES = {
    "Everyone": "everyone",
    "everyone": "everyone",
    "Moments": "moments",
    "moments": "moments",
    "quantile": "moments",
    "tail": "moments",
    "bootstrap": "moments",
    "Variants": "variants",
    "variants": "variants",
    "Efficiency": "efficiency",
    "efficiency": "efficiency",
    "optimisation_error": "efficiency",
    "Identification": "identification",
    "identification": "identification",
    "posterior_odds": "identification",
    "odds_bound": "identification",
    "realised_loss": "identification",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"perinstance.analysis.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'perinstance.analysis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
