"""Residuals of people whom the estimate fits almost exactly, by one fold over the rows in pairs of floats.

With any theta, ``g = X'(y - X theta) - diag(penalty) theta`` is ``H (theta* - theta)``, so that ``theta* = theta +
H^-1 g``. In floats g would be rounding; in pairs it is known to 30 digits, and as it is tiny, ``W W'g`` with the factor
in floats says as much of ``H^-1 g`` as is wanted. What is left, with u half a unit, ``V = W / scale``, ``z = x scale``,
``W'HW = I + E`` and ``||E|| <= error``:

- of H^-1: ``sqrt(m) ||W'g|| error / (1 - error)``, and of the products ``V V'g``: ``||z|| p u |V||V'||g|``
- of the pairs: a row's residual loses ``(p + 1)^2 2^-102 (|y| + |x||theta|)`` at most and the sums over the rows
  ``(ROWS^2 + runs) 2^-102 ||z_j|| ||e||``, as in ``sums_in_pairs``; both together at most ``||z_j||`` times the root of
  the sum over all rows, which is ``||y|| + ||Z|| ||theta / scale||``

The error of a factor is proved here even where the fit measured it: it is only a factor of something tiny.

A table of a few columns in memory is summed on grids instead, at first (``loops.grid_sums``): a fraction of the
work, and for most people enough. Where somebody is to be expected whom it is needed for, the map over the people makes
these sums on its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from perinstance.folds.block import Block
from perinstance.folds.cache_pieces import pieces
from perinstance.folds.shared_turns import sharing
from perinstance.folds.sweep import Sweep
from perinstance.models.linear.loops.grid_sums import Grid, GridSums, fits_grids, moments_on_grids
from perinstance.models.linear.sums_in_pairs import ROWS, added_pairs
from perinstance.numerics.array_types import Floats
from perinstance.numerics.double_double import plus, two_product, two_sum
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import HALF_UNIT, PAIR_SUM, PAIR_UNDERFLOW, TINY, UNIT, USABLE_ERROR

#: columns and targets whose lengths are beyond this power of two, or below its inverse, are not scaled here
LONGEST = 2.0**200


@dataclass(frozen=True, slots=True)
class PairedMoment:
    """``X'(y - X theta)`` over some rows; adding two gives that of both sets of rows."""

    runs: int  #: how many sums of ``ROWS`` rows went into it
    high: Floats
    low: Floats
    finite = True  # the first fold has looked at every cell

    def __add__(self, other: PairedMoment) -> PairedMoment:
        both = added_pairs(self.high, self.low, other.high, other.low)
        return PairedMoment(self.runs + other.runs + 1, *both)


@dataclass(frozen=True, slots=True)
class PairedEstimate:
    """The estimate as a pair of floats for each coefficient, and how far ``x'theta`` can be off."""

    high: Floats
    low: Floats
    per_root: float  #: for every sqrt(m)
    per_size: float  #: for every ``|y| + |x||theta|``, when the residual is computed in pairs
    least: float  #: besides

    def residuals(self, X: Floats, y: Floats, root: Floats) -> tuple[Floats, Floats]:
        """Return ``y - x'theta`` of rows with these sqrt(m), and what it can be off by."""
        d = X.shape[1]
        ahead, size = np.empty(len(y)), np.empty(len(y))
        intercept = (self.high[d], self.low[d]) if len(self.high) > d else (0.0, 0.0)
        _residuals(X, y, (self.high, self.low), intercept, ahead, size)
        return ahead, UNIT * np.abs(ahead) + self.per_root * root + self.per_size * size + self.least


def moment_grid(fit: Any) -> Grid | None:
    """Return what ``X'(y - X theta)`` is summed on; None: not of such rows, or it would say too little."""
    if not fits_grids(len(fit.theta), fit.fit_intercept):
        return None
    error, size = _provable(fit)
    return None if error is None else Grid.of(fit.theta, fit.factor.scale, 1.02 * size)


def quick_estimate(fit: Any, sweep: Sweep) -> PairedEstimate | None:
    """Take sums on grids; None where ``sharper_estimate`` has nothing to say, or the table is not for them."""
    sums = fit.made.get("moments") or _folded_on_grids(fit, sweep)
    error = None if sums is None else _provable(fit)[0]
    if sums is None or error is None:
        return None
    return _corrected(fit, error, sums.high, sums.low, float(np.sqrt(len(fit.theta))) * sums.lost)


def _folded_on_grids(fit: Any, sweep: Sweep) -> GridSums | None:
    """Fold once; where the map over the people did it on its way, that is not needed."""
    together = sharing(sweep)
    table = None if together is None else together.whole_table
    grid = None if table is None else moment_grid(fit)
    if together is None or table is None or grid is None:
        return None
    return moments_on_grids(together, table, grid)


def sharper_estimate(fit: Any, sweep: Sweep) -> PairedEstimate | None:
    """Fold once; None where the factor is not known well enough, or numbers are too far apart."""
    error, _ = _provable(fit)
    if error is None:
        return None
    theta, scale, p = fit.theta, fit.factor.scale, len(fit.theta)
    sums: PairedMoment = sweep.fold(partial(paired_moment, theta=theta, intercept=fit.fit_intercept))
    whole = 1.01 * float(np.sqrt(np.trace(fit.H * np.outer(scale, scale))))  # of all rows, scaled
    size = _target(fit) + whole * float(np.linalg.norm(theta / scale))
    terms = ROWS**2 + ROWS * sums.runs + (p + 1) ** 2  # the column of ones adds row by row
    return _corrected(fit, error, sums.high, sums.low, terms * PAIR_SUM * size * whole)


def _target(fit: Any) -> float:
    """Return ``||y||``, rounded up."""
    return float(np.sqrt(fit.square * (1 + fit.n_people * UNIT) + fit.n_people * TINY))


def _provable(fit: Any) -> tuple[float | None, float]:
    """Return a bound of the factor's error, None where it says too little, and ``||y|| + sum_j ||x_j|| |theta_j|``."""
    factor, theta, target = fit.factor, fit.theta, _target(fit)
    if fit.span is not None or factor.null.size or not np.isfinite(theta).all():
        return None, 0.0
    lengths = np.append(factor.scale, max(target, 1 / LONGEST))
    error = _factor_error(fit)
    if not (error < USABLE_ERROR and lengths.min() >= 1 / LONGEST and lengths.max() <= LONGEST):
        return None, 0.0
    return error, max(target, 1 / LONGEST) + float(np.abs(theta / factor.scale).sum())


def _corrected(fit: Any, error: float, high: Floats, low: Floats, lost: float) -> PairedEstimate:
    """Go from theta to ``theta + H^-1 g``; ``lost`` is what the sums, scaled, can be off by, in length."""
    factor, theta, p = fit.factor, fit.theta, len(fit.theta)
    scale = factor.scale
    g = _less_penalty(high, low, fit.penalty, theta) * scale
    V = factor.W / scale[:, None]
    unknown = (1 + fit.n_people) * (p + 2) * PAIR_UNDERFLOW * LONGEST**2 * 2.0**20
    unknown += lost + 2 * UNIT * float(np.linalg.norm(g))
    seen = V.T @ g
    step = (V @ seen) * scale
    products = (2 * p + 4) * HALF_UNIT * float(np.linalg.norm(np.abs(V) @ (np.abs(V).T @ np.abs(g))))
    per_root = 1.2 * (error * float(np.linalg.norm(seen)) + unknown * float(np.linalg.norm(V)))
    high = theta + step
    back = high - theta
    low = (theta - (high - back)) + (step - back)
    return PairedEstimate(
        high=high,
        low=low,
        per_root=per_root + 1.01 * factor.largest * products,
        per_size=1.01 * (p + 1) ** 2 * PAIR_SUM,
        least=(p + 2) * PAIR_UNDERFLOW,
    )


def _factor_error(fit: Any) -> float:
    """Return a bound of ``||W'HW - I||``: the factor's own where that is proved, else from H, summed in any order."""
    factor = fit.factor
    if factor.method != "cholesky":
        return float(factor.error)
    p, n = len(fit.H), fit.n_people
    G = fit.H * np.outer(factor.scale, factor.scale)
    V = factor.W / factor.scale[:, None]
    seen = float(np.linalg.norm(V.T @ G @ V - np.eye(p)))
    rounded = (2 * p + 2) * HALF_UNIT * float(np.linalg.norm(np.abs(V).T @ np.abs(G) @ np.abs(V)))
    share = (n + 4) * HALF_UNIT / (1 - n * UNIT)  # the sums that were found are a little too small, if anything
    sums = share * float(np.trace(G)) + 2 * n * p * PAIR_UNDERFLOW * LONGEST**2
    return seen + rounded + float(np.linalg.norm(V)) ** 2 * sums


def _less_penalty(high: Floats, low: Floats, penalty: Floats, theta: Floats) -> Floats:
    """Return ``X'(y - X theta) - diag(penalty) theta`` in floats: good to two units of itself."""
    out = np.empty(len(theta))
    _subtract(high, low, penalty, theta, out)
    return out


def paired_moment(block: Block, theta: Floats, intercept: bool) -> PairedMoment:
    """Return the sums of one block."""
    d = block.X.shape[1]
    high, low = np.zeros(d + intercept), np.zeros(d + intercept)
    runs = 0
    for part in pieces(block.X, d):
        X = np.ascontiguousarray(block.X[part], dtype=np.float64)
        y = np.ascontiguousarray(block.y[part], dtype=np.float64)
        _add_moments(X, y, theta, high, low)
        runs += -(-len(y) // ROWS)
    return PairedMoment(runs, high, low)


@exact_kernel
def _add_moments(X, y, theta, high, low):  # pragma: no cover - compiled
    """Add ``X'(y - X theta)``, with an entry for a column of ones where theta has one."""
    n, d = X.shape
    constant = theta[d] if len(theta) > d else 0.0
    lying = np.empty((d, ROWS))  # the run, column by column: people are the lanes of a register
    e, e_low, total, rest = np.empty(ROWS), np.empty(ROWS), np.empty(d), np.empty(d)
    for start in range(0, n, ROWS):
        m = min(ROWS, n - start)
        for k in range(m):
            e[k], e_low[k] = two_sum(y[start + k], -constant)
            for j in range(d):
                lying[j, k] = X[start + k, j]
        for j in range(d):
            w = -theta[j]
            for k in range(m):
                product, product_low = two_product(lying[j, k], w)
                more, lost = two_sum(e[k], product)
                e[k] = more
                e_low[k] += lost + product_low
        for k in range(m):
            e[k], e_low[k] = two_sum(e[k], e_low[k])
        total[:] = 0.0
        rest[:] = 0.0
        for k in range(m):
            a, b = e[k], e_low[k]
            for j in range(d):
                product, product_low = two_product(a, X[start + k, j])
                more, lost = two_sum(total[j], product)
                total[j] = more
                rest[j] += lost + (product_low + b * X[start + k, j])
        for j in range(d):
            high[j], low[j] = plus(high[j], low[j], total[j], rest[j])
        for k in range(m if len(theta) > d else 0):
            high[d], low[d] = plus(high[d], low[d], e[k], e_low[k])


@exact_kernel
def _subtract(high, low, penalty, theta, out):  # pragma: no cover - compiled
    for j in range(len(out)):
        product, product_low = two_product(penalty[j], theta[j])
        total, rest = plus(high[j], low[j], -product, -product_low)
        out[j] = total + rest


@exact_kernel
def _residuals(X, y, theta, intercept, ahead, size):  # pragma: no cover - compiled
    """Write ``y - x'theta`` and ``|y| + |x||theta|``."""
    n, d = X.shape
    high, low = theta
    for i in range(n):
        total, rest = two_sum(y[i], -intercept[0])
        rest -= intercept[1]
        whole = abs(y[i]) + abs(intercept[0])
        for j in range(d):
            product, product_low = two_product(X[i, j], -high[j])
            total, lost = two_sum(total, product)
            rest += lost + (product_low - X[i, j] * low[j])
            whole += abs(product)
        ahead[i], size[i] = total + rest, whole
