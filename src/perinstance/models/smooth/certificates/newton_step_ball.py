"""An upper bound on how far one person moves the minimum, from the fit with everyone alone.

Let G be the Hessian of the neighbour's objective at the fit, q the gradient that the person takes along (or brings),
``a = |q|`` in the G^-1 norm and D the step to the neighbour's minimum. The lemma says ``Gbar D = q`` with Gbar the mean
Hessian along the step. If ``lo G <= Gbar <= hi G`` then ``|D|_G <= a/lo``, and D lies in the ball

    |D - centre Delta|_G <= half a,    Delta = G^-1 q,  centre = (1/lo + 1/hi)/2,  half = (1/lo - 1/hi)/2,

so that in the norm of any precision A, with ``lam`` the largest eigenvalue of A relative to G,

    |D|_A^2 <= centre^2 |Delta|_A^2 + 2 centre half a |A Delta|_{G^-1} + half^2 a^2 lam.

The radius ``r >= |D|_G`` solves ``r lo(r) = a`` (the step starts at zero and grows with the person's weight, so it
cannot jump over the first solution); where there is none, there is no certificate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.models.smooth.certificates.hessian_bounds import HessianBounds, HessianProfile
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import CONCORDANCE_LEFT, CONCORDANCE_LIMIT, LEAST_DIVISOR


@dataclass(frozen=True, slots=True)
class StepBall:
    """How far the neighbour's minimum is at most (H norm), and how the mean Hessian can differ along the step there."""

    radius: Floats  #: inf: no certificate
    low: Floats
    high: Floats

    def where(self, better: NDArray[np.bool_], radius: Floats, low: Floats, high: Floats) -> StepBall:
        """Return the other values where they are better."""
        return StepBall(
            np.where(better, radius, self.radius), np.where(better, low, self.low), np.where(better, high, self.high)
        )


@dataclass(frozen=True, slots=True)
class Step:
    """The first Newton step Delta of each person in the norms that the bound combines."""

    a: Floats  #: |q| in the G^-1 norm, which is |Delta|_G
    size: Floats  #: |Delta|_A
    dual_size: Floats  #: |A Delta| in the G^-1 norm
    lam: Floats  #: bound on the largest eigenvalue of A relative to G
    inflation: Floats  #: G^-1 <= inflation H^-1


@dataclass(frozen=True, slots=True)
class OwnRow:
    """An outsider's own row in the neighbour's objective."""

    h: Floats  #: x'G^-1x
    curvature: Floats
    third: Floats  #: (radii, people): largest third derivative within each radius of ``HessianBounds.average``


def step_ball(
    hessian_bounds: HessianBounds, a: Floats, inflation: Floats, own: OwnRow | None, leaving: Floats | float = np.inf
) -> StepBall:
    """Solve ``r lo(r) = a`` by each available bound and keep the best.

    ``own`` belongs to outsiders, whose row is not among those of ``hessian_bounds``; ``leaving`` is ``|l'''| h^1.5``
    of those who leave its signed sums (inf: not known).
    """
    if hessian_bounds.profile is not None:
        return _by_profile(hessian_bounds.profile, a, inflation, own)
    kappa = hessian_bounds.concordance
    c = hessian_bounds.c * np.sqrt(inflation)
    if own is not None:
        c = np.maximum(c, kappa * np.sqrt(own.h))
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite theta is no bound, and is not better
        ca = c * a
        ratio = _log_ratio(np.minimum(ca, CONCORDANCE_LIMIT))  # s/(1 - e^-s) where s = c r = -log(1 - ca)
        sure = ca < CONCORDANCE_LIMIT
        found = StepBall(
            np.where(sure, a * ratio, np.inf), 1 / ratio, 1 / (ratio * np.maximum(1 - ca, CONCORDANCE_LEFT))
        )
        for j, (rho, theta, signed) in enumerate(zip(*_average(hessian_bounds), strict=True)):
            turning = (theta + leaving if signed and own is None else theta) * inflation**1.5
            if own is not None:
                turning = turning + own.h**1.5 * own.third[j]
            ta = np.minimum(2 * turning * a, 1.0)
            r = 2 * a / (1 + np.sqrt(1 - ta))
            t = np.where(ta < 1, turning * r, 0.0)
            better = (ta < 1) & (np.sqrt(inflation) * r <= rho) & (r < found.radius)
            found = found.where(better, r, 1 - t / 2, 1 + t / 2)
    return found


def _average(hessian_bounds: HessianBounds) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    average, none = hessian_bounds.average, np.zeros(0)
    if average is None:
        return none, none, np.zeros(0, dtype=bool)
    return average.radius, average.theta, average.signed


def _log_ratio(u: Floats) -> Floats:
    """``-log(1 - u)/u``, 1 at 0."""
    u = np.maximum(u, LEAST_DIVISOR)
    return -np.log1p(-u) / u


def _by_profile(profile: HessianProfile, a: Floats, inflation: Floats, own: OwnRow | None) -> StepBall:
    """The smallest tabulated radius that the step does not leave."""
    found = StepBall(np.full(a.shape, np.inf), np.ones(a.shape), np.ones(a.shape))
    # an outsider's own row may lose at most its whole curvature, or win what is missing to 1
    fall = rise = np.zeros(a.shape)
    if own is not None:
        fall, rise = own.h * own.curvature, own.h * (1 - own.curvature)
    for rho, down, up in zip(profile.radius, profile.drop, profile.rise, strict=True):
        lo = 1 - inflation * down - fall
        r = np.where(lo > 0, a / np.where(lo > 0, lo, 1.0), np.inf)
        better = (np.sqrt(inflation) * r <= rho) & (r < found.radius)
        found = found.where(better, r, lo, 1 + inflation * up + rise)
    return found


def distance_bound(step: Step, ball: StepBall) -> Floats:
    """``|D|_A`` at most; inf where there is no certificate."""
    sure = np.isfinite(ball.radius)
    lo, hi = ball.low, ball.high
    centre, half = (1 / lo + 1 / hi) / 2, (1 / lo - 1 / hi) / 2
    e = half * step.a
    square = (centre * step.size) ** 2 + 2 * centre * e * step.dual_size + e * e * step.lam
    plain = step.lam * np.where(sure, ball.radius, 0.0) ** 2
    return np.where(sure, np.sqrt(np.minimum(square, plain)), np.inf)
