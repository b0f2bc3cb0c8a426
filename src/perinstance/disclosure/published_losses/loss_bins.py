"""Losses in public bins: which bounds of leverage, residual and distance keep a loss below each edge.

The tables are functions of the edges and of delta alone, and people are compared with them: nobody's bin hangs on
how many others were computed in the same call.

Posterior samples: in deviations of Q the pair is ``N(0, 1)`` against ``N(m, 1 + mu)`` with ``m^2 = mu s``, and it is
dominated by the pair of any ``M >= mu`` and of ``s' >= s``, where ``s = rho^2/(1 + mu) = gamma e^2/(1 - h)``
(docs/disclosure, "Why the posterior's bound holds"). So leverages are rounded up to the next of some levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from perinstance.checked_numbers import real_number
from perinstance.disclosure.published_losses.bounds_by_row import PublicTerms, RowBounds
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import OWN_ROW_UP, PROFILE_UP
from perinstance.pairs import Posterior
from perinstance.releases.promises.promise import gaussian_distance

EDGES = tuple(float(f"{m}e{k}") for k in range(-3, 1) for m in ("1", "1.5", "2", "3", "5", "7")) + (10.0,)
MOST_EDGES = 100
LEVELS = 2.0 ** (np.arange(-240, 49) / 8.0)  # of mu, eighths of a power of two
EXPONENTS = (-100.0, 60.0)  # of two, between which s is searched
HALVINGS = 24

Bins = np.ndarray[Any, np.dtype[np.int64]]


def checked_edges(edges: Sequence[float] | None) -> tuple[float, ...]:
    """Validate declared edges: rising and positive; None takes the usual ones, from 0.001 to 10."""
    if edges is None:
        return EDGES
    values = tuple(real_number("an edge", edge) for edge in edges)
    rising = all(a < b for a, b in zip(values, values[1:], strict=False))
    if not 1 <= len(values) <= MOST_EDGES or not rising or values[0] <= 0 or values[-1] == np.inf:
        raise InvalidInput(f"edges must be 1 to {MOST_EDGES} rising numbers > 0; they are losses, fixed in advance")
    return values


def bins_of(terms: PublicTerms, bounds: RowBounds, edges: tuple[float, ...], delta: float) -> Bins:
    """Return which bin each person's bound falls into: k means at most ``edges[k]``, the last one more than all."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if terms.family == "output":
            distance = bounds.influence * bounds.residual / bounds.left * terms.longest * OWN_ROW_UP
            return _above(distance, [np.float64(t) for t in _shift_limits(edges, delta)])
        mu = bounds.leverage / bounds.left * OWN_ROW_UP
        s = (bounds.residual / terms.noise) ** 2 / bounds.left * OWN_ROW_UP**4  # the noise was rounded up
        level = np.searchsorted(LEVELS, np.where(np.isnan(mu), np.inf, mu))
        limits = np.vstack([_posterior_limits(edges, delta), np.full(len(edges), -1.0)])[level]
        return _above(s, list(limits.T))


def _above(values: Floats, limits: list[Any]) -> Bins:
    """Count the limits that a value is not known to keep; NaN keeps none."""
    found = np.zeros(len(values), dtype=np.int64)
    for limit in limits:
        found += ~(values <= limit)
    return found


@lru_cache(maxsize=32)
def _shift_limits(edges: tuple[float, ...], delta: float) -> tuple[float, ...]:
    return tuple(gaussian_distance(edge, delta) for edge in edges)


@lru_cache(maxsize=8)
def _posterior_limits(edges: tuple[float, ...], delta: float) -> Floats:
    """Return, for each level of mu and each edge, the largest s that keeps the loss below the edge; -1: none does."""
    mu = np.repeat(LEVELS, len(edges))
    epsilon = np.tile(np.asarray(edges), len(LEVELS))

    def kept(s: Floats) -> Any:
        return Posterior(mu, np.sqrt(s * (1.0 + mu))).delta(epsilon) * PROFILE_UP <= delta

    low, high = np.full(len(mu), EXPONENTS[0]), np.full(len(mu), EXPONENTS[1])
    none = ~kept(np.exp2(low))
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        good = kept(np.exp2(middle))
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    return np.where(none, -1.0, np.exp2(low)).reshape(len(LEVELS), len(edges))
