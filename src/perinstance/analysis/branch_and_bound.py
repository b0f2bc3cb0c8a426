"""Branch and bound: the largest loss over a region, as a bracket.

A landscape bounds the loss over cells (boxes of parameters) and finds people in them. Cells whose bound is below the
best person found (but for the tolerance) are settled; the others are split. A bound is a loss that no person with
smaller parameters exceeds.

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

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, PROFILE_DOWN, VANISHING
from perinstance.pairs import GaussianShift, PosteriorSamplePair
from perinstance.pairs.kinds import Kind

#: The order of the Renyi divergence by which cells of objective pairs are ranked. Changes only speed.
RANKING = 10.0


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a search: nobody is above ``upper``; ``where`` is a person (or a data set) at ``attained``."""

    upper: float
    attained: float
    where: Floats


@dataclass(frozen=True, slots=True)
class Bracket:
    """Nobody is above ``epsilon``; the person (x, y) loses at least ``attained``."""

    epsilon: float
    attained: float
    x: Floats
    y: float
    kind: Kind = "upper"


def search(
    landscape: Any, cells: Floats, start: Found, *, tolerance: float, rounds: int = 40, most: int = 4000
) -> Found:
    """Split cells until every bound is at most ``1 + tolerance`` times a loss that was found, or patience ends.

    Column j of ``cells`` is ``cells[0, j] <= first <= cells[1, j]``, ``cells[2, j] <= second <= ..``. A landscape has a
    ``delta``, a ``mechanism``, bounds of its ``parameters`` in each cell (see ``loss_upper``), an ``explore`` that
    looks for somebody in or near cells, and ``geometric``: whether to halve each parameter at the geometric mean,
    at the arithmetic one (False), or never (None).
    """
    best, settled, delta, family = start, 0.0, landscape.delta, landscape.mechanism.family
    objective = family == "objective"
    for step in range(rounds):
        parameters = landscape.parameters(cells)
        guess = objective_pairs(*parameters).renyi(RANKING) if objective else loss_upper(family, parameters, delta)
        order = np.argsort(-guess)  # the largest, and some of all others: a rank may mislead
        promising = np.unique(np.concatenate([order[:8], order[:: max(1, len(order) // 8)]]))
        found = landscape.explore(cells if step == 0 else cells[:, promising])
        if found.attained > best.attained:
            best = found
        level = max(best.attained, VANISHING) * (1 + tolerance)
        done = objective_below(parameters, delta, level) if objective else guess <= level
        if done.any():
            settled = max(settled, level if objective else float(guess[done].max()))
        cells = cells[:, ~done]
        if not cells.shape[1] or cells.shape[1] > most:
            break
        for axis, geometric in enumerate(landscape.geometric):
            if geometric is not None:
                low, high = cells[2 * axis], cells[2 * axis + 1]
                left, right = cells.copy(), cells.copy()
                left[2 * axis + 1] = right[2 * axis] = np.sqrt(low * high) if geometric else 0.5 * (low + high)
                cells = np.concatenate([left, right], axis=1)
    rest = float(loss_upper(family, landscape.parameters(cells), delta).max()) if cells.shape[1] else 0.0
    return replace(best, upper=max(settled, rest, best.attained))


def grid(*edges: Floats) -> Floats:
    """Return all cells between neighbouring edges of each parameter.

    >>> grid(np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0]))
    array([[0., 1.],
           [1., 2.],
           [5., 5.],
           [6., 6.]])
    """
    starts = np.meshgrid(*(e[:-1] for e in edges), indexing="ij")
    ends = np.meshgrid(*(e[1:] for e in edges), indexing="ij")
    return np.array([side.ravel() for pair in zip(starts, ends, strict=True) for side in pair])


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
    bounds: dict[str, Any] = {"posterior": posterior_upper, "output": shift_upper, "objective": objective_upper}
    return bounds[family](*parameters, delta)


def objective_upper(R: ArrayLike, mu: ArrayLike, kappa: ArrayLike, delta: float) -> Floats:
    """Return an epsilon that holds at delta, in both directions, for all parameters that are nowhere larger."""
    R, mu, kappa = (np.asarray(a, dtype=np.float64) for a in np.broadcast_arrays(R, mu, kappa))
    corner = objective_pairs(R.ravel(), mu.ravel(), kappa.ravel())
    at_corner = np.asarray(corner.epsilon(delta, "without")).reshape(mu.shape)
    return np.maximum(at_corner, _critical(R, mu, kappa))


def objective_below(parameters: tuple[Floats, ...], delta: float, level: float) -> NDArray[np.bool_]:
    """Tell where ``objective_upper`` is at most ``level``: one profile instead of its inversion."""
    R, mu, kappa = parameters
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
