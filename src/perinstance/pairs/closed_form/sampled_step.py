r"""One Poisson-sampled Gaussian step in closed form, through the profile of a shift of the same distance.

With the person over without them, ``delta(epsilon) = q delta_shift(E)``, ``e^E = 1 + (e^epsilon - 1)/q``. Without over
with, ``delta(epsilon) = (1 - e^epsilon (1 - q)) delta_shift(E)``, ``e^-E = 1 - (1 - e^-epsilon)/q``, and nothing beyond
``epsilon = -log(1 - q)``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import FEW_ROUNDINGS, LAST_SUM, LONG_UNIT, SAMPLED_STEP, SAMPLED_STEP_ABSOLUTE, UNIT
from perinstance.pairs.closed_form.profile import shift_deltas


def step_deltas(side: str, rate: Floats, distance: Floats, epsilon: Floats) -> Floats:
    """Return delta at any epsilon, of the person ``"with"`` over without them, or of ``"without"`` over with.

    ``delta(epsilon) = 1 - e^epsilon + e^epsilon delta_other(-epsilon)`` left of zero.
    """
    one, other = (_delta_with, _delta_without) if side == "with" else (_delta_without, _delta_with)
    right, left = one(rate, distance, np.maximum(epsilon, 0.0)), np.minimum(epsilon, 0.0)
    back = (np.exp(left) * other(rate, distance, -left) - np.expm1(left)) * (1.0 + SAMPLED_STEP)
    return np.minimum(np.where(epsilon < 0.0, back, right), 1.0)


def _delta_with(rate: Floats, distance: Floats, epsilon: Floats) -> Floats:
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # of branches that are not taken
        ratio = np.expm1(np.minimum(epsilon, 700.0)) / rate
        beyond = epsilon - np.log(rate) + np.log(rate * np.exp(-epsilon) - np.expm1(-epsilon))
        E = np.where((epsilon < 700.0) & (ratio < np.inf), np.log1p(ratio), beyond)
    return rate * shift_deltas(distance, E * (1.0 - FEW_ROUNDINGS)) * (1.0 + SAMPLED_STEP)


def _delta_without(rate: Floats, distance: Floats, epsilon: Floats) -> Floats:
    long = -np.expm1(-np.asarray(epsilon, dtype=np.longdouble))
    gone = np.asarray(long, dtype=np.float64)
    # e^-epsilon - 1 + q, which cancels next to the largest loss: rounded up
    left = np.asarray(rate - long + 2.0 * LONG_UNIT * long, dtype=np.float64) * (1.0 + UNIT)
    inside = left > 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        share = gone / rate
        near = -np.log1p(-np.minimum(share, 0.5))
        E = np.where(share < 0.5, near, -np.log(np.where(inside, left, rate) / rate))
        E = np.maximum(E, 0.0) * (1.0 - FEW_ROUNDINGS)
        out = np.exp(epsilon) * left * shift_deltas(distance, E) * (1.0 + SAMPLED_STEP)
    return np.where(inside, out, 0.0)


def step_epsilons(side: str, rate: Floats, distance: Floats, delta: Floats) -> Floats:
    """Return the epsilon at delta > 0.

    With E of the shift: ``log(1 + q (e^E - 1))`` where ``delta_shift(E) = delta/q``, or without over with
    ``-log(1 - q + q e^-E)`` where ``delta_shift(E) q e^{epsilon - E} = delta``.
    """
    if side == "without":

        def profile(E: Floats) -> Floats:
            return shift_deltas(distance, E) * rate / (rate + (1.0 - rate) * np.exp(np.minimum(E, 700.0)))

        E = _bisected(distance, delta, profile)
        return -np.log1p(rate * np.expm1(-E)) * (1.0 + FEW_ROUNDINGS)  # 1 - q + q e^-E = 1 + q (e^-E - 1)
    with np.errstate(over="ignore"):
        share = delta * (1.0 - FEW_ROUNDINGS) / rate
    E = _bisected(distance, share, lambda E: shift_deltas(distance, E))
    # E was raised by a share that covers what is lost below; next to zero the sum of log q and E would cancel
    x = np.log(rate) + E
    far = x + np.log1p((1.0 - rate) * np.exp(-np.maximum(x, 1.0)))
    small = np.where(E < 700.0, rate * np.expm1(np.minimum(E, 700.0)), np.exp(np.minimum(x, 1.0)))
    epsilon = np.where(x > 1.0, far, np.log1p(np.minimum(small, np.e)))
    return np.where(E > 0.0, epsilon * (1.0 + LAST_SUM), 0.0)


def _bisected(distance: Floats, delta: Floats, profile: Callable[[Floats], Floats]) -> Floats:
    """Return the least E >= 0 with ``profile(E) <= delta``, rounded up; the profile is at most the shift's."""
    low, high = np.zeros(len(delta)), np.full(len(delta), 0.5)
    goal = delta * (1.0 - SAMPLED_STEP)
    while True:
        far = (profile(high) > goal) & (high < np.inf)
        if not far.any():
            break
        with np.errstate(over="ignore"):  # of a distance beyond 1e154 E is infinite
            low, high = np.where(far, high, low), np.where(far, 2.0 * high, high)
    zero = profile(np.zeros(len(delta))) <= goal
    for _ in range(80):
        middle = 0.5 * (low + high)
        far = profile(middle) > goal
        low, high = np.where(far, middle, low), np.where(far, high, middle)
    return np.where(zero, 0.0, high * (1.0 + SAMPLED_STEP) + SAMPLED_STEP_ABSOLUTE * np.minimum(distance, 1.0))
