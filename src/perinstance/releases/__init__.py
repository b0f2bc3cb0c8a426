"""Randomized estimators with scikit-learn's interface: ``fit`` publishes one draw, and each knows its pairs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perinstance.releases.adaops.estimator import AdaOPS
    from perinstance.releases.adassp.estimator import AdaSSP
    from perinstance.releases.base.release import Release
    from perinstance.releases.gaussian_process_sample import ProcessSample
    from perinstance.releases.laplace_posterior import LaplacePosterior
    from perinstance.releases.noisy_mean import NoisyMean
    from perinstance.releases.objective_perturbation import ObjectivePerturbation
    from perinstance.releases.output_perturbation import OutputPerturbation
    from perinstance.releases.posterior_sample import PosteriorSample

# Loaded when first asked for: one release does not pay for the imports of the others.
_HOMES = {
    "AdaOPS": "adaops.estimator",
    "AdaSSP": "adassp.estimator",
    "LaplacePosterior": "laplace_posterior",
    "NoisyMean": "noisy_mean",
    "ObjectivePerturbation": "objective_perturbation",
    "OutputPerturbation": "output_perturbation",
    "PosteriorSample": "posterior_sample",
    "ProcessSample": "gaussian_process_sample",
    "Release": "base.release",
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
