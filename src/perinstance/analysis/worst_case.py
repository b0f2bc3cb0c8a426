"""The worst case over data sets: what differential privacy says of an algorithm, and the data set that proves it.

Ridge regression with penalty lambda > 0 on at most n people, ``||x_i|| <= B_x``, ``|y_i| <= B_y``; a target of length
t. With p_j the share of the target's squared length along the j-th eigenvector of X'X and ``m_j = 1/(lambda + a_j)``,

    x'H^-1x = t^2 M,   ||H^-1x||^2 = t^2 q,   |x'theta| <= t B_y sqrt(n (M - lambda q)),   M = sum p m,   q = sum p m^2.

So every data set is a point (M, q) between the parabola ``q = M^2`` and its chord over
``1/(lambda + n B_x^2) <= m <= 1/lambda``. Every point is attained: n equal rows of length ``sqrt(a/n)`` with equal y,
and a target with a part orthogonal to them, where there is no data. (In one dimension, and for a posterior sample in
any, only the parabola matters.) The supremum is a search over two numbers, with upper bounds for cells of them. It
corrects the paper's agnostic proposition. Under output perturbation a shorter target can lose more than a long one,
which damps its own movement: t is searched too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance.analysis.branch_and_bound import Found, grid, objective_pairs, search
from perinstance.analysis.declared_bounds import declared_bound, farthest, is_mean, mean_loss, ridge_mechanism
from perinstance.checked_numbers import is_whole
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, CANCELLED, SAME
from perinstance.pairs import GaussianShift, Pairs, PosteriorSamplePair
from perinstance.pairs.arguments import delta_array
from perinstance.pairs.kinds import Kind
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.release import Mechanism, mechanism_of
from perinstance.releases.base.rows_per_person import most_rows, rows_at_most


@dataclass(frozen=True, slots=True)
class Region:
    """The points (M, q) that data sets attain, and what the three mechanisms lose there."""

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

    @property
    def geometric(self) -> tuple[bool | None, ...]:
        """Which of M, c and t to halve."""
        return (True, None if self.flat else False, True if self.shorter else None)

    @property
    def stretch(self) -> float:
        """The largest eigenvalue of the public precision A of output perturbation."""
        A = self.mechanism.precision
        return 1.0 if A is None else float(np.linalg.eigvalsh(A)[-1]) * BOUND_UP

    def bow(self, M: Floats) -> Floats:
        """Return how far the chord lies above the parabola."""
        low, high = self.limits
        return np.maximum((M - low) * (high - M), 0.0)

    def residual(self, t: Floats, spread: Floats) -> Floats:
        """Return the largest ``|y - x'theta|`` where ``M - lambda q = spread``."""
        return self.target_y + t * self.y_bound * np.sqrt(self.n * np.maximum(spread, 0.0))

    def parameters(self, cells: Floats) -> tuple[Floats, ...]:
        """Bound the mechanism's parameters in cells of M, c and t; ``q = M^2 + c bow(M)``."""
        M1, M2, c1, c2, t1, t2 = cells
        low, high = self.limits
        bow1, bow2 = self.bow(M1), self.bow(M2)
        r = self.residual(t2, M2 - self.mechanism.alpha * (M1**2 + c1 * np.minimum(bow1, bow2))) * BOUND_UP
        scaled, mu = r / self.mechanism.scale, t2**2 * M2 * BOUND_UP
        if self.mechanism.family == "posterior":
            return mu, scaled
        if self.mechanism.family == "objective":  # q - M^2 = c bow(M) <= c2 bow
            bow = np.where((0.5 * (low + high) > M1) & (0.5 * (low + high) < M2), 0.25 * (high - low) ** 2, 0.0)
            return scaled * t2, mu, t2**2 * np.sqrt(c2 * np.maximum(bow, np.maximum(bow1, bow2))) * BOUND_UP
        # the movement is sqrt(q/M) sqrt(k)/(1 + k), k = t^2 M; q/M = M + c bow/M, and bow/M is concave
        best, k = np.clip(np.sqrt(low * high), M1, M2), np.clip(1.0, t1**2 * M1, t2**2 * M2)
        movement = np.sqrt(self.stretch * (M2 + c2 * self.bow(best) / best) * k) / (1 + k)
        return (scaled * movement * BOUND_UP,)

    def explore(self, cells: Floats) -> Found:
        """Try the data sets at the corners of these cells."""
        M, c, t = (np.concatenate([cells[2 * j], cells[2 * j + 1]]) for j in range(3))
        q, mechanism = M**2 + c * self.bow(M), self.mechanism
        r = self.residual(t, M - mechanism.alpha * q) / mechanism.scale
        pairs: Pairs
        if mechanism.family == "posterior":
            pairs = PosteriorSamplePair(t**2 * M, r)
        elif mechanism.family == "output":
            pairs = GaussianShift(r * t * np.sqrt(self.stretch * q) / (1 + t**2 * M))
        else:
            pairs = objective_pairs(r * t, t**2 * M, t**2 * np.sqrt(np.maximum(q - M**2, 0.0)))
        value = np.asarray(pairs.epsilon(self.delta))
        top = int(np.argmax(value))
        return Found(np.inf, float(value[top]), np.array([M[top], q[top], t[top]]))

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


def _one_person(release: Any) -> str:
    return f"adding or removing one person with {rows_at_most(release)}"


@dataclass(frozen=True, slots=True)
class WorstCase(ShownAsTable):
    """A statement about every data set, with the one that (nearly) attains it. Public: no data enters."""

    epsilon: float  #: holds for every data set in the domain
    attained: float  #: the loss of ``target`` who joins the n equal people (``row``, ``row_y``), all their rows equal
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


def worst_case_dp(
    release: Any,
    delta: float,
    x_bound: float = 1.0,
    y_bound: float = 1.0,
    *,
    n: int | None = None,
    d: int | None = None,
) -> WorstCase:
    """Return the (epsilon, delta)-DP statement of the same algorithm: the supremum over data sets **and** targets.

    ``n`` is the public number of people of the (smaller) data set, at most. None means any number, for which ridge
    regression has no finite statement: the residual grows like sqrt(n). Of d, the number of features, only one or more
    than one matters.
    """
    if is_mean(release):
        return _mean(release, delta, x_bound, n, 1 if d is None else int(d))
    if mechanism_of(release).promises:  # AdaOPS, AdaSSP: the statement is what they are made for
        delta, nobody = float(delta_array(delta, 1, zero=False)), np.zeros(2 if d is None else int(d))
        notes = ("every data set and every target: rows are clipped to the declared bounds", _one_person(release))
        promised = release.promise(len(nobody)).epsilon(delta)  # no data set is known that attains it
        return WorstCase(promised, np.nan, delta, n, nobody, 0.0, nobody, 0.0, "upper", notes)
    _check_number("d", d, 1)
    mechanism, width = ridge_mechanism(release), 2 if d is None else int(d)
    A, unit = mechanism.precision, np.eye(width)[0]
    if A is not None:  # the direction in which the noise is smallest
        if len(A) != width:
            raise InvalidInput(f"precision is {len(A)} wide, got d={width}; pass d to match it")
        unit = np.linalg.eigh(A)[1][:, -1]
    x_bound, y_bound = declared_bound("x_bound", x_bound), declared_bound("y_bound", y_bound)
    return _supremum(mechanism, Target(unit, x_bound, y_bound, -1.0, False), delta, x_bound, y_bound, n)


def _mean(release: Any, delta: float, x_bound: float, n: int | None, d: int) -> WorstCase:
    """Answer for a noisy mean or sum: all others at one end, all rows of the target at the other."""
    delta = float(delta_array(delta, 1, zero=False))
    bounds = np.array([declared_bound("x_bound", x_bound)])
    k = most_rows(release)
    row = -farthest(release, np.full(d, -1.0), bounds, "ball")
    notes: tuple[str, ...] = (_one_person(release), f"exactly n = {n} others, ||x_i|| <= {bounds[0]:g}")
    if release.mechanism().moved == "sum":
        most = mean_loss(release, row * k, delta)
        return WorstCase(most.epsilon, most.attained, delta, n, 0 * row, 0.0, -row, 0.0, most.kind, notes)
    if not n:
        notes = (*notes, "infinite: the mean of nobody is not defined; declare how many people there are")
        return WorstCase(np.inf, np.inf, delta, n, 0 * row, 0.0, -row, 0.0, "exact", notes)
    most = mean_loss(release, row * k / ((n + k) / 2), delta)
    return WorstCase(most.epsilon, most.attained, delta, n, row, 0.0, -row, 0.0, most.kind, notes)


def _check_number(name: str, value: Any, least: int) -> None:
    if value is not None and not (is_whole(value) and value >= least):
        raise InvalidInput(f"{name} must be a whole number >= {least}, or None, got {value!r}; it is public")


def personal_dp(
    release: Any, x: ArrayLike, y: float, delta: float, x_bound: float = 1.0, y_bound: float = 1.0, *, n: int | None
) -> WorstCase:
    """Return personal DP: the supremum over data sets for one fixed person (x, y)."""
    row, target = np.asarray(x, dtype=np.float64), float(y)
    if row.ndim != 1 or not len(row) or not np.isfinite(row).all() or not np.isfinite(target):
        raise InvalidInput("the person must be one row of finite numbers and one finite target")
    t = float(np.linalg.norm(row))
    unit = row / t if t > 0 else np.eye(len(row))[0]
    person = Target(unit, t, abs(target), -1.0 if target <= 0 else 1.0, True)
    x_bound, y_bound = declared_bound("x_bound", x_bound), declared_bound("y_bound", y_bound)
    return _supremum(ridge_mechanism(release), person, delta, x_bound, y_bound, n)


@dataclass(frozen=True, slots=True)
class Target:
    """Who joins: ``length * unit``, ``sign * y``; one person, or everybody with at most that length and target."""

    unit: Floats
    length: float
    y: float
    sign: float
    fixed: bool


def _supremum(
    mechanism: Mechanism, target: Target, delta: float, x_bound: float, y_bound: float, n: int | None
) -> WorstCase:
    """Search all data sets of at most n people within bounds that the target may join."""
    _check_number("n", n, 0)
    delta = float(delta_array(delta, 1, zero=False))
    unit, t = target.unit, target.length
    who = "this target" if target.fixed else "every target"
    assumptions = (
        f"every data set of at most n = {n} people with ||x_i|| <= {x_bound:g} and |y_i| <= {y_bound:g}, {who}",
        _one_person(None),
    )
    epsilon, why = np.inf, ""
    if mechanism.fit_intercept:
        why = "infinite: an intercept has no penalty, and the empty data set does not determine it"
    elif mechanism.alpha == 0 and t > 0:
        why = "infinite: alpha is 0, and a data set may leave the target's direction open"
    elif n is None and min(x_bound, y_bound, t) > 0:
        why = "infinite: the residual grows like sqrt(n) and n is not bounded"
    elif t == 0:
        epsilon, why = 0.0, "a row of zeros changes nothing"
    if why:
        end, nobody = target.sign * target.y, np.zeros(len(unit))
        return WorstCase(epsilon, epsilon, delta, n, nobody, 0.0, t * unit, end, "exact", (*assumptions, why))
    # output perturbation depends on t^2 M and q/M alone: with shorter targets at hand the parabola attains all of them
    shorter = not target.fixed and mechanism.family == "output"
    flat = len(unit) == 1 or mechanism.family == "posterior" or shorter or n == 0 or x_bound == 0
    region = Region(mechanism, int(n or 0), x_bound, y_bound, t, target.y, delta, flat, shorter)
    found = region.supremum(1e-5 if flat and not shorter else 1e-3)
    row, t = _witness(region, found, unit), float(found.where[2])
    attained, x = found.attained, t * unit
    if mechanism.precision is not None:  # the loss of x who joins the witness: A is no multiple of the identity
        H = region.n * np.outer(row, row) + mechanism.alpha * np.eye(len(row))
        theta = np.linalg.solve(H, region.n * row * region.y_bound)
        move = np.linalg.solve(H + np.outer(x, x), x) * (region.target_y + abs(x @ theta))
        distance = np.sqrt(move @ mechanism.precision @ move) / mechanism.scale
        attained = float(GaussianShift(distance).epsilon(region.delta)[0])
    row_y, target_y = -target.sign * y_bound, target.sign * target.y
    return WorstCase(found.upper, attained, delta, n, row, row_y, x, target_y, "upper", assumptions)


def _witness(region: Region, found: Found, unit: Floats) -> Floats:
    """Return the row of the n equal people; of the target (along ``unit``) a share p is empty, 1 - p along the row.

    Two atoms with the M and q found: ``m = 1/lambda`` (nobody there) and ``m' = (M high - q)/(high - M)``.
    """
    low, high = region.limits
    M, q, _ = found.where
    m = high if high - M <= SAME * high else min(max((M * high - q) / (high - M), low), high)
    p = 0.0 if region.flat or high - m <= CANCELLED * high else min(max((M - m) / (high - m), 0.0), 1.0)
    a = max(1 / m - region.mechanism.alpha, 0.0)
    along = np.sqrt(1 - p) * unit
    if p > 0:
        other = np.eye(len(unit))[int(np.argmin(np.abs(unit)))]
        other = other - (other @ unit) * unit
        along = along + np.sqrt(p) * other / np.linalg.norm(other)
    return min(np.sqrt(a / region.n) if region.n else 0.0, region.rows) * along
