"""A loss that no person with smaller parameters exceeds: what may be put in place of a whole range of people.

Posterior pairs (MATH 1b). Differentiate the profile at fixed epsilon (the event ``|w| > c`` is optimal, so its own
movement does not count); with m, v the mean and variance under Q and ``phi`` its density,

    d delta / d rho = e^eps v [phi(c) - phi(-c)] >= 0   always,
    d delta / d mu  = e^eps v [c (phi(c) + phi(-c)) - mu m (phi(c) - phi(-c))] / (2 mu) >= 0   if c >= rho mu/(1 + mu).

As ``c^2 >= rho^2/(1+mu) + log(1+mu) + 2 eps``, the second holds for every eps >= 0 while ``mu^2 <= 1 + mu`` (the golden
ratio), and beyond for ``2 eps >= rho^2 (mu^2 - mu - 1)/(1+mu)^2 - log(1+mu)``.

Objective pairs (MATH 1c) depend on ``R = |r| ||x|| / s``, mu and ``kappa^2 = x'x v'v - mu^2``:
``L = E u + E^2/2 - log(1+mu)``, ``E = R + mu u + kappa g`` with u, g standard normal under P. Likewise P over Q grows
with R always, with kappa where ``2 eps >= R^2`` and with mu where moreover ``kappa^2 <= x (x - R)``,
``x = sqrt(2 eps)``; Q over P falls with mu where ``eps >= log(1+mu) + mu + mu^2/2``, and at mu = 0 the two directions
are equal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, PROFILE_DOWN
from perinstance.pairs import GaussianShift, PosteriorSamplePair

ROUGH_ORDERS = (1.03, 1.1, 1.3, 1.7, 2.5, 4.0, 8.0, 16.0, 40.0, 150.0)
_AT_GOLDEN_RATIO = float(np.log1p((1 + 5**0.5) / 2))


def posterior_upper(mu: ArrayLike, rho: ArrayLike, delta: float) -> Floats:
    """Return an epsilon that holds at delta for every leverage <= mu and every scaled residual <= rho.

    >>> float(posterior_upper(0.1, 1.0, 1e-6)) == float(PosteriorSamplePair(0.1, 1.0).epsilon(1e-6)[0])
    True
    """
    mu, rho = np.broadcast_arrays(np.asarray(mu, dtype=np.float64), np.asarray(rho, dtype=np.float64))
    flat_mu, flat_rho = mu.flatten(), rho.flatten()  # copies: asking a broadcast array whether it can be written warns
    epsilon = np.asarray(PosteriorSamplePair(flat_mu, flat_rho).epsilon(delta))
    beyond = flat_mu**2 > 1 + flat_mu
    if beyond.any():
        m, r = flat_mu[beyond], flat_rho[beyond]
        with np.errstate(invalid="ignore", over="ignore"):
            share = np.where(np.isinf(m), 1.0, (m**2 - m - 1) / (1 + m) ** 2)
            critical = 0.5 * (r**2 * share - _AT_GOLDEN_RATIO) * BOUND_UP
        epsilon = epsilon.copy()
        epsilon[beyond] = np.maximum(epsilon[beyond], critical)
    return epsilon.reshape(mu.shape)


def loss_upper(family: str, parameters: tuple[Floats, ...], delta: float) -> Floats:
    """Return an epsilon that holds for all parameters that are nowhere larger.

    They are mu and rho of a posterior sample, the distance of output perturbation, R, mu and kappa of the objective's.
    """
    bound = {"posterior": posterior_upper, "output": shift_upper, "objective": objective_upper}[family]
    return bound(*parameters, delta)


def objective_upper(R: ArrayLike, mu: ArrayLike, kappa: ArrayLike, delta: float) -> Floats:
    """Return an epsilon that holds at delta, in both directions, for all parameters that are nowhere larger."""
    R, mu, kappa = (np.asarray(a, dtype=np.float64) for a in np.broadcast_arrays(R, mu, kappa))
    corner = objective_pairs(R.ravel(), mu.ravel(), kappa.ravel())
    at_corner = np.asarray(corner.epsilon(delta, "without")).reshape(mu.shape)
    return np.maximum(at_corner, _critical(R, mu, kappa))


def objective_rough(R: Floats, mu: Floats, kappa: Floats, delta: float) -> Floats:
    """Return the same through Renyi divergences: a weaker bound, a hundred times faster."""
    corner = objective_pairs(R, mu, kappa)
    best = np.full(len(R), np.inf)
    for order in ROUGH_ORDERS:
        with np.errstate(over="ignore"):
            overhead = np.log1p(-1 / order) - (np.log(delta) + np.log(order)) / (order - 1)
            best = np.minimum(best, np.maximum(corner.renyi(order, "without") + overhead, 0.0))
    return np.maximum(best, _critical(R, mu, kappa))


def objective_below(R: Floats, mu: Floats, kappa: Floats, delta: float, level: float) -> NDArray[np.bool_]:
    """Tell where ``objective_upper`` is at most ``level``: one profile instead of its inversion."""
    below = _critical(R, mu, kappa) <= level
    if below.any():
        corner = objective_pairs(R[below], mu[below], kappa[below])
        below[below] = corner.delta(level, "without") <= delta * PROFILE_DOWN
    return below


def _critical(R: Floats, mu: Floats, kappa: Floats) -> Floats:
    """Return the epsilon from which on the three monotonicities of objective pairs hold."""
    x = 0.5 * (R + np.sqrt(R**2 + 4 * kappa**2))
    return np.maximum(0.5 * x**2, np.log1p(mu) + mu + 0.5 * mu**2) * BOUND_UP


def objective_pairs(R: Floats, mu: Floats, kappa: Floats) -> Any:
    """Return the pairs with these parameters: a row of length one and noise of scale one."""
    from perinstance.pairs import ObjectivePair

    return ObjectivePair(mu, R, np.ones_like(R), kappa**2 + mu**2)


def shift_upper(distance: ArrayLike, delta: float) -> Floats:
    """Return the epsilon of a shift; it grows with the distance."""
    distance = np.asarray(distance, dtype=np.float64)
    return np.asarray(GaussianShift(distance.ravel()).epsilon(delta)).reshape(distance.shape)
