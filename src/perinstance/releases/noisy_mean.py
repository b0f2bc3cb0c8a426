"""A noisy mean or sum: the township of the paper, and the richest person on earth who does not live there."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from perinstance.checked_numbers import one_of, positive
from perinstance.errors import RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import People, Sweep
from perinstance.models.column_means import MeanFit, fit_means, gaps_from_mean, gaps_from_zero
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import UPPER, Charged, charge
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.pairs import GaussianShift, LaplaceShift
from perinstance.pairs.kinds import Method
from perinstance.releases.base.log_ratios import LogRatios, NoisySums, distance_of, output_of
from perinstance.releases.base.own_row import OwnRowLoss, PublicFacts, one_pair, one_row
from perinstance.releases.base.publishing import Law, PublishesColumns
from perinstance.releases.base.release import Mechanism, Moved
from perinstance.releases.base.rows_per_person import (
    largest_sums,
    refuse_more_rows,
    refuse_rows_of_people,
    rows_that_count,
    rows_words,
    starts_of,
)
from perinstance.sampling import GRID, ExactGram, Noisy, exact_sums
from perinstance.sampling.ball_arithmetic import Ball, exact
from perinstance.sampling.random_bits import NOISES, Noise

PRECISION = 512  # bits, in which sums of floats of any size keep digits beyond any need


class NoisyMean(PublishesColumns):
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

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> MeanFit:
        """Add up without a rounding error, in one pass."""
        self._declared()
        return fit_means(sweep)

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
        return People(leverage, residual, self._pair(move, block.X.shape[1]))

    def persons(self, fit: MeanFit, block: Block, starts: NDArray, inside: bool = True) -> People:
        """Map: one pair for each person, whose rows stand together in the block and begin at ``starts``.

        A sum moves by the sum of their rows, a mean by ``sum(x - mean)/(n - k)``: exact. Of a sum of which only some of
        their rows are used, the distance is at most the sum of the longest: ``"upper"``. ``residual`` is the norm of
        ``mean of their rows - mean_without``.
        """
        rows = self.people(fit, block, inside)
        people, counts = starts_of(len(block), starts)
        k = rows_that_count(self, len(block))
        if self.statistic == "mean":
            refuse_more_rows(self, counts)
        alone: Any = rows.pairs
        distance = largest_sums(alone.distance, people, len(counts), k)
        kinds = np.where(counts > 1, UPPER, alone.codes[starts[:-1]])
        for i in np.flatnonzero((counts > 1) & (counts <= k)).tolist():
            pair = self.moved_together(fit, block.X[starts[i] : starts[i + 1]], inside)
            distance[i], kinds[i] = pair.distance[0], pair.codes[0]
        others = np.float64(fit.n_people) - counts * inside
        own = np.add.reduceat(np.asarray(block.X, dtype=np.float64), starts[:-1], axis=0) / counts[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            gap = (own - fit.theta) * (np.float64(fit.n_people) / others if inside else np.ones(len(counts)))[:, None]
            residual = np.linalg.norm(gap, ord=1 if self.noise == "laplace" else None, axis=1)
            pairs = type(alone)(distance, kinds)
            return People(counts / others, np.where(counts > 1, residual, rows.residual[starts[:-1]]), pairs)

    def _pair(self, move: Charged, columns: int) -> GaussianShift | LaplaceShift:
        """Return the pairs of these movements.

        Laplace noise on several columns: the sum of the columns' losses, each no more than its part of the l1 norm, is
        bounded by one column that moves by all of it; equal only at delta = 0.
        """
        if self.noise != "laplace":
            return GaussianShift(move.value, move.kind_code)
        bounded = (columns > 1) & (move.value > 0.0) & np.isfinite(move.value)
        return LaplaceShift(move.value, np.where(bounded, np.maximum(move.kind_code, UPPER), move.kind_code))

    def ideal(self, X: NDArray) -> Noisy:
        """Return the exact sums or means (rational numbers) and the noise: what ``fit`` draws from."""
        scale, noise, statistic = self._declared()
        parts = 1 if statistic == "sum" else len(X)
        return Noisy([total / parts for total in exact_sums(X)], scale, noise)

    def law(self, fit: MeanFit) -> Law:
        """Return the mean (or sum) and the noise."""
        mean = fit.theta if self.statistic == "mean" else fit.theta * fit.n_people
        return Law(mean, float(self.scale) * np.eye(len(mean)), self.noise)

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return the loss of one person from their own row; of a sum, which moves by the row itself."""
        if self.mechanism().moved != "sum":
            raise RefusedModel("what a mean costs a person depends on the others' mean; publish a sum to tell them")
        refuse_rows_of_people(self, "the loss that follows from one row")
        found = gaps_from_zero(one_row(x), 1 if self.noise == "laplace" else 2).over(1.0, float(self.scale))
        return one_pair(self._pair(found, len(x)), delta, ())

    def moved_together(self, fit: MeanFit, rows: Floats, inside: bool = True) -> GaussianShift | LaplaceShift:
        """Return the pair of several rows: a sum moves by theirs, a mean by ``sum(x - mean)/(n - k)``; else n + k."""
        (scale, noise, statistic), k = self._declared(), len(rows)
        left, order = fit.n_people - k if inside else fit.n_people + k, 1 if noise == "laplace" else 2
        with working_precision(PRECISION):
            moves = [exact(total) for total in exact_sums(np.asarray(rows, dtype=np.float64))]
            if statistic == "mean" and left:
                means = [arb(t) + arb(low, e) for t, low, e in zip(fit.theta, fit.low, fit.error, strict=True)]
                moves = [(move - k * mean) / left for move, mean in zip(moves, means, strict=True)]
            # there is no mean of nobody
            distance = np.inf if statistic == "mean" and not left else distance_of(moves, scale, order)
        if order == 1:
            return LaplaceShift([distance], "exact" if len(moves) == 1 else "upper")
        return GaussianShift([distance])

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at what was published: a sum moves by x, a mean by (x - mean)/(n - 1)."""
        refuse_rows_of_people(self, "the realised loss")
        (scale, noise, statistic), d = self._declared(), sweep.n_features
        totals: ExactGram = sweep.fold(lambda block: ExactGram.of(block.X, np.ones(len(block))))
        parts = 1 if statistic == "sum" else totals.n
        sums = [totals.fraction(j, d) / parts for j in range(d)]
        output = output_of(self, published, d)
        others = totals.n - 1 if outside is None else totals.n + 1

        def answer(block: Block) -> LogRatios:
            found: list[Ball | None] = []
            with working_precision(PRECISION):
                drawn, centre = NoisySums.of(output, sums, [scale] * d, noise), [exact(c) for c in sums]
                for row in np.asarray(block.X, dtype=np.float64).tolist():
                    step = [arb(v) for v in row]
                    if statistic == "mean" and others:
                        step = [(x - c) / others for x, c in zip(step, centre, strict=True)]
                    if statistic == "mean" and not others:  # there is no mean of nobody
                        found.append(None)
                    elif outside is None:
                        found.append(drawn.log_ratio(step))
                    else:  # an outsider moves the centre by step from here: the ratio of leaving by -step, turned
                        found.append(-drawn.log_ratio([-u for u in step]))
            return LogRatios.of(found)

        return LogRatios.concatenate(list((sweep if outside is None else outside).map(answer)))
