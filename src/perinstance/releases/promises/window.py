"""The only openings through which an adaptive release sees confidential rows. Each look adds noise and is charged.

``ExactWindow`` is what ``fit`` uses: integer-exact statistics of clipped rows, draws on a public grid.
``SimulatedWindow`` answers the same questions with numpy's floating-point noise, for experiments; what it answers is
not private and is never published by ``fit``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import STEP_UP
from perinstance.releases.base.row_sums import halvings, lengths
from perinstance.sampling import (
    ExactGram,
    ExactPosterior,
    FixedRows,
    Noisy,
    NoisyEigenvalue,
    draw,
    exact_sums,
    fixed_rows,
)
from perinstance.sampling.ball_arithmetic import exact
from perinstance.sampling.ideal_laws import estimate


class PosteriorWindow(Protocol):
    """What AdaOPS asks about rows with ``||x|| <= B_x``, ``|y| <= B_y``. ``scale`` is a standard deviation."""

    @property
    def d(self) -> int:
        """Number of columns: public."""

    def count(self, scale: float) -> float:
        """``n + scale z``."""

    def eigenvalue(self, scale: float) -> float:
        """``lambda_min(X'X) + scale z``."""

    def log_size(self, ridge: float, x_bound: float, y_bound: float, scale: float) -> float:
        """``log(B_y + B_x ||theta||) + scale z`` with ``theta = (X'X + ridge I)^-1 X'y``."""

    def posterior(self, ridge: float, gamma: float) -> Floats:
        """One draw of ``N(theta, (X'X + ridge I)^-1 / gamma)``."""


class MomentWindow(Protocol):
    """What AdaSSP asks about the same rows."""

    @property
    def d(self) -> int:
        """Number of columns: public."""

    def totals(self, columns: int, bound: float, scales: Floats) -> Floats:
        """``(n, sum v, sum (v^2 - 1/2), sum (h - 4)) + scale z``, h the halvings of the first columns under the bound.

        Absent people (a missing cell) count nowhere. Without columns there are no halvings; where scales are one fewer,
        n is left out.
        """

    def column_totals(self, scales: Floats) -> Floats:
        """``(sums of u_j, sums of u_j^2) + scale z`` of rows as they are clipped here; half the scales: squares."""

    def framed(self, frame: StandardFrame) -> MomentWindow:
        """Return the window on the same people in other coordinates; there ``moment`` clips ``(y - x'theta) x``."""

    def gram(self, scale: float, known: float | None = None) -> Floats:
        """``X'X + E``, symmetric; ``scale`` on the diagonal, ``scale / sqrt(2)`` off it.

        That is isotropic noise in the Frobenius norm, in which one person moves ``X'X`` by ``||x||^2``. Where the
        square of the last column is ``known``, it stands there without noise, and is not looked at.
        """

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        """``sum_i clip(y_i - x_i'theta) x_i + scale z``: one person moves it by at most ``clip B_x``."""


class Window(PosteriorWindow, MomentWindow, Protocol):
    """All of these questions."""


#: One draw around exact sums of rows, coordinates independent, each with its scale.
Answer = Callable[[Sequence[Any], Sequence[float]], Floats]


def drawn(center: Sequence[Any], scales: Sequence[float]) -> Floats:
    """Draw, exactly and on the public grid."""
    return draw(Noisy(center, scales)).values


class ExactWindow:
    """Exact statistics of clipped rows, exact draws. There is no seed.

    In a frame the Gram matrix is that of rows clipped to its radius, and a moment sums ``(y - x'theta) x`` of rows that
    are not clipped, each product shortened to ``clip`` times the frame's bound: all of it in integers. Sums of rows are
    drawn by ``answer(center, scales)``; another one than ``drawn`` is for replays (``replayed_sums``).
    """

    def __init__(self, rows: FixedRows, frame: StandardFrame | None = None, answer: Answer = drawn) -> None:
        self._rows, self._frame, self._answer = rows, frame, answer
        self._X = rows.X
        if frame is not None:
            free = frame.columns(rows.X, rows.present)
            clipped = fixed_rows(free, rows.y, frame.radius, 1.0).X
            self._X = frame.with_ones(clipped, rows.present)
            self._free = frame.with_ones(free, rows.present)
        self._sums = ExactGram.of(self._X, rows.y)

    def framed(self, frame: StandardFrame) -> ExactWindow:
        """Return the window on the same people in other coordinates."""
        return ExactWindow(self._rows, frame, self._answer)

    def totals(self, columns: int, bound: float, scales: Floats) -> Floats:
        """Return noisy totals; see ``MomentWindow``."""
        here, sums = self._rows.present, self._sums
        n = int(here.sum())
        center: list[Any] = [n, *exact_sums(self._rows.y[:, None]), sums.fraction(sums.d, sums.d) - Fraction(n, 2)]
        if columns:
            center.append(int(halvings(self._rows.X[here, :columns], bound).sum()))
        return self._answer(center[len(center) - len(scales) :], list(scales))

    def column_totals(self, scales: Floats) -> Floats:
        """Return noisy totals of columns; see ``MomentWindow``."""
        center = [*exact_sums(self._X), *(self._sums.fraction(j, j) for j in range(self.d))]
        return self._answer(center[len(center) - len(scales) :], list(scales))

    @property
    def d(self) -> int:
        """Number of columns."""
        return self._sums.d

    def count(self, scale: float) -> float:
        """``n + scale z``."""
        return float(draw(Noisy([self._sums.n], scale)).values[0])

    def eigenvalue(self, scale: float) -> float:
        """``lambda_min(X'X) + scale z``."""
        return float(draw(NoisyEigenvalue(self._sums.normal_equations(), scale)).values[0])

    def log_size(self, ridge: float, x_bound: float, y_bound: float, scale: float) -> float:
        """``log(B_y + B_x ||theta||) + scale z``."""
        equations = self._sums.normal_equations(ridge)

        def center() -> Any:
            squares = [t * t for t in estimate(equations)]
            return (exact(y_bound) + exact(x_bound) * sum(squares[1:], squares[0]).sqrt()).log()

        return float(draw(Noisy([center], scale, work=self.d**3)).values[0])

    def posterior(self, ridge: float, gamma: float) -> Floats:
        """One posterior sample."""
        return draw(ExactPosterior(self._sums.normal_equations(ridge), gamma)).values

    def gram(self, scale: float, known: float | None = None) -> Floats:
        """``X'X + E``; the last entry as it is known."""
        rows, columns = np.triu_indices(self.d)
        rows, columns = (rows, columns) if known is None else (rows[:-1], columns[:-1])
        off_diagonal = math.nextafter(scale / math.sqrt(2.0), math.inf)
        scales = [scale if i == j else off_diagonal for i, j in zip(rows, columns, strict=True)]
        center = [self._sums.fraction(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]
        noisy = self._answer(center, scales) if center else np.empty(0)
        return _symmetric(noisy if known is None else np.append(noisy, known), self.d)

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        """``sum_i clip(y_i - x_i'theta) x_i + scale z``.

        A residual is a function of the row and of theta alone: columns are added one after the other, elementwise,
        because the rounding of a matrix product may depend on the rest of the table.
        """
        seen = self._X if self._frame is None else self._free
        residual = self._rows.y.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            for j, coefficient in enumerate(theta):
                residual -= seen[:, j] * coefficient
            if self._frame is not None:
                products = np.nan_to_num(seen * residual[:, None], nan=0.0)
                shortened_rows = fixed_rows(products, np.zeros(len(products)), clip * self._frame.x_bound, 1.0).X
                return self._answer(exact_sums(shortened_rows), [scale] * self.d)
        unit = math.ldexp(1.0, math.frexp(clip)[1] - 39)  # a public grid; truncation never grows a residual
        residual = np.trunc(np.clip(residual, -clip, clip) / unit) * unit
        sums = ExactGram.of(seen, residual)
        center: list[Fraction] = [sums.fraction(j, self.d) for j in range(self.d)]
        return self._answer(center, [scale] * self.d)


class SimulatedWindow:
    """Floating-point noise of a seeded generator: for experiments and benchmarks only, **not private**."""

    def __init__(self, X: Floats, y: Floats, rng: np.random.Generator, frame: StandardFrame | None = None) -> None:
        self._units, self._y, self._rng, self._frame = X, y, rng, frame
        self._X = self._free = X
        if frame is not None:
            everybody = np.ones(len(y), dtype=bool)
            self._X, self._free = frame.clipped_rows(X, everybody), frame.free_rows(X, everybody)
        self._G, self._b = self._X.T @ self._X, self._X.T @ y

    def framed(self, frame: StandardFrame) -> SimulatedWindow:
        """Return the window on the same people in other coordinates."""
        return SimulatedWindow(self._units, self._y, self._rng, frame)

    def totals(self, columns: int, bound: float, scales: Floats) -> Floats:
        """Return noisy totals; see ``MomentWindow``."""
        center = plain_totals(self._units[:, :columns], self._y, bound)[-len(scales) :]
        return center + scales * self._rng.standard_normal(len(scales))

    def column_totals(self, scales: Floats) -> Floats:
        """Return noisy totals of columns; see ``MomentWindow``."""
        return plain_column_totals(self._X)[-len(scales) :] + scales * self._rng.standard_normal(len(scales))

    @property
    def d(self) -> int:
        """Number of columns."""
        return self._X.shape[1]

    def count(self, scale: float) -> float:
        """``n + scale z``."""
        return len(self._y) + scale * self._rng.standard_normal()

    def eigenvalue(self, scale: float) -> float:
        """``lambda_min(X'X) + scale z``."""
        return float(np.linalg.eigvalsh(self._G)[0]) + scale * self._rng.standard_normal()

    def log_size(self, ridge: float, x_bound: float, y_bound: float, scale: float) -> float:
        """``log(B_y + B_x ||theta||) + scale z``."""
        theta = np.linalg.solve(self._ridged(ridge), self._b)
        return math.log(y_bound + x_bound * float(np.linalg.norm(theta))) + scale * self._rng.standard_normal()

    def posterior(self, ridge: float, gamma: float) -> Floats:
        """One posterior sample."""
        L = np.linalg.cholesky(self._ridged(ridge))
        w = np.linalg.solve(L, self._b) + self._rng.standard_normal(self.d) / math.sqrt(gamma)
        return np.linalg.solve(L.T, w)

    def gram(self, scale: float, known: float | None = None) -> Floats:
        """``X'X + E``."""
        Z = self._rng.standard_normal((self.d, self.d))
        noisy = self._G + scale * (Z + Z.T) / 2.0
        if known is not None:
            noisy[-1, -1] = known
        return noisy

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        """``sum_i clip(y_i - x_i'theta) x_i + scale z``."""
        return plain_moment(self._free, self._y, theta, clip, self._frame) + scale * self._rng.standard_normal(self.d)

    def _ridged(self, ridge: float) -> Floats:
        return self._G + ridge * np.eye(self.d)


def plain_totals(units: Floats, y: Floats, bound: float) -> Floats:
    """Return totals without noise, in floating point; see ``MomentWindow``."""
    boxed = [halvings(units, bound).sum()] if units.shape[1] else []
    return np.array([len(y), y.sum(), y @ y - len(y) / 2.0, *boxed])


def plain_column_totals(rows: Floats) -> Floats:
    """Return totals of columns without noise, in floating point."""
    return np.concatenate([rows.sum(axis=0), (rows**2).sum(axis=0)])


def plain_moment(X: Floats, y: Floats, theta: Floats, clip: float, frame: StandardFrame | None) -> Floats:
    """Return a moment without noise, in floating point; see ``ExactWindow``."""
    residual = y - X @ theta
    if frame is None:
        return X.T @ np.clip(residual, -clip, clip)
    return shortened(X * residual[:, None], clip * frame.x_bound).sum(axis=0)


def _symmetric(upper: Floats, d: int) -> Floats:
    """Fill a symmetric matrix from its upper triangle, row by row."""
    full = np.zeros((d, d))
    full[np.triu_indices(d)] = upper
    return full + np.triu(full, 1).T


@dataclass(frozen=True, slots=True, eq=False)
class StandardFrame:
    """A centre and a spread for every column; rows are clipped to ``radius``. ``weight``: of the ones, 0 for none."""

    center: Floats
    spread: Floats
    radius: float
    weight: float

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
        return self.with_ones(shortened(self.columns(units, present), self.radius), present)

    def in_units(self, theta: Floats, weight: float) -> Floats:
        """Return the coefficients of rows in units, whose column of ones has this weight."""
        slopes = theta[: len(self.center)] / self.spread
        if not self.weight:
            return slopes
        first = float(theta[-1]) * self.weight - math.fsum(slopes * self.center)
        return np.append(slopes, first / weight)


def shortened(rows: Floats, bound: float) -> Floats:
    """Shrink rows to a norm of at most ``bound``, in floating point: for experiments and readings alone."""
    norms = lengths(rows)
    return rows * np.minimum(1.0, bound / np.maximum(norms, bound))[:, None]
