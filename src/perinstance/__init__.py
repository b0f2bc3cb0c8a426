"""The exact privacy loss of each person in a published regression, and releases that keep their promise.

Names are loaded when first used, so that ``import perinstance`` stays quick.
"""

from __future__ import annotations

import importlib
from typing import Any

from perinstance._version import __version__

# The catalogue of public names: where each one lives.
_HOMES = {
    "OutputPerturbation": "perinstance.releases",
    "PosteriorSample": "perinstance.releases",
    "ObjectivePerturbation": "perinstance.releases",
    "LaplacePosterior": "perinstance.releases",
    "ProcessSample": "perinstance.releases",
    "NoisyMean": "perinstance.releases",
    "AdaOPS": "perinstance.releases",
    "AdaSSP": "perinstance.releases",
    "audit": "perinstance.auditing",
    "Audit": "perinstance.auditing",
    "scan": "perinstance.data",
}
_ROOMS = (
    "analysis",
    "auditing",
    "data",
    "engines",
    "errors",
    "models",
    "pairs",
    "plots",
    "releases",
    "report",
    "sampling",
)

__all__ = ["__version__", *_HOMES, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _ROOMS:
        return importlib.import_module(f"perinstance.{name}")
    raise AttributeError(f"module 'perinstance' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
