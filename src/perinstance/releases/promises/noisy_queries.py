"""The only openings through which an adaptive release sees confidential rows. Each look adds noise and is charged.

``ExactWindow`` is what ``fit`` uses: integer-exact statistics of clipped rows, draws on a public grid.
``SimulatedWindow`` answers the same questions with numpy's floating-point noise, for experiments; what it answers is
not private and is never published by ``fit``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.sampling import ExactGram, ExactPosterior, FixedRows, Noisy, NoisyEigenvalue, draw
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

    def gram(self, scale: float) -> Floats:
        """``X'X + E``, symmetric; ``scale`` on the diagonal, ``scale / sqrt(2)`` off it.

        That is isotropic noise in the Frobenius norm, in which one person moves ``X'X`` by ``||x||^2``.
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

    Sums of rows are drawn by ``answer(center, scales)``; another one than ``drawn`` is for replays (``replayed_sums``).
    """

    def __init__(self, rows: FixedRows, answer: Answer | None = None) -> None:
        self._rows = rows
        self._sums = ExactGram.of(rows.X, rows.y)
        self._answer = drawn if answer is None else answer

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

    def gram(self, scale: float) -> Floats:
        """``X'X + E``."""
        rows, columns = np.triu_indices(self.d)
        off_diagonal = math.nextafter(scale / math.sqrt(2.0), math.inf)
        scales = [scale if i == j else off_diagonal for i, j in zip(rows, columns, strict=True)]
        center = [self._sums.fraction(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]
        return _symmetric(self._answer(center, scales), self.d)

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        """``sum_i clip(y_i - x_i'theta) x_i + scale z``.

        A residual is a function of the row and of theta alone: columns are added one after the other, elementwise,
        because the rounding of a matrix product may depend on the rest of the table.
        """
        residual = self._rows.y.copy()
        for j, coefficient in enumerate(theta):
            residual -= self._rows.X[:, j] * coefficient
        unit = math.ldexp(1.0, math.frexp(clip)[1] - 39)  # a public grid; truncation never grows a residual
        residual = np.trunc(np.clip(residual, -clip, clip) / unit) * unit
        sums = ExactGram.of(self._rows.X, residual)
        center: list[Fraction] = [sums.fraction(j, self.d) for j in range(self.d)]
        return self._answer(center, [scale] * self.d)


class SimulatedWindow:
    """Floating-point noise of a seeded generator: for experiments and benchmarks only, **not private**."""

    def __init__(self, X: Floats, y: Floats, rng: np.random.Generator, gram: Floats | None = None) -> None:
        self._X, self._y, self._rng = X, y, rng
        self._G = X.T @ X if gram is None else gram
        self._b = X.T @ y

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

    def gram(self, scale: float) -> Floats:
        """``X'X + E``."""
        Z = self._rng.standard_normal((self.d, self.d))
        return self._G + scale * (Z + Z.T) / 2.0

    def moment(self, theta: Floats, clip: float, scale: float) -> Floats:
        """``sum_i clip(y_i - x_i'theta) x_i + scale z``."""
        residual = np.clip(self._y - self._X @ theta, -clip, clip)
        return self._X.T @ residual + scale * self._rng.standard_normal(self.d)

    def _ridged(self, ridge: float) -> Floats:
        return self._G + ridge * np.eye(self.d)


def _symmetric(upper: Floats, d: int) -> Floats:
    """Fill a symmetric matrix from its upper triangle, row by row."""
    full = np.zeros((d, d))
    full[np.triu_indices(d)] = upper
    return full + np.triu(full, 1).T
