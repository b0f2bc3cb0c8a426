"""What noisy means, sums and concave functions of sums share: a statistic of each column's exact sum, plus noise.

The release draws around ``f(S, n)``, S the exact sum of a column and n the number of people. Without k rows that add up
to x the centre is ``f(S - x, n - k)``: a rational number for means and sums, a ball for logarithms and roots. So what
several rows move together, and the log density ratio at what was published, are known to all digits.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from flint import fmpq
from numpy.typing import NDArray

from perinstance.event_log import LOG
from perinstance.folds.block import Block
from perinstance.folds.exact_column_sums import UNIT_BITS, column_sums
from perinstance.folds.sweep import People, Sweep
from perinstance.models.column_means import MeanFit, fit_means
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT, UPPER, Charged
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.pairs import GaussianShift, LaplaceShift
from perinstance.pairs.kinds import Method
from perinstance.releases.base.arguments import validated
from perinstance.releases.base.log_ratios import LogRatios, NoisySums, distance_of, output_of
from perinstance.releases.base.model_document import PublishedNumbers
from perinstance.releases.base.publishing import WritesModel
from perinstance.releases.base.rows_per_person import (
    largest_sums,
    refuse_more_rows,
    refuse_rows_of_people,
    rows_that_count,
    starts_of,
    used_rows,
)
from perinstance.sampling import draw, exact_sums
from perinstance.sampling.ball_arithmetic import Ball, exact
from perinstance.sampling.ideal_laws import Ideal
from perinstance.sampling.random_bits import Noise

PRECISION = 512  # bits, in which sums of floats of any size keep digits beyond any need


class ColumnStatistic(WritesModel):
    """One draw per column, of a statistic without a target: ``value_``."""

    grid: float
    scale: float
    rows_per_person: Any
    noise: Any = "gaussian"

    @abstractmethod
    def value_of(self, total: Any, people: int) -> Any:
        """Return f of a column's exact sum over so many people; ZeroDivisionError where nobody is left to divide by."""

    @abstractmethod
    def ideal(self, X: NDArray) -> Ideal:
        """Return the distribution that ``fit`` draws from, in exact numbers. It is confidential."""

    @abstractmethod
    def sizes(self, fit: MeanFit, sums: Floats, counts: NDArray[np.int64], inside: bool) -> Floats:
        """Return the ``residual`` of people with several rows, from the sums of their rows and how many they are."""

    def amounts(self, X: NDArray) -> NDArray:
        """Return the numbers that are added up."""
        return X

    def pairs_of(self, move: Charged, columns: int) -> GaussianShift | LaplaceShift:
        """Return the pairs of movements over the scale of the noise."""
        return GaussianShift(move.value, move.kind_code)

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> MeanFit:
        """Add up without a rounding error, in one pass."""
        self.mechanism()
        return fit_means(sweep.fold(lambda block: column_sums(Block(self.amounts(block.X), block.y, block.start))))

    def fit(self, X: Any, y: Any = None, ids: Any = None, **refused: Any) -> Any:
        """Publish one draw: ``value_``, and what follows from it; ``ids`` say whose row each is."""
        self._begin(refused)
        self.mechanism()
        table, X = X, validated(self, X, dtype=(np.float64, np.float32))
        used = used_rows(self, table, ids, len(X))
        self.value_ = draw(self.ideal(X[used]), self.grid).values
        LOG.info("%s published one draw", type(self).__name__)
        return self

    def published_numbers(self) -> PublishedNumbers:
        """Return one number per column."""
        return PublishedNumbers("values", values=self.value_)

    def persons(self, fit: MeanFit, block: Block, starts: NDArray, inside: bool = True) -> People:
        """Map: one pair for each person, whose rows stand together in the block and begin at ``starts``: exact.

        Of a sum of which only some of a person's rows are used, the distance is at most the sum of the longest ones of
        their rows: ``"upper"``.
        """
        rows = self.people(fit, block, inside)
        people, counts = starts_of(len(block), starts)
        k = rows_that_count(self, len(block))
        if self.mechanism().moved != "sum":
            refuse_more_rows(self, counts)
        alone: Any = rows.pairs
        distance = largest_sums(alone.distance, people, len(counts), k)
        kinds = np.where(counts > 1, UPPER, alone.codes[starts[:-1]])
        for i in np.flatnonzero((counts > 1) & (counts <= k)).tolist():
            pair = self.moved_together(fit, block.X[starts[i] : starts[i + 1]], inside)
            distance[i], kinds[i] = pair.distance[0], pair.codes[0]
        sums = np.add.reduceat(np.asarray(self.amounts(block.X), dtype=np.float64), starts[:-1], axis=0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            leverage = counts / (np.float64(fit.n_people) - counts * inside)
            residual = np.where(counts > 1, self.sizes(fit, sums, counts, inside), rows.residual[starts[:-1]])
        return People(leverage, residual, type(alone)(distance, kinds))

    def moved_together(self, fit: MeanFit, rows: NDArray, inside: bool = True) -> GaussianShift | LaplaceShift:
        """Return the one pair of several rows, which are in the table that was fitted (``inside``) or are not."""
        with working_precision(PRECISION):
            try:
                moves = self._moves(
                    fit, exact_sums(np.asarray(self.amounts(rows), dtype=np.float64)), len(rows), inside
                )
                distance = distance_of(moves, float(self.scale), 1 if self.noise == "laplace" else 2)
            except ZeroDivisionError:
                distance = np.inf
        return self.pairs_of(Charged(np.array([distance]), np.array([EXACT], dtype=np.uint8)), rows.shape[1])

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at what was published, or of people who are not in the table."""
        refuse_rows_of_people(self, "the realised loss")
        fit, output = self.confidential_fit(sweep), output_of(self, published, sweep.n_features)
        noise: Noise = self.noise

        def answer(block: Block) -> LogRatios:
            found: list[Ball | None] = []
            with working_precision(PRECISION):
                here = [exact(self.value_of(total, fit.n_people)) for total in _totals(fit)]
                drawn = NoisySums.of(output, here, [float(self.scale)] * len(here), noise)
                for row in np.asarray(self.amounts(block.X), dtype=np.float64).tolist():
                    try:
                        steps = self._moves(fit, row, 1, outside is None)
                        found.append(drawn.log_ratio(steps) if outside is None else -drawn.log_ratio(steps))
                    except ZeroDivisionError:  # without them nothing could have been published
                        found.append(None)
            return LogRatios.of(found)

        return LogRatios.concatenate(list((sweep if outside is None else outside).map(answer)))

    def _moves(self, fit: MeanFit, sums: Any, count: int, inside: bool) -> list[Ball]:
        """Return ``f(here) - f(there)`` of each column, there being without ``count`` rows (outside: with them)."""
        n, sign, found = fit.n_people, -1 if inside else 1, []
        for total, own in zip(_totals(fit), sums, strict=True):
            there = self.value_of(total + sign * fmpq(*own.as_integer_ratio()), n + sign * count)
            found.append(exact(self.value_of(total, n) - there))
        return found


def _totals(fit: MeanFit) -> list[Any]:
    return [fmpq(units, 1 << UNIT_BITS) for units in fit.units]
