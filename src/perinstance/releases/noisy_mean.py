"""A noisy mean or sum: the township of the paper, and the richest person on earth who does not live there.

``ColumnStatistic`` has what means, sums and concave functions of sums (``transformed_sum``) share. The release draws
around ``f(S, n)``, S the exact sum of a column and n the number of people. Without k rows that add up to x the centre
is ``f(S - x, n - k)``: a rational number for means and sums, a ball for logarithms and roots. So what several rows move
together, and the log density ratio at what was published, are known to all digits.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from flint import fmpq
from numpy.typing import NDArray

from perinstance.checked_numbers import one_of, positive
from perinstance.errors import RefusedModel
from perinstance.event_log import LOG
from perinstance.folds.block import Block
from perinstance.folds.exact_column_sums import UNIT_BITS, column_sums
from perinstance.folds.sweep import People, Sweep
from perinstance.models.column_means import MeanFit, fit_means, gaps_from_mean, gaps_from_zero
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT, UPPER, Charged, charge
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.pairs import GaussianShift, LaplaceShift
from perinstance.pairs.kinds import Method
from perinstance.releases.base.arguments import validated
from perinstance.releases.base.log_ratios import (
    LogRatios,
    NoisySums,
    OwnRowLoss,
    PublicFacts,
    distance_of,
    one_pair,
    one_row,
    output_of,
)
from perinstance.releases.base.model_document import PublishedNumbers
from perinstance.releases.base.publishing import Law, WritesModel
from perinstance.releases.base.release import Mechanism, Moved
from perinstance.releases.base.rows_per_person import (
    largest_sums,
    refuse_fit_of_more_rows,
    refuse_more_rows,
    refuse_rows_of_people,
    rows_that_count,
    rows_words,
    starts_of,
    used_rows,
)
from perinstance.releases.base.weighted_rows import refuse_own_row, row_weights, weighing_of
from perinstance.sampling import GRID, Noisy, draw, exact_sums
from perinstance.sampling.ball_arithmetic import Ball, exact
from perinstance.sampling.ideal_laws import Ideal
from perinstance.sampling.random_bits import NOISES, Noise

PRECISION = 512  # bits, in which sums of floats of any size keep digits beyond any need


class ColumnStatistic(WritesModel):
    """One draw per column, of a statistic without a target: ``value_``."""

    grid: float
    scale: float
    rows_per_person: Any
    noise: Any = "gaussian"
    weighted_ = False  #: whether ``fit`` was given weights

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
        if self.mechanism().moved != "sum":
            refuse_fit_of_more_rows(self, sweep)
        return fit_means(sweep.fold(lambda block: column_sums(Block(self.amounts(block.X), block.y, block.start))))

    def fit(self, X: Any, y: Any = None, ids: Any = None, **more: Any) -> Any:
        """Publish one draw: ``value_``, and what follows from it; ``ids`` say whose row each is.

        ``sample_weight`` are weights of rows, of a sum.
        """
        weights = self._begin(more, weights=True)
        self.mechanism()
        table, X = X, validated(self, X, dtype=(np.float64, np.float32))
        self.weighted_ = weights is not None
        if weights is not None:
            X, _ = weighing_of(self).rows(X, np.zeros(len(X)), row_weights(table, weights, len(X)))
        used = used_rows(self, table, ids, len(X))
        self.value_ = draw(self.ideal(X[used]), self.grid).values
        LOG.info("%s published one draw", type(self).__name__)
        return self

    def published_parameters(self) -> dict[str, Any]:
        """Tell that rows were weighted: whoever audits the release needs the weights."""
        return {"weighted_": True} if self.weighted_ else {}

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
                sums = exact_sums(np.asarray(self.amounts(rows), dtype=np.float64))
                moves = self._moves(fit, self._values(fit), sums, len(rows), inside)
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
                here = self._values(fit)
                drawn = NoisySums.of(output, [value for _, value in here], [float(self.scale)] * len(here), noise)
                for row in np.asarray(self.amounts(block.X), dtype=np.float64).tolist():
                    try:
                        steps = self._moves(fit, here, row, 1, outside is None)
                        found.append(drawn.log_ratio(steps) if outside is None else -drawn.log_ratio(steps))
                    except ZeroDivisionError:  # without them nothing could have been published
                        found.append(None)
            return LogRatios.of(found)

        return LogRatios.concatenate(list((sweep if outside is None else outside).map(answer)))

    def _values(self, fit: MeanFit) -> list[tuple[Any, Any]]:
        """Return each column's sum, a rational number, and its statistic with everybody."""
        totals = [fmpq(units, 1 << UNIT_BITS) for units in fit.units]
        return [(total, self.value_of(total, fit.n_people)) for total in totals]

    def _moves(self, fit: MeanFit, here: Any, sums: Any, count: int, inside: bool) -> list[Ball]:
        """Return ``f(here) - f(there)`` of each column, there being without ``count`` rows (outside: with them)."""
        n, sign = fit.n_people, -1 if inside else 1
        own = (fmpq(*number.as_integer_ratio()) for number in sums)
        there = (self.value_of(total + sign * x, n + sign * count) for (total, _), x in zip(here, own, strict=True))
        return [exact(value - other) for (_, value), other in zip(here, there, strict=True)]


class NoisyMean(ColumnStatistic):
    """The mean (or the sum) of each column plus independent noise; there is no target.

    ``mean_with - mean_without = (x - mean_without) / (n + 1)``, n people without the person. A sum moves by ``x``.

    Parameters
    ----------
    scale
        Of the noise: the standard deviation (Gaussian) or the Laplace scale.
    noise
        ``"laplace"`` (the l1 norm of the movement counts) or ``"gaussian"`` (the l2 norm).
    statistic
        ``"mean"`` or ``"sum"``.
    grid
        The public power of two to whose multiples ``fit`` rounds.
    rows_per_person
        How many rows of a person are used at most, where people may have several; ``fit`` is then given ``ids``. Of who
        has more so many are drawn. None: a row is a person, and an id that repeats is refused.
    """

    def __init__(
        self,
        scale: float = 1.0,
        noise: str = "laplace",
        statistic: str = "mean",
        grid: float = GRID,
        rows_per_person: int | None = None,
    ) -> None:
        self.scale = scale
        self.noise = noise
        self.statistic = statistic
        self.grid = grid
        self.rows_per_person = rows_per_person

    def mechanism(self) -> Mechanism:
        """Describe the release: means or sums plus independent noise."""
        scale, noise, statistic = self._declared()
        return Mechanism(
            name="NoisyMean",
            moved=statistic,
            family="output",
            noise=noise,
            scale=scale,
            words=(f"a {statistic} with {noise} noise of scale ", scale, *rows_words(self)),
            needs_target=False,
            own_row=statistic == "sum" and self.rows_per_person is None,
        )

    def _declared(self) -> tuple[float, Noise, Moved]:
        scale = positive("scale", self.scale)
        noise: Noise = "laplace" if one_of("noise", self.noise, NOISES) == "laplace" else "gaussian"
        statistic: Moved = "sum" if one_of("statistic", self.statistic, ("mean", "sum")) == "sum" else "mean"
        return scale, noise, statistic

    def people(self, fit: MeanFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block. ``residual`` is the norm of ``x - mean_without``."""
        n, scale = fit.n_people, float(self.scale)
        order = 1 if self.noise == "laplace" else 2
        gaps = gaps_from_mean(fit, block.X, order)
        others = n - inside
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            leverage = np.full(len(block.X), np.float64(1.0) / others)
            residual = gaps.size
            if inside:  # x - mean_without = (x - mean_with) n / (n - 1), and there is no mean of nobody
                residual = residual * (np.float64(n) / others if others else np.nan)
        if self.statistic == "sum":
            move = gaps_from_zero(block.X, order).over(1.0, scale)
        elif others:
            move = gaps.over(float(n - 1 if inside else n + 1), scale)
        else:
            move = charge(np.full(len(block.X), np.inf), 0.0)
        return People(leverage, residual, self.pairs_of(move, block.X.shape[1]))

    def sizes(self, fit: MeanFit, sums: Floats, counts: NDArray[np.int64], inside: bool) -> Floats:
        """Return the norms of ``mean of a person's rows - mean_without``."""
        apart = fit.n_people / (np.float64(fit.n_people) - counts) if inside else np.ones(len(counts))
        gaps = (sums / counts[:, None] - fit.theta) * apart[:, None]
        return np.asarray(np.linalg.norm(gaps, ord=1 if self.noise == "laplace" else None, axis=1))

    def pairs_of(self, move: Charged, columns: int) -> GaussianShift | LaplaceShift:
        """Return the pairs of these movements.

        Laplace noise on several columns: the sum of the columns' losses, each no more than its part of the l1 norm, is
        bounded by one column that moves by all of it; equal only at delta = 0.
        """
        if self.noise != "laplace":
            return GaussianShift(move.value, move.kind_code)
        bounded = (columns > 1) & (move.value > 0.0) & np.isfinite(move.value)
        return LaplaceShift(move.value, np.where(bounded, np.maximum(move.kind_code, UPPER), move.kind_code))

    def value_of(self, total: Any, people: int) -> Any:
        """Return a sum, or a mean of so many people: rational numbers."""
        return total / people if self.statistic == "mean" else total

    def ideal(self, X: NDArray) -> Noisy:
        """Return the exact sums or means and the noise: what ``fit`` draws from."""
        scale, noise, _ = self._declared()
        return Noisy([self.value_of(total, len(X)) for total in exact_sums(X)], scale, noise)

    def law(self, fit: MeanFit) -> Law:
        """Return the mean (or sum) and the noise."""
        mean = fit.theta if self.statistic == "mean" else fit.theta * fit.n_people
        return Law(mean, float(self.scale) * np.eye(len(mean)), self.noise)

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return the loss of one person from their own row; of a sum, which moves by the row itself."""
        refuse_own_row(self)
        if self.mechanism().moved != "sum":
            raise RefusedModel("what a mean costs a person depends on the others' mean; publish a sum to tell them")
        refuse_rows_of_people(self, "the loss that follows from one row")
        found = gaps_from_zero(one_row(x), 1 if self.noise == "laplace" else 2).over(1.0, float(self.scale))
        return one_pair(self.pairs_of(found, len(x)), delta, ())
