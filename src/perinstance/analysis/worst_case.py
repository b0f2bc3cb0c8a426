"""The worst case over data sets: what differential privacy says of the same algorithm, and the data set that proves it.

Ridge regression with penalty lambda > 0 on at most n people, ``||x_i|| <= B_x``, ``|y_i| <= B_y``; a target of length
t. With p_j the share of the target's squared length along the j-th eigenvector of X'X and ``m_j = 1/(lambda + a_j)``,

    x'H^-1x = t^2 M,   ||H^-1x||^2 = t^2 q,   |x'theta| <= t B_y sqrt(n (M - lambda q)),   M = sum p m,   q = sum p m^2.

So every data set is a point (M, q) between the parabola ``q = M^2`` and its chord over
``1/(lambda + n B_x^2) <= m <= 1/lambda``. Every point is attained: n equal rows of length ``sqrt(a/n)`` with equal y,
and a target that turns away from them into an empty direction. (In one dimension, and for a posterior sample in any,
only the parabola matters.) The supremum is a search over two numbers, with upper bounds for cells of them. It corrects
the paper's agnostic proposition. Under output perturbation a shorter target can lose more than a long one, which damps
its own movement: t is searched too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.analysis.ceilings import (
    objective_below,
    objective_ceiling,
    objective_pairs,
    objective_rough,
    posterior_ceiling,
    shift_ceiling,
)
from perinstance.analysis.everyone import check_bound
from perinstance.analysis.search import Found, grid, search
from perinstance.analysis.setting import Mechanism, mechanism_of
from perinstance.errors import InvalidInput
from perinstance.pairs import Posterior, Shift
from perinstance.pairs.base import Kind, delta_array

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WorstCase:
    """A statement about every data set, with the one that (nearly) attains it. Public: no data enters."""

    epsilon: float  #: holds for every data set in the domain
    attained: float  #: the loss of ``target`` when she joins the n equal people (``row``, ``row_y``)
    delta: float
    n: int | None
    row: Floats
    row_y: float
    target: Floats
    target_y: float
    kind: Kind
    assumptions: tuple[str, ...]

    def data(self) -> tuple[Floats, Floats]:
        """Return X, y of the data set that the target joins."""
        n = self.n or 0
        return np.tile(self.row, (n, 1)), np.full(n, self.row_y)


@dataclass(frozen=True, slots=True)
class Region:
    """The points (M, q) that data sets can reach, and what the three mechanisms lose there."""

    mechanism: Mechanism
    n: int
    rows: float  #: B_x
    y_bound: float  #: B_y
    target: float  #: t
    target_y: float
    delta: float
    flat: bool  #: only the parabola q = M^2
    shorter: bool  #: a shorter target may lose more

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest m."""
        return 1 / (self.mechanism.alpha + self.n * self.rows**2), 1 / self.mechanism.alpha

    def bow(self, M: Floats) -> Floats:
        """Return how far the chord lies above the parabola."""
        low, high = self.limits
        return np.maximum((M - low) * (high - M), 0.0)

    def residual(self, t: Floats, spread: Floats) -> Floats:
        """Return the largest ``|y - x'theta|`` where ``M - lambda q = spread``."""
        return self.target_y + t * self.y_bound * np.sqrt(self.n * np.maximum(spread, 0.0))

    def loss(self, M: Floats, q: Floats, t: Floats) -> Floats:
        """Return the loss at points of the region."""
        c = self.mechanism
        r = self.residual(t, M - c.alpha * q)
        if c.family == "posterior":
            return np.asarray(Posterior(t**2 * M, r / c.scale).epsilon(self.delta))
        if c.family == "output":
            return np.asarray(Shift(r * t * np.sqrt(self.stretch * q) / c.scale / (1 + t**2 * M)).epsilon(self.delta))
        kappa = t**2 * np.sqrt(np.maximum(q - M**2, 0.0))
        return np.asarray(objective_pairs(r * t / c.scale, t**2 * M, kappa).epsilon(self.delta))

    def corner(self, cells: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Bound ``|r|``, ``t sqrt(q)/(1 + t^2 M)``, ``t^2 M`` and kappa in cells of M, c, t; ``q = M^2 + c bow(M)``."""
        M1, M2, c1, c2, t1, t2 = cells
        peak = 0.5 * sum(self.limits)
        bow = np.maximum(self.bow(M1), self.bow(M2))
        bow = np.where((peak > M1) & (peak < M2), self.bow(np.full(len(M1), peak)), bow)
        least = M1**2 + c1 * np.minimum(self.bow(M1), self.bow(M2))
        # the movement is sqrt(q/M) sqrt(k)/(1 + k), k = t^2 M; q/M = M + c bow/M, and bow/M is concave
        low, high = self.limits
        turn = np.clip(np.sqrt(low * high), M1, M2)
        ratio = M2 + c2 * self.bow(turn) / turn
        k = np.clip(1.0, t1**2 * M1, t2**2 * M2)
        up = 1 + 1e-12
        r = self.residual(t2, M2 - self.mechanism.alpha * least) * up
        # q - M^2 = c bow(M) <= c2 bow
        movement = np.sqrt(self.stretch * ratio * k) / (1 + k)
        return r, movement * up, t2**2 * M2 * up, t2**2 * np.sqrt(c2 * bow) * up

    def parameters(self, cells: Floats) -> tuple[Floats, Floats, Floats]:
        """Return R, mu and kappa of objective perturbation."""
        r, _, mu, kappa = self.corner(cells)
        return r * cells[5] / self.mechanism.scale, mu, kappa

    def full(self, cells: Floats) -> Floats:
        """Return an epsilon that holds for every data set and target in each cell."""
        c = self.mechanism
        if c.family == "objective":
            return objective_ceiling(*self.parameters(cells), self.delta)
        r, movement, mu, _ = self.corner(cells)
        if c.family == "posterior":
            return posterior_ceiling(mu, r / c.scale, self.delta)
        return shift_ceiling(r * movement / c.scale, self.delta)

    def rough(self, cells: Floats) -> Floats:
        """Return the same, quickly."""
        if self.mechanism.family == "objective":
            return objective_rough(*self.parameters(cells), self.delta)
        return self.full(cells)

    def below(self, cells: Floats, level: float) -> NDArray[np.bool_]:
        """Tell the cells whose bound is at most ``level``."""
        if self.mechanism.family == "objective":
            return objective_below(*self.parameters(cells), self.delta, level)
        return np.zeros(cells.shape[1], dtype=bool)  # the rough bound was the full one

    def explore(self, cells: Floats) -> Found:
        """Try the data sets at the corners of these cells."""
        M, c, t = (np.concatenate([cells[2 * j], cells[2 * j + 1]]) for j in range(3))
        q = M**2 + c * self.bow(M)
        value = self.loss(M, q, t)
        top = int(np.argmax(value))
        return Found(np.inf, float(value[top]), np.array([M[top], q[top], t[top]]))

    def sharpened(self, cell: Floats) -> Region:
        """Return itself: its bounds are what they are."""
        return self

    @property
    def geometric(self) -> tuple[bool | None, ...]:
        """Which of M, c and t to halve."""
        return (True, None if self.flat else False, True if self.shorter else None)

    @property
    def stretch(self) -> float:
        """The largest eigenvalue of the public precision A of output perturbation."""
        A = self.mechanism.precision
        return 1.0 if A is None else float(np.linalg.eigvalsh(A)[-1]) * (1 + 1e-12)

    def supremum(self, tolerance: float) -> Found:
        """Search the whole region."""
        low, high = self.limits
        edges = np.geomspace(low, high, 49)
        edges[0], edges[-1] = low, high
        bends = np.zeros(2) if self.flat else np.linspace(0.0, 1.0, 5)
        # t/(1 + t^2 M) still grows up to t = high^-1/2
        shortest = min(high**-0.5, self.target) if self.shorter else self.target
        start = Found(np.inf, 0.0, np.array([low, low**2, self.target]))
        cells = grid(edges, bends, np.array([shortest, self.target]))
        return search(self, cells, start, tolerance=tolerance, rounds=30, most=20_000)


def dp(
    release: Any,
    delta: float,
    x_bound: float = 1.0,
    y_bound: float = 1.0,
    *,
    n: int | None = None,
    d: int | None = None,
) -> WorstCase:
    """Return the (epsilon, delta)-DP statement of the same algorithm: the supremum over data sets **and** targets.

    Parameters
    ----------
    n
        The public number of people of the (smaller) data set, at most. None means any number, for which ridge
        regression has no finite statement: the residual grows like sqrt(n).
    d
        The number of features; only one or more than one matters.
    """
    return _supremum(mechanism_of(release), delta, x_bound, y_bound, n, d, None, None)


def personal_dp(
    release: Any, x: ArrayLike, y: float, delta: float, x_bound: float = 1.0, y_bound: float = 1.0, *, n: int | None
) -> WorstCase:
    """Return personal DP: the supremum over data sets for one fixed person (x, y)."""
    return _supremum(mechanism_of(release), delta, x_bound, y_bound, n, None, np.asarray(x, dtype=np.float64), float(y))


def _supremum(
    mechanism: Mechanism,
    delta: float,
    x_bound: float,
    y_bound: float,
    n: int | None,
    d: int | None,
    x: Floats | None,
    y: float | None,
) -> WorstCase:
    delta = float(delta_array(delta, 1, zero=False))
    rows, y_bound = check_bound("x_bound", x_bound), check_bound("y_bound", y_bound)
    if n is not None and n < 0:
        raise InvalidInput(f"n must be >= 0, got {n}; it is the public number of people")
    if x is None:
        d = 2 if d is None else int(d)
        unit, t, sign = _top(mechanism, d), rows, -1.0
        target_y = y_bound
    else:
        d, t = len(x), float(np.linalg.norm(x))
        unit = x / t if t > 0 else np.eye(d)[0]
        target_y, sign = abs(float(y or 0.0)), -1.0 if (y or 0.0) <= 0 else 1.0
    who = "every target" if x is None else "this target"
    assumptions = (
        f"every data set of at most n = {n} people with ||x_i|| <= {rows:g} and |y_i| <= {y_bound:g}, {who}",
        "adding or removing one person",
    )

    def answer(upper: float, attained: float, row: Floats, row_y: float, kind: Kind, why: str = "") -> WorstCase:
        notes = (*assumptions, why) if why else assumptions
        return WorstCase(upper, attained, delta, n, row, row_y, t * unit, sign * target_y, kind, notes)

    nobody = np.zeros(d)
    if mechanism.fit_intercept:
        why = "infinite: an intercept has no penalty, and the empty data set does not hold it up"
        return answer(np.inf, np.inf, nobody, 0.0, "exact", why)
    if mechanism.alpha == 0 and t > 0:
        why = "infinite: alpha is 0, and a data set may leave the target's direction open"
        return answer(np.inf, np.inf, nobody, 0.0, "exact", why)
    if n is None and min(rows, y_bound, t) > 0:
        why = "infinite: the residual grows like sqrt(n) and n is not bounded"
        return answer(np.inf, np.inf, nobody, 0.0, "exact", why)
    if t == 0:
        return answer(0.0, 0.0, nobody, 0.0, "exact", "a row of zeros changes nothing")
    # output perturbation depends on t^2 M and q/M alone: with shorter targets at hand the parabola reaches all of them
    shorter = x is None and mechanism.family == "output"
    flat = d == 1 or mechanism.family == "posterior" or shorter or n == 0 or rows == 0
    region = Region(mechanism, int(n or 0), rows, y_bound, t, target_y, delta, flat, shorter)
    found = region.supremum(1e-5 if flat and not shorter else 1e-3)
    row, t = _witness(region, found, unit), float(found.where[2])
    attained = found.attained if mechanism.precision is None else _attained(region, row, t * unit)
    return answer(found.upper, attained, row, -sign * y_bound, "upper")


def _witness(region: Region, found: Found, unit: Floats) -> Floats:
    """Return the row of the n equal people; of the target (along ``unit``) a share p is empty, 1 - p along the row.

    Two atoms with the M and q found: ``m = 1/lambda`` (nobody there) and ``m' = (M high - q)/(high - M)``.
    """
    low, high = region.limits
    M, q, _ = found.where
    m = high if high - M <= 1e-15 * high else min(max((M * high - q) / (high - M), low), high)
    p = 0.0 if region.flat or high - m <= 1e-12 * high else min(max((M - m) / (high - m), 0.0), 1.0)
    a = max(1 / m - region.mechanism.alpha, 0.0)
    along = np.sqrt(1 - p) * unit
    if p > 0:
        other = np.eye(len(unit))[int(np.argmin(np.abs(unit)))]
        other = other - (other @ unit) * unit
        along = along + np.sqrt(p) * other / np.linalg.norm(other)
    return min(np.sqrt(a / region.n) if region.n else 0.0, region.rows) * along


def _attained(region: Region, row: Floats, x: Floats) -> float:
    """Return the loss of x when she joins the witness, for a precision that is not a multiple of the identity."""
    mechanism = region.mechanism
    H = region.n * np.outer(row, row) + mechanism.alpha * np.eye(len(row))
    theta = np.linalg.solve(H, region.n * row * region.y_bound)
    move = np.linalg.solve(H + np.outer(x, x), x) * (region.target_y + abs(x @ theta))
    distance = np.sqrt(move @ mechanism.precision @ move) / mechanism.scale
    return float(Shift(distance).epsilon(region.delta)[0])


def _top(mechanism: Mechanism, d: int) -> Floats:
    """Return the direction in which the noise is smallest."""
    if mechanism.precision is None:
        return np.eye(d)[0]
    if len(mechanism.precision) != d:
        raise InvalidInput(f"precision is {len(mechanism.precision)} wide, got d={d}; pass d to match it")
    return np.linalg.eigh(mechanism.precision)[1][:, -1]


@dataclass(frozen=True, slots=True)
class PureDP:
    """The pure-DP statement of a posterior sample whose theta is confined to a ball (an exponential mechanism)."""

    epsilon: float
    as_published: float  #: Wang, Fienberg and Smola (2015): 4 sup |log-likelihood|, for replacing a person
    kind: Kind
    assumptions: tuple[str, ...]


def exponential_mechanism(gamma: float, x_bound: float, y_bound: float, theta_bound: float) -> PureDP:
    """Return pure DP of a posterior sample confined to ``||theta|| <= theta_bound``.

    One person changes the exponent ``-gamma/2 ||y - X theta||^2`` by a number between ``-B`` and 0,
    ``B = gamma/2 (y_bound + x_bound theta_bound)^2``, and the normaliser by a factor in ``[e^-B, 1]``: epsilon = B for
    adding or removing her.

    >>> exponential_mechanism(gamma=1.0, x_bound=1.0, y_bound=1.0, theta_bound=1.0).epsilon
    2.0
    """
    if not gamma > 0:
        raise InvalidInput(f"gamma must be > 0, got {gamma:g}")
    reach = check_bound("y_bound", y_bound) + check_bound("x_bound", x_bound) * check_bound("theta_bound", theta_bound)
    B = 0.5 * gamma * reach**2
    return PureDP(
        B,
        4 * B,
        "upper",
        ("theta is sampled on the ball ||theta|| <= theta_bound only: not the Gaussian sample", "every data set"),
    )
