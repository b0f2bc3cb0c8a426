"""The region of all data sets: two numbers say all that a worst case needs to know of one.

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

import numpy as np

from perinstance.analysis.bounds.branch_and_bound import Found, grid, search
from perinstance.analysis.bounds.monotone_losses import objective_pairs
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP
from perinstance.pairs import GaussianShift, PosteriorSamplePair
from perinstance.releases.base.release import Mechanism


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
            return np.asarray(PosteriorSamplePair(t**2 * M, r / c.scale).epsilon(self.delta))
        if c.family == "output":
            return np.asarray(
                GaussianShift(r * t * np.sqrt(self.stretch * q) / c.scale / (1 + t**2 * M)).epsilon(self.delta)
            )
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
        best = np.clip(np.sqrt(low * high), M1, M2)
        ratio = M2 + c2 * self.bow(best) / best
        k = np.clip(1.0, t1**2 * M1, t2**2 * M2)
        r = self.residual(t2, M2 - self.mechanism.alpha * least) * BOUND_UP
        # q - M^2 = c bow(M) <= c2 bow
        movement = np.sqrt(self.stretch * ratio * k) / (1 + k)
        return r, movement * BOUND_UP, t2**2 * M2 * BOUND_UP, t2**2 * np.sqrt(c2 * bow) * BOUND_UP

    def parameters(self, cells: Floats) -> tuple[Floats, ...]:
        """See ``Landscape``."""
        r, movement, mu, kappa = self.corner(cells)
        scaled = r / self.mechanism.scale
        if self.mechanism.family == "objective":
            return scaled * cells[5], mu, kappa
        return (mu, scaled) if self.mechanism.family == "posterior" else (scaled * movement,)

    def explore(self, cells: Floats) -> Found:
        """Try the data sets at the corners of these cells."""
        M, c, t = (np.concatenate([cells[2 * j], cells[2 * j + 1]]) for j in range(3))
        q = M**2 + c * self.bow(M)
        value = self.loss(M, q, t)
        top = int(np.argmax(value))
        return Found(np.inf, float(value[top]), np.array([M[top], q[top], t[top]]))

    @property
    def geometric(self) -> tuple[bool | None, ...]:
        """Which of M, c and t to halve."""
        return (True, None if self.flat else False, True if self.shorter else None)

    @property
    def stretch(self) -> float:
        """The largest eigenvalue of the public precision A of output perturbation."""
        A = self.mechanism.precision
        return 1.0 if A is None else float(np.linalg.eigvalsh(A)[-1]) * BOUND_UP

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
