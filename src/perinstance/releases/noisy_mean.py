"""A noisy mean or sum: the township of the paper, and the richest person on earth who does not live there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import one_of, positive
from perinstance.errors import RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.models.column_means import MeanFit, gaps_from_mean, gaps_from_zero
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import UPPER, Charged, charge
from perinstance.pairs import GaussianShift, LaplaceShift
from perinstance.releases.base.own_row import OwnRowLoss, PublicFacts, one_pair, one_row
from perinstance.releases.base.publishing import Law
from perinstance.releases.base.release import Mechanism, Moved
from perinstance.releases.base.rows_per_person import refuse_rows_of_people, rows_words
from perinstance.releases.column_statistic import ColumnStatistic
from perinstance.sampling import GRID, Noisy, exact_sums
from perinstance.sampling.random_bits import NOISES, Noise


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
        if self.mechanism().moved != "sum":
            raise RefusedModel("what a mean costs a person depends on the others' mean; publish a sum to tell them")
        refuse_rows_of_people(self, "the loss that follows from one row")
        found = gaps_from_zero(one_row(x), 1 if self.noise == "laplace" else 2).over(1.0, float(self.scale))
        return one_pair(self.pairs_of(found, len(x)), delta, ())
