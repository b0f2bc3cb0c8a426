"""The only opening through which a promised release sees confidential rows: exact sums over people, with noise added.

Rows have ``||x|| <= B_x`` and ``|y| <= B_y``. Every question is a sum over the rows of a function of one row and of
what was published before, added up without a rounding error, whatever the order of rows; every ``scale`` is a standard
deviation. Whoever asks says how far one row can move the sum, and chooses the scale by that. Of rows with weights in
[0, 1] each part of a sum is multiplied by the weight, so it moves the sum no further.

What is added is the window's ``draw``. ``drawn`` is the only private one: exact draws on the public grid, without a
seed. ``published_before`` repeats what was published, for replays; ``simulated`` adds floating-point noise, or none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import SteppedSweep, Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.releases.base.log_ratios import NoisySums, cell
from perinstance.sampling import GRID, ExactGram, ExactPosterior, FixedRows, Noisy, draw, exact_sums, noisy_eigenvalue
from perinstance.sampling.ball_arithmetic import Ball, exact, product
from perinstance.sampling.ideal_laws import estimate, factor

PRECISION = 256  # bits: rows are on a grid, sums of products of them need about a hundred

T = TypeVar("T")
#: One draw of a distribution that is described in exact numbers.
Draw = Callable[[Noisy | ExactPosterior], Floats]
#: A row of numbers for each of some rows, which follow from the row alone.
RowsOf = Callable[[FixedRows], Floats]


def drawn(ideal: Noisy | ExactPosterior) -> Floats:
    """Draw, exactly and on the public grid."""
    return draw(ideal).values


def published_before(answers: Sequence[Floats]) -> Draw:
    """Return a draw that gives published numbers again, in their order: what follows is post-processing."""
    left = [np.asarray(one, dtype=np.float64) for one in answers]

    def again(ideal: Noisy | ExactPosterior) -> Floats:
        # the last entry of a Gram matrix may be known, and not drawn
        if not left or len(left[0]) - ideal.d not in (0, 1):
            raise InvalidInput("what was published does not fit the audited release; pass the fitted release itself")
        return left.pop(0)[: ideal.d]

    return again


def simulated(rng: np.random.Generator | None = None) -> Draw:
    """Return a draw in floating point, **not private**: for experiments; without a generator the centre itself."""

    def answer(ideal: Noisy | ExactPosterior) -> Floats:
        z = np.zeros(ideal.d) if rng is None else rng.standard_normal(ideal.d)
        with working_precision(PRECISION):
            if isinstance(ideal, Noisy):
                center = [float(exact(c).mid()) if callable(c) else float(c) for c in ideal.center]
                return np.array(center) + np.asarray(ideal.scale, dtype=np.float64) * z
            W = factor(ideal.equations)
            noisy = [a + v for a, v in zip(product(W, ideal.equations.right_side()), z / ideal.gamma**0.5, strict=True)]
            return np.array([float(t.mid()) for t in product(W.transpose(), noisy)])

    return answer


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
            rows = self.clip(block).scaled()
            return step(Block(rows.X, rows.y, block.start))

        return clipped


class Window:
    """Sums over clipped rows, in memory or wherever a sweep finds them, and what ``draw`` makes of them.

    Of rows whose exact Gram matrix is all that is known, nothing else can be asked than what follows from it.
    """

    def __init__(self, rows: FixedRows | ClippedSweep | ExactGram, draw: Draw = drawn) -> None:
        self._rows, self._draw = rows, draw

    @property
    def d(self) -> int:
        """Number of columns: public."""
        return self._rows.X.shape[1] if isinstance(self._rows, FixedRows) else self._rows.d

    def mapped(self, rows_of: Callable[[FixedRows], FixedRows], d: int) -> Window:
        """Return the window on rows that are made of these ones, each by itself; there are d columns."""
        rows: Any = self._rows
        if isinstance(rows, FixedRows):
            return Window(rows_of(rows), self._draw)
        return Window(ClippedSweep(rows.sweep, lambda block: rows_of(rows.clip(block)), d), self._draw)

    def sums(self, of: RowsOf, scales: Sequence[float] | Floats) -> Floats:
        """``sum_i of(row i) + scales z``."""
        total = self._fold(lambda rows: np.array(exact_sums(_times(of(rows), rows.weights)), dtype=object))
        return self._draw(Noisy(total.tolist(), list(scales)))

    def outer(self, of: RowsOf, scale: float, known: float | None = None, twice: bool = False) -> Floats:
        """``sum_i s_i s_i' + E`` with ``s_i = of(row i)``: ``scale`` on the diagonal, ``scale / sqrt(2)`` off it.

        That is isotropic noise in the Frobenius norm, in which one row moves the sum by ``||s||^2``. Where the square
        of the last column is ``known``, it stands there without noise, and is not looked at. ``twice``: a row's weight
        counts squared, as in the variance of a weighted sum.
        """

        def summed(rows: FixedRows) -> ExactGram:
            weights = rows.weights if twice or rows.weights is None else np.sqrt(rows.weights)
            return ExactGram.of(_times(of(rows), weights), np.zeros(len(rows.y)))

        sums = self._fold(summed)
        rows, columns = (part[: None if known is None else -1] for part in np.triu_indices(sums.d))
        off_diagonal = math.nextafter(scale / math.sqrt(2.0), math.inf)
        scales = [scale if i == j else off_diagonal for i, j in zip(rows, columns, strict=True)]
        full = np.full((sums.d, sums.d), 0.0 if known is None else known)
        if scales:
            center = [sums.fraction(int(i), int(j)) for i, j in zip(rows, columns, strict=True)]
            full[rows, columns] = full[columns, rows] = self._draw(Noisy(center, scales))
        return full

    def count(self, scale: float) -> float:
        """``n + scale z``."""
        return float(self._draw(Noisy([self._sums.n], scale))[0])

    def eigenvalue(self, scale: float) -> float:
        """``lambda_min(X'X) + scale z``."""
        return float(self._draw(noisy_eigenvalue(self._sums.normal_equations(), scale))[0])

    def log_size(self, ridge: float, x_bound: float, y_bound: float, scale: float) -> float:
        """``log(B_y + B_x ||theta||) + scale z`` with ``theta = (X'X + ridge I)^-1 X'y``."""
        equations = self._sums.normal_equations(ridge)

        def center() -> Ball:
            squares = [t * t for t in estimate(equations)]
            return (exact(y_bound) + exact(x_bound) * sum(squares[1:], squares[0]).sqrt()).log()

        return float(self._draw(Noisy([center], scale, work=self.d**3))[0])

    def posterior(self, ridge: float, gamma: float) -> Floats:
        """One draw of ``N(theta, (X'X + ridge I)^-1 / gamma)``."""
        return self._draw(ExactPosterior(self._sums.normal_equations(ridge), gamma))

    @cached_property
    def _sums(self) -> ExactGram:
        return (
            self._rows if isinstance(self._rows, ExactGram) else self._fold(lambda rows: ExactGram.of(rows.X, rows.y))
        )

    def _fold(self, step: Callable[[FixedRows], Any]) -> Any:
        rows: Any = self._rows
        if isinstance(rows, FixedRows):
            return step(rows)
        return rows.sweep.fold(lambda block: step(rows.clip(block)))


def _times(parts: Floats, weights: Floats | None) -> Floats:
    """Return the rows' parts times their weights: a weight is at most one, so no entry grows."""
    return parts if weights is None else parts * weights[:, None]


def asked(run: Callable[[Window], Any], rows: FixedRows, answers: list[Floats]) -> list[tuple[Floats, Noisy]]:
    """Run a mechanism on published numbers: each of them, with the exact sums of these rows and the scales.

    Everything that is asked is a sum over people of a function of one row and of what was published before: what one
    row alone answers is the step by which the person moved the sum.
    """
    found: list[tuple[Floats, Noisy]] = []
    replay = published_before(answers)

    def answer(ideal: Any) -> Floats:
        found.append((replay(ideal), ideal))
        return found[-1][0]

    run(Window(rows, answer))
    if len(found) != len(answers):
        raise InvalidInput("what was published does not fit the audited release; pass the fitted release itself")
    return found


def replayed_log_ratios(run: Callable[[Window], Any], rows: FixedRows, answers: list[Floats]) -> list[Ball]:
    """Return ``log q/p`` of everybody at all sums that were published."""
    with working_precision(PRECISION):
        whole = [
            NoisySums.of(cell(values, GRID), list(sums.center), sums.scale, "gaussian")
            for values, sums in asked(run, rows, answers)
        ]

        def log_ratio(i: int) -> Ball:
            own = asked(run, rows.picked(slice(i, i + 1)), answers)
            steps = zip(whole, own, strict=True)
            return sum((one.log_ratio(exact(u) for u in sums.center) for one, (_, sums) in steps), exact(0))

        return [log_ratio(i) for i in range(len(rows.y))]
