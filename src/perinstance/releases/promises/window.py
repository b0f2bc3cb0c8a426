"""The only openings through which a promised release sees confidential rows. Each look adds noise and is charged.

Rows have ``||x|| <= B_x`` and ``|y| <= B_y``; every ``scale`` is a standard deviation, z is standard normal. ``fit``
looks through an ``ExactWindow``. A ``FloatWindow`` answers the questions of an ``ExactWindow`` in floating point.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import SteppedSweep, Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import STEP_UP
from perinstance.releases.base.row_sums import halvings, lengths, products
from perinstance.sampling import ExactGram, ExactPosterior, FixedRows, Noisy, draw, exact_sums, noisy_eigenvalue
from perinstance.sampling.ball_arithmetic import exact
from perinstance.sampling.fixed_point import fixed_rows
from perinstance.sampling.ideal_laws import estimate

HALF = 20  # bits: integers below 2^40 are cut into two halves
CHUNK = 1 << 12  # rows whose products of halves, below 2^40 each, float64 adds exactly

T = TypeVar("T")
#: One draw around exact sums of rows, coordinates independent, each with its scale.
Answer = Callable[[Sequence[Any], Sequence[float]], Floats]
#: Rows on grids, of rows (X, y) and who is present, each a function of its own row.
MapRows = Callable[[Floats, Floats, NDArray[np.bool_]], FixedRows]
#: The weight of each of some rows (X, y) in a sum, a function of the row alone.
Weigh = Callable[[Floats, Floats], Floats]


def drawn(center: Sequence[Any], scales: Sequence[float]) -> Floats:
    """Draw, exactly and on the public grid."""
    return draw(Noisy(center, scales)).values


def published_before(answers: Sequence[Floats]) -> Answer:
    """Return an answer that gives published numbers again, in their order: what follows is post-processing."""
    left = [np.asarray(one, dtype=np.float64) for one in answers]

    def answer(center: Sequence[Any], scales: Sequence[float]) -> Floats:
        # the last entry of a Gram matrix may be known, and not drawn
        if not left or len(left[0]) - len(center) not in (0, 1):
            raise InvalidInput("what was published does not fit the audited release; pass the fitted release itself")
        return left.pop(0)[: len(center)]

    return answer


class ExactWindow:
    """Exact statistics of clipped rows, exact draws. There is no seed.

    In a frame the Gram matrix is that of rows clipped to its radius, and a moment sums ``(y - x'theta) x`` of rows that
    are not clipped, each product shortened to ``clip`` times the frame's bound: all of it in integers. Sums of rows are
    drawn by ``answer(center, scales)``; another one than ``drawn`` is for replays.
    """

    def __init__(self, rows: FixedRows, frame: StandardFrame | None = None, answer: Answer = drawn) -> None:
        self._rows, self._frame, self._answer = rows, frame, answer
        self._X = self._free = rows.X
        if frame is not None:
            free = frame.columns(rows.X, rows.present)
            self._free = frame.with_ones(free, rows.present)
            if frame.whole:
                self._X = fixed_rows(self._free, rows.y, frame.x_bound, 1.0).X
            else:
                self._X = frame.with_ones(fixed_rows(free, rows.y, frame.radius, 1.0).X, rows.present)
        self._sums = ExactGram.of(self._X, rows.y)

    def framed(self, frame: StandardFrame) -> ExactWindow:
        """Return the window on the same people in other coordinates; there ``moment`` clips ``(y - x'theta) x``."""
        return ExactWindow(self._rows, frame, self._answer)

    def mapped(self, rows_of: MapRows, d: int) -> ExactWindow:
        """Return the window on rows that are made of these ones, each by itself; there are d columns."""
        return ExactWindow(rows_of(self._rows.X, self._rows.y, self._rows.present), None, self._answer)

    @property
    def d(self) -> int:
        """Number of columns: public."""
        return self._sums.d

    def totals(self, columns: int, bound: float, scales: Floats) -> Floats:
        """``(n, sum v, sum (v^2 - 1/2), sum (h - 4)) + scale z``, h the halvings of the first columns under the bound.

        Absent people (a missing cell) count nowhere. Without columns there are no halvings; where scales are one fewer,
        n is left out.
        """
        here, sums = self._rows.present, self._sums
        n = int(here.sum())
        center: list[Any] = [n, *exact_sums(self._rows.y[:, None]), sums.fraction(sums.d, sums.d) - Fraction(n, 2)]
        if columns:
            center.append(int(halvings(self._rows.X[here, :columns], bound).sum()))
        return self._answer(center[len(center) - len(scales) :], list(scales))

    def column_totals(self, scales: Floats) -> Floats:
        """``(sums of u_j, sums of u_j^2) + scale z`` of rows as they are clipped here; half the scales: squares."""
        center = [*exact_sums(self._X), *(self._sums.fraction(j, j) for j in range(self.d))]
        return self._answer(center[len(center) - len(scales) :], list(scales))

    def gram(self, scale: float, known: float | None = None) -> Floats:
        """``X'X + E``, symmetric; ``scale`` on the diagonal, ``scale / sqrt(2)`` off it.

        That is isotropic noise in the Frobenius norm, in which one person moves ``X'X`` by ``||x||^2``. Where the
        square of the last column is ``known``, it stands there without noise, and is not looked at.
        """
        return self._matrix(self._sums, scale, known)

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        """``sum_i clip(y_i - x_i'theta) x_i + scale z``: one person moves it by at most ``clip B_x``."""
        if self._frame is None:
            unit = math.ldexp(1.0, math.frexp(clip)[1] - 39)  # a public grid; truncation never grows a residual
            return self.weighted_sum(
                lambda X, y: np.trunc(np.clip(y - products(X, theta), -clip, clip) / unit) * unit, unit, scale
            )
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.nan_to_num(self._free * (self._rows.y - products(self._free, theta))[:, None], nan=0.0)
        return self._answer(exact_sums(_no_longer(moved, clip * self._frame.x_bound)), [scale] * self.d)

    def squared_residuals(self, theta: Floats, most: float, scale: float) -> float:
        """``sum_i min((y_i - x_i'theta)^2, most) + scale z``: one person moves it by at most ``most``."""
        squares = np.minimum(residuals(self._free, self._rows.y, theta) ** 2, most)
        return float(self._answer(exact_sums(squares[:, None]), [scale])[0])

    def score(self, theta: Floats, clip: float, longest: float, bound: float, scale: float) -> Floats:
        """``sum_i w_i clip(y_i - x_i'theta) x_i + scale z``, no summand longer than ``longest``; see ``weighted``."""
        rows = weighted(self._free, self._rows.y, theta, clip, bound)
        return self._answer(exact_sums(_no_longer(rows, longest)), [scale] * self.d)

    def meat(self, theta: Floats, clip: float, longest: float, bound: float, scale: float) -> Floats:
        """``sum_i s_i s_i' + E`` over the summands of a score: one person moves it by at most ``longest^2``."""
        rows = _no_longer(weighted(self._free, self._rows.y, theta, clip, bound), longest)
        return self._matrix(ExactGram.of(rows, np.zeros(len(rows))), scale)

    def _matrix(self, sums: ExactGram, scale: float, known: float | None = None) -> Floats:
        """Draw the upper half of a sum of outer products."""
        rows, columns = np.triu_indices(self.d)
        rows, columns = (rows, columns) if known is None else (rows[:-1], columns[:-1])
        off_diagonal = math.nextafter(scale / math.sqrt(2.0), math.inf)
        scales = [scale if i == j else off_diagonal for i, j in zip(rows, columns, strict=True)]
        center = [sums.fraction(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]
        full = np.full((self.d, self.d), 0.0 if known is None else known)
        if center:
            full[rows, columns] = full[columns, rows] = self._answer(center, scales)
        return full

    def weighted_sum(self, weigh: Weigh, unit: float, scale: float) -> Floats:
        """``sum_i w_i x_i + scale z``, the weights below ``2^40 unit`` and multiples of it, a public power of two.

        Rows and weights are integers below 2^40 times public units; each is cut into halves, whose products float64
        multiplies and adds exactly, in whatever order.
        """
        rows = self._rows
        weights, totals = weigh(rows.X, rows.y), np.full(rows.X.shape[1], 0, dtype=object)
        for start in range(0, len(weights), CHUNK):
            x, w = rows.X[start : start + CHUNK] / rows.x_grid, weights[start : start + CHUNK] / unit
            x_high, w_high = np.trunc(np.ldexp(x, -HALF)), np.trunc(np.ldexp(w, -HALF))
            for a, of_a in ((x_high, HALF), (x - np.ldexp(x_high, HALF), 0)):
                for b, of_b in ((w_high, HALF), (w - np.ldexp(w_high, HALF), 0)):
                    totals = totals + ((a.T @ b).astype(np.int64).astype(object) << (of_a + of_b))
        both = Fraction(rows.x_grid) * Fraction(unit)
        return self._answer([int(total) * both for total in totals], [scale] * self.d)

    def count(self, scale: float) -> float:
        """``n + scale z``."""
        return float(draw(Noisy([self._sums.n], scale)).values[0])

    def eigenvalue(self, scale: float) -> float:
        """``lambda_min(X'X) + scale z``."""
        return float(draw(noisy_eigenvalue(self._sums.normal_equations(), scale)).values[0])

    def log_size(self, ridge: float, x_bound: float, y_bound: float, scale: float) -> float:
        """``log(B_y + B_x ||theta||) + scale z`` with ``theta = (X'X + ridge I)^-1 X'y``."""
        equations = self._sums.normal_equations(ridge)

        def center() -> Any:
            squares = [t * t for t in estimate(equations)]
            return (exact(y_bound) + exact(x_bound) * sum(squares[1:], squares[0]).sqrt()).log()

        return float(draw(Noisy([center], scale, work=self.d**3)).values[0])

    def posterior(self, ridge: float, gamma: float) -> Floats:
        """One draw of ``N(theta, (X'X + ridge I)^-1 / gamma)``."""
        return draw(ExactPosterior(self._sums.normal_equations(ridge), gamma)).values


@dataclass(frozen=True)
class ClippedSweep(SteppedSweep):
    """The table as the release sees it: every block in units and clipped, with its column of ones."""

    sweep: Sweep
    clip: Callable[[Block], FixedRows]
    d: int  #: columns, that of ones included

    @property
    def n_features(self) -> int:
        """The number of columns, that of ones included."""
        return self.d

    @property
    def n_rows(self) -> int | None:
        """The number of rows, where it is known already."""
        return getattr(self.sweep, "n_rows", None)

    def stepped(self, step: Callable[[Block], T]) -> Callable[[Block], T]:
        """Return the step over a block of raw rows."""

        def clipped(block: Block) -> T:
            rows = self.clip(block)
            return step(Block(rows.X, rows.y, block.start))

        return clipped


class FloatWindow:
    """Floating-point answers, **not private**: with a generator for experiments, without noise for the curator.

    Without noise it shows what a release would typically look like. A row of zeros is an absent person.
    """

    def __init__(self, rows: Sweep, rng: np.random.Generator | None = None, frame: StandardFrame | None = None) -> None:
        self._rows, self._rng, self._frame = rows, rng, frame

    def framed(self, frame: StandardFrame) -> FloatWindow:
        """Return the window on the same people in other coordinates."""
        return FloatWindow(self._rows, self._rng, frame)

    def mapped(self, rows_of: MapRows, d: int) -> FloatWindow:
        """Return the window on rows that are made of these ones."""
        made = ClippedSweep(self._rows, lambda block: rows_of(block.X, block.y, np.asarray(block.X.any(axis=1))), d)
        return FloatWindow(made, self._rng)

    @property
    def d(self) -> int:
        """Number of columns."""
        return self._rows.n_features if self._frame is None else len(self._frame.center) + bool(self._frame.weight)

    def totals(self, columns: int, bound: float, scales: Floats) -> Floats:
        """Return noisy totals; see ``ExactWindow``."""

        def step(block: Block) -> Floats:
            here = block.X.any(axis=1)
            y, boxed = block.y[here], [halvings(block.X[here, :columns], bound).sum()] if columns else []
            return np.array([len(y), y.sum(), y @ y - len(y) / 2.0, *boxed])

        return self._noisy(self._rows.fold(step)[-len(scales) :], scales)

    def column_totals(self, scales: Floats) -> Floats:
        """Return noisy totals of columns; see ``ExactWindow``."""

        def step(block: Block) -> Floats:
            X = self._seen(block, clipped=True)
            return np.concatenate([X.sum(axis=0), (X**2).sum(axis=0)])

        return self._noisy(self._rows.fold(step)[-len(scales) :], scales)

    def gram(self, scale: float, known: float | None = None) -> Floats:
        """``X'X + E``."""
        noisy = self._matrix(self._moments()[1], scale)
        if known is not None:
            noisy[-1, -1] = known
        return noisy

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        """``sum_i clip(y_i - x_i'theta) x_i + scale z``."""

        def step(block: Block) -> Floats:
            X = self._seen(block)
            residual = block.y - X @ theta
            if self._frame is None:
                return X.T @ np.clip(residual, -clip, clip)
            return shortened(X * residual[:, None], clip * self._frame.x_bound).sum(axis=0)

        return self._noisy(self._rows.fold(step), scale)

    def squared_residuals(self, theta: Floats, most: float, scale: float) -> float:
        """``sum_i min((y_i - x_i'theta)^2, most) + scale z``."""

        def step(block: Block) -> Any:
            return np.minimum(residuals(self._seen(block), block.y, theta) ** 2, most).sum()

        return float(self._noisy(self._rows.fold(step), scale))

    def score(self, theta: Floats, clip: float, longest: float, bound: float, scale: float) -> Floats:
        """``sum_i w_i clip(y_i - x_i'theta) x_i + scale z``."""

        def step(block: Block) -> Floats:
            return weighted(self._seen(block), block.y, theta, clip, bound).sum(axis=0)

        return self._noisy(self._rows.fold(step), scale)

    def meat(self, theta: Floats, clip: float, longest: float, bound: float, scale: float) -> Floats:
        """``sum_i s_i s_i' + E`` over the summands of a score."""

        def step(block: Block) -> Floats:
            rows = weighted(self._seen(block), block.y, theta, clip, bound)
            return rows.T @ rows

        return self._matrix(self._rows.fold(step), scale)

    def weighted_sum(self, weigh: Weigh, unit: float, scale: float) -> Floats:
        """``sum_i w_i x_i + scale z``."""
        return self._noisy(self._rows.fold(lambda block: block.X.T @ weigh(block.X, block.y)), scale)

    def count(self, scale: float) -> float:
        """``n + scale z``."""
        return float(self._noisy(self._moments()[0], scale))

    def eigenvalue(self, scale: float) -> float:
        """``lambda_min(X'X) + scale z``."""
        return float(self._noisy(np.linalg.eigvalsh(self._moments()[1])[0], scale))

    def log_size(self, ridge: float, x_bound: float, y_bound: float, scale: float) -> float:
        """``log(B_y + B_x ||theta||) + scale z``."""
        _, G, b = self._moments()
        theta = np.linalg.lstsq(G + ridge * np.eye(self.d), b, rcond=None)[0]
        return float(self._noisy(np.log(y_bound + x_bound * np.linalg.norm(theta)), scale))

    def posterior(self, ridge: float, gamma: float) -> Floats:
        """One posterior sample."""
        _, G, b = self._moments()
        H = G + ridge * np.eye(self.d)
        theta = np.linalg.lstsq(H, b, rcond=None)[0].astype(np.float64)
        if self._rng is None:
            return theta
        return theta + np.linalg.solve(np.linalg.cholesky(H).T, self._rng.standard_normal(self.d)) / math.sqrt(gamma)

    def _matrix(self, center: Floats, scale: float) -> Floats:
        if self._rng is None:
            return center
        Z = self._rng.standard_normal((self.d, self.d))
        return center + scale * (Z + Z.T) / 2.0

    def _noisy(self, center: Any, scale: Any) -> Any:
        return center if self._rng is None else center + scale * self._rng.standard_normal(np.shape(center))

    def _moments(self) -> tuple[float, Floats, Floats]:
        """Return n, ``X'X`` and ``X'y`` of the rows as they are clipped here."""

        def step(block: Block) -> Floats:
            Z = np.column_stack([self._seen(block, clipped=True), block.y, np.ones(len(block))])
            return Z.T @ Z

        sums = self._rows.fold(step)
        return float(sums[-1, -1]), sums[:-2, :-2], sums[:-2, -2]

    def _seen(self, block: Block, clipped: bool = False) -> Floats:
        if self._frame is None:
            return block.X
        present = np.asarray(block.X.any(axis=1))
        return (self._frame.clipped_rows if clipped else self._frame.free_rows)(block.X, present)


Window = ExactWindow | FloatWindow


@dataclass(frozen=True, slots=True, eq=False)
class StandardFrame:
    """A centre and a spread for every column; rows are clipped to ``radius``. ``weight``: of the ones, 0 for none.

    Where rows are shortened ``whole``, their ones are too, to ``x_bound``: the Gram matrix then weighs long rows down.
    """

    center: Floats
    spread: Floats
    radius: float
    weight: float
    whole: bool = False

    @property
    def x_bound(self) -> float:
        """The largest norm of a clipped row, the column of ones included; rounded up."""
        return math.sqrt(self.radius**2 + self.weight**2) * STEP_UP

    def columns(self, units: Floats, present: NDArray[np.bool_]) -> Floats:
        """Return ``w`` without the ones, one rounded operation after the other; the rows of absent people are zero."""
        w = (units[:, : len(self.center)] - self.center) / self.spread
        return np.where(present[:, None], w, 0.0)

    def with_ones(self, columns: Floats, present: NDArray[np.bool_]) -> Floats:
        """Append the column of ones, where there is one."""
        if not self.weight:
            return columns
        return np.column_stack([columns, np.where(present, self.weight, 0.0)])

    def free_rows(self, units: Floats, present: NDArray[np.bool_]) -> Floats:
        """Return whole rows, as long as they are."""
        return self.with_ones(self.columns(units, present), present)

    def clipped_rows(self, units: Floats, present: NDArray[np.bool_]) -> Floats:
        """Return whole rows clipped to the radius in floating point: for experiments and readings."""
        if self.whole:
            return shortened(self.free_rows(units, present), self.x_bound)
        return self.with_ones(shortened(self.columns(units, present), self.radius), present)

    def in_units(self, theta: Floats, weight: float) -> Floats:
        """Return the coefficients of rows in units, whose column of ones has this weight."""
        slopes = theta[: len(self.center)] / self.spread
        if not self.weight:
            return slopes
        first = float(theta[-1]) * self.weight - math.fsum(slopes * self.center)
        return np.append(slopes, first / weight)


def residuals(X: Floats, y: Floats, theta: Floats) -> Floats:
    """Return ``y - x'theta``; what is no number any more (a row beyond all floats) is infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num(y - products(X, theta), nan=math.inf, posinf=math.inf, neginf=-math.inf)


def weighted(X: Floats, y: Floats, theta: Floats, clip: float, bound: float) -> Floats:
    """Return ``w clip(y - x'theta) x`` of each row, ``w = min(1, (bound/||x||)^2)``: no longer than ``clip bound``."""
    with np.errstate(over="ignore", invalid="ignore"):
        shrunk = bound / np.maximum(lengths(X), bound)
        return X * (shrunk * shrunk * np.clip(residuals(X, y, theta), -clip, clip))[:, None]


def _no_longer(rows: Floats, longest: float) -> Floats:
    """Shorten rows to this length in integers."""
    return fixed_rows(rows, np.zeros(len(rows)), longest, 1.0).X


def shortened(rows: Floats, bound: float) -> Floats:
    """Shrink rows to a norm of at most ``bound``, in floating point: for experiments and readings alone."""
    norms = lengths(rows)
    return rows * np.minimum(1.0, bound / np.maximum(norms, bound))[:, None]
