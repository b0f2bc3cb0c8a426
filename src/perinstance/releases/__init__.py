"""Randomized estimators with scikit-learn's interface: ``fit`` publishes one draw, and each knows its pairs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perinstance.releases.adaops import AdaOPS
    from perinstance.releases.adassp import AdaSSP
    from perinstance.releases.laplace_posterior import LaplacePosterior
    from perinstance.releases.mean import NoisyMean
    from perinstance.releases.objective import ObjectivePerturbation
    from perinstance.releases.output import OutputPerturbation
    from perinstance.releases.posterior import PosteriorSample
    from perinstance.releases.process import ProcessSample
    from perinstance.releases.protocol import Release

# Loaded when first asked for: one release does not pay for the imports of the others.
_HOMES = {
    "AdaOPS": "adaops",
    "AdaSSP": "adassp",
    "LaplacePosterior": "laplace_posterior",
    "NoisyMean": "mean",
    "ObjectivePerturbation": "objective",
    "OutputPerturbation": "output",
    "PosteriorSample": "posterior",
    "ProcessSample": "process",
    "Release": "protocol",
}

__all__ = [
    "AdaOPS",
    "AdaSSP",
    "LaplacePosterior",
    "NoisyMean",
    "ObjectivePerturbation",
    "OutputPerturbation",
    "PosteriorSample",
    "ProcessSample",
    "Release",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"perinstance.releases.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'perinstance.releases' has no attribute {name!r}")
