"""What the analyses know of a release of a linear model: its kind of noise, and the confidential fit in matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.errors import RefusedModel
from perinstance.models.linear.ridge import DualFit, LinearFit, by_columns
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.mechanism import Mechanism
from perinstance.releases.base.release import Release, mechanism_of


@dataclass(frozen=True, slots=True)
class Setting:
    """A mechanism on one data set: P for an outsider, Q for a person who is inside (MATH 1)."""

    mechanism: Mechanism
    theta: Floats  #: (p,) the intercept last
    K: Floats  #: (p, p) H^-1
    G: Floats  #: (p, p) H^-1 A H^-1 / scale^2: ``x'Gx`` is the squared movement per unit of residual, in noise units
    proper: bool  #: every direction is determined by data or penalty
    error: float  #: relative error of the leverages
    length: float  #: sqrt(theta' H theta)
    n_features: int


def ridge_mechanism(release: Release) -> Mechanism:
    """Return what a release of ridge regression with Gaussian noise does; anything else is refused with the reason."""
    mechanism = mechanism_of(release)
    if mechanism.moved != "ridge" or mechanism.noise != "gaussian" or mechanism.family == "adaptive":
        raise RefusedModel(
            "this analysis knows ridge and least squares under PosteriorSample, OutputPerturbation and "
            f"ObjectivePerturbation, got {mechanism.name}; audit the people of the data, or use Ridge"
        )
    return mechanism


def setting_of(release: Release, fit: Any) -> Setting:
    """Read a release and its confidential fit."""
    mechanism = ridge_mechanism(release)
    if not isinstance(fit, (LinearFit, DualFit)):
        raise RefusedModel(f"this analysis needs the fit of a linear model, got {type(fit).__name__}")
    fit = by_columns(fit)
    K = fit.inverse()
    G = K @ K if mechanism.precision is None else K @ mechanism.precision @ K
    return Setting(
        mechanism=mechanism,
        theta=np.asarray(fit.theta),
        K=K,
        G=G / mechanism.scale**2,
        proper=fit.rank == len(fit.theta),
        error=float(fit.error),
        length=float(np.linalg.norm(fit.factor.R @ fit.theta)),
        n_features=fit.n_features,
    )
