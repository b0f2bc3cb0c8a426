"""A noisy mean or sum: the township of the paper, and the richest person on earth who does not live there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from perinstance.checked_numbers import one_of, positive
from perinstance.folds.block import Block
from perinstance.folds.sweep import People, Sweep
from perinstance.models.column_means import MeanFit, fit_means, gaps_from_mean, gaps_from_zero
from perinstance.numerics.charged_rounding import charge
from perinstance.pairs import Laplace, Shift
from perinstance.pairs.interface.kinds import Method
from perinstance.releases.base.arguments import validated
from perinstance.releases.base.mechanism import Mechanism, Moved
from perinstance.releases.base.publishing import Law, refuse_weights
from perinstance.sampling import GRID, Noisy, draw, exact_sums
from perinstance.sampling.variates import NOISES, Noise


class NoisyMean(BaseEstimator):
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
    """

    def __init__(self, scale: float = 1.0, noise: str = "laplace", statistic: str = "mean", grid: float = GRID) -> None:
        self.scale = scale
        self.noise = noise
        self.statistic = statistic
        self.grid = grid

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that two fits differ: a release cannot be seeded."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def mechanism(self) -> Mechanism:
        """Describe the release: means or sums plus independent noise."""
        scale = positive("scale", self.scale)
        noise: Noise = "laplace" if one_of("noise", self.noise, NOISES) == "laplace" else "gaussian"
        statistic: Moved = "sum" if one_of("statistic", self.statistic, ("mean", "sum")) == "sum" else "mean"
        return Mechanism(
            name="NoisyMean",
            moved=statistic,
            family="output",
            noise=noise,
            scale=scale,
            words=(f"a {statistic} with {noise} noise of scale ", scale),
            needs_target=False,
        )

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> MeanFit:
        """Add up without a rounding error, in one pass."""
        positive("scale", self.scale)
        one_of("noise", self.noise, NOISES)
        one_of("statistic", self.statistic, ("mean", "sum"))
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
        pair = Laplace if self.noise == "laplace" else Shift
        return People(leverage, residual, pair(move.value, move.kind_code))

    def refine(self, fit: MeanFit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Nobody is ever left open here; the answer is that of ``people``."""
        return self.people(fit, block, inside)

    def ideal(self, X: NDArray) -> Noisy:
        """Return the exact sums or means (rational numbers) and the noise: what ``fit`` draws from."""
        noise: Noise = "laplace" if one_of("noise", self.noise, NOISES) == "laplace" else "gaussian"
        parts = 1 if one_of("statistic", self.statistic, ("mean", "sum")) == "sum" else len(X)
        return Noisy([total / parts for total in exact_sums(X)], positive("scale", self.scale), noise)

    def law(self, fit: MeanFit) -> Law:
        """Return the mean (or sum) and the noise."""
        mean = fit.theta if self.statistic == "mean" else fit.theta * fit.n_people
        return Law(mean, float(self.scale) * np.eye(len(mean)), self.noise)

    def fit(self, X: Any, y: Any = None, **refused: Any) -> NoisyMean:
        """Publish one draw, of the mean or of the sum: ``value_``."""
        refuse_weights(refused)
        X = validated(self, X, dtype=(np.float64, np.float32))
        self.value_ = draw(self.ideal(X), self.grid).values
        return self
