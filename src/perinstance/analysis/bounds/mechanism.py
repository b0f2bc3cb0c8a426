"""What the analyses know of a release of a linear model: its kind of noise, and the confidential fit in matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from perinstance.errors import RefusedModel
from perinstance.models.linear.ridge import LinearFit
from perinstance.numerics.array_types import Floats

Family = Literal["posterior", "output", "objective"]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """The public part of a release of ridge regression.

    ``posterior``: ``N(theta, H^-1 / gamma)``, scale = gamma^-1/2. ``output``: ``N(theta, scale^2 A^-1)``.
    ``objective``: ``N(theta, scale^2 H^-2)``. H is ``X'X`` plus ``alpha`` on the diagonal, none for an intercept.
    """

    family: Family
    scale: float
    alpha: float
    fit_intercept: bool
    precision: Floats | None = None  #: A

    @property
    def gamma(self) -> float:
        """The inverse temperature of a posterior sample."""
        return self.scale**-2


@dataclass(frozen=True, slots=True)
class Setting:
    """A mechanism on one data set: P for an outsider, Q for a person who is inside (MATH 1)."""

    mechanism: Mechanism
    theta: Floats  #: (p,) the intercept last
    K: Floats  #: (p, p) H^-1
    G: Floats  #: (p, p) H^-1 A H^-1 / scale^2: ``x'Gx`` is the squared movement per unit of residual, in noise units
    proper: bool  #: every direction is held up by data or penalty
    error: float  #: relative error of the leverages
    length: float  #: sqrt(theta' H theta)
    n_features: int


def mechanism_of(release: Any) -> Mechanism:
    """Read a release; what has no closed form here is refused with the reason."""
    name = type(release).__name__
    if name == "PosteriorSample":
        return Mechanism("posterior", float(release.gamma) ** -0.5, float(release.alpha), bool(release.fit_intercept))
    if name in ("OutputPerturbation", "ObjectivePerturbation"):
        problem = release.problem()
        if type(problem).__name__ != "LinearProblem":
            raise RefusedModel(
                f"this analysis knows ridge and least squares, got {type(problem).__name__}; "
                "audit the people of the data, or use Ridge"
            )
        A = getattr(release, "precision", None)
        return Mechanism(
            "output" if name == "OutputPerturbation" else "objective",
            float(release.scale),
            float(problem.alpha),
            bool(problem.fit_intercept),
            None if A is None else np.asarray(A, dtype=np.float64),
        )
    raise RefusedModel(
        f"this analysis knows PosteriorSample, OutputPerturbation and ObjectivePerturbation, got {name}; "
        "audit the people of the data instead"
    )


def setting_of(release: Any, fit: Any) -> Setting:
    """Read a release and its confidential fit."""
    mechanism = mechanism_of(release)
    if not isinstance(fit, LinearFit):
        raise RefusedModel(f"this analysis needs the fit of a linear model, got {type(fit).__name__}")
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
