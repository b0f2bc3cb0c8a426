"""What an analysis is asked about: declared bounds, a release of a linear model with its fit, a noisy mean or sum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.models.linear.ridge import DualFit, LinearFit, by_columns
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import INTO_BALL, NORM_UP, SMALLEST, UNIT
from perinstance.pairs import GaussianShift, LaplaceShift
from perinstance.pairs.kinds import Kind
from perinstance.releases.base.release import Mechanism, Release, mechanism_of

Shape = Literal["ball", "box"]


@dataclass(frozen=True, slots=True)
class DeclaredBounds:
    """``||x|| <= x[0]`` (a ball) or ``|x_j| <= x[j]`` (a box), and ``|y| <= y``."""

    domain: Shape
    x: Floats
    y: float

    def nearest(self, rows: Floats) -> Floats:
        """Return the nearest rows of the domain."""
        if self.domain == "box":
            return np.clip(rows, -self.x, self.x)
        norm = np.linalg.norm(rows, axis=-1, keepdims=True)
        return rows * np.minimum(1.0, self.x[0] * INTO_BALL / np.where(norm > 0, norm, 1.0))


def declared_bounds_of(x_bound: ArrayLike, y_bound: Any, d: int, domain: Shape) -> DeclaredBounds:
    """Validate the bounds: of x one number for a ball, one or d for a box (then one per feature)."""
    if domain not in ("ball", "box"):
        raise InvalidInput(f"domain must be 'ball' or 'box', got {domain!r}")
    bounds = np.atleast_1d(real_values("x_bound", x_bound))
    if bounds.ndim != 1 or len(bounds) not in ((1,) if domain == "ball" else (1, d)):
        want = "one number" if domain == "ball" else f"one number or one per feature ({d})"
        raise InvalidInput(f"x_bound must be {want}, got shape {np.shape(x_bound)}")
    if not ((bounds >= 0) & np.isfinite(bounds)).all():
        raise InvalidInput("x_bound must be finite and >= 0; declare what a row may look like, e.g. x_bound=1")
    if domain == "box" and len(bounds) == 1:
        bounds = np.full(d, bounds[0])
    return DeclaredBounds(domain, bounds, declared_bound("y_bound", y_bound))


def declared_bound(name: str, value: Any) -> float:
    """Validate one bound: finite and >= 0."""
    number = float(value)
    if not 0 <= number < np.inf:
        raise InvalidInput(f"{name} must be finite and >= 0, got {number:g}; declare what a row may look like")
    return number


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
    K, theta = fit.inverse(), np.asarray(fit.theta)
    G = (K @ K if mechanism.precision is None else K @ mechanism.precision @ K) / mechanism.scale**2
    length = float(np.linalg.norm(fit.factor.R @ theta))
    return Setting(mechanism, theta, K, G, fit.rank == len(theta), float(fit.error), length, fit.n_features)


def is_mean(release: Release) -> bool:
    """Tell whether this is a noisy mean or sum."""
    return mechanism_of(release).moved in ("mean", "sum")


def farthest(release: Release, centre: Floats, bounds: Floats, domain: str) -> Floats:
    """Return the x of the domain that is farthest from the centre in the norm that the noise counts.

    From the mean m that is, in the l2 norm, ``B + ||m||`` (a ball) or ``||(B_j + |m_j|)_j||`` (a box), in the l1 norm
    ``B sqrt(d) + |m|_1`` or ``sum_j (B_j + |m_j|)``. All of them are attained.
    """
    away = np.where(centre > 0, -1.0, 1.0)
    if domain == "box":
        return away * bounds
    if release.mechanism().noise == "laplace":
        return away * bounds[0] / np.sqrt(len(centre))
    length = math.hypot(*centre.tolist())  # which neither overflows nor underflows on the way
    return -centre / length * bounds[0] if length > 0 else np.eye(len(centre))[0] * bounds[0]


class MeanLoss(NamedTuple):
    """Epsilon of a movement of the mean or sum, rounded up; an upper bound where it is beyond the range of floats."""

    epsilon: float
    attained: float  #: not above the true loss, up to rounding
    kind: Kind


def mean_loss(release: Release, move: Floats, delta: float) -> MeanLoss:
    """Return epsilon of a movement of the mean or sum.

    Somebody who joins n people moves their mean by ``(x - mean)/(n + 1)`` and their sum by x. With noise of scale s the
    distance is the l1 norm (Laplace noise) or the l2 norm (Gaussian noise) of that over s. Under Laplace noise on
    several columns the loss of a distance is an upper bound; what is lost at least is what the column that moves most
    gives away by itself.
    """
    mechanism = release.mechanism()
    laplace, sizes = mechanism.noise == "laplace", np.abs(move).tolist()
    length = sum(sizes) if laplace else math.hypot(*sizes)
    slack = NORM_UP + len(sizes) * UNIT
    pair = LaplaceShift if laplace else GaussianShift

    def epsilon(size: float) -> float:
        distance = size / mechanism.scale * slack
        return float(pair([max(distance, SMALLEST) if size > 0 else distance]).epsilon(delta)[0])

    found = epsilon(length)
    if laplace and sum(size > 0 for size in sizes) > 1:
        return MeanLoss(found, epsilon(max(sizes)), "upper")
    return MeanLoss(found, found, "exact" if math.isfinite(found) else "upper")
