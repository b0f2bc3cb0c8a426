"""A noisy mean or sum: the township of the paper, and the richest person on earth who does not live there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from perinstance.checked_numbers import one_of, positive
from perinstance.folds.block import Block
from perinstance.folds.sweep import People, Sweep
from perinstance.models.interface.fit_health import FitHealth
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Laplace, Shift
from perinstance.pairs.interface.kinds import Method
from perinstance.releases.base.arguments import validated
from perinstance.releases.base.mechanism import Mechanism, Moved
from perinstance.releases.base.publishing import Law, refuse_weights
from perinstance.sampling import GRID, Noisy, draw, exact_sums
from perinstance.sampling.variates import NOISES, Noise


@dataclass(frozen=True, slots=True)
class MeanFit:
    """Confidential: how many people there are, and the mean of each column."""

    n_people: int
    theta: Floats

    @property
    def health(self) -> FitHealth:
        """How many people it was fitted with."""
        return FitHealth(self.n_people)

    @property
    def gram(self) -> None:
        """None: there are no predictions."""
        return None


@dataclass(frozen=True, slots=True)
class _Total:
    """Sums about a centre, so that large values do not eat the digits of small differences."""

    n: int
    total: Floats

    def __add__(self, other: _Total) -> _Total:
        return _Total(self.n + other.n, self.total + other.total)


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
            own_row=statistic == "sum",
        )

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> MeanFit:
        """Add up, twice: the second time about the first mean."""
        positive("scale", self.scale)
        one_of("noise", self.noise, ("laplace", "gaussian"))
        one_of("statistic", self.statistic, ("mean", "sum"))
        first: _Total = sweep.fold(lambda block: _Total(len(block), block.X.sum(axis=0, dtype=np.float64)))
        centre = first.total / first.n
        second: _Total = sweep.fold(lambda block: _Total(len(block), (block.X - centre).sum(axis=0, dtype=np.float64)))
        return MeanFit(first.n, centre + second.total / first.n)

    def people(self, fit: MeanFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block. ``residual`` is the norm of ``x - mean_without``."""
        X = block.X
        n = fit.n_people
        order = 1 if self.noise == "laplace" else 2
        gap = np.linalg.norm(np.asarray(X, dtype=np.float64) - fit.theta, ord=order, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            if inside:  # x - mean_without = (x - mean_with) n / (n - 1)
                leverage = np.full(len(gap), 1.0) / (n - 1)
                residual = gap * (n / (n - 1)) if n > 1 else np.full(len(gap), np.nan)
                move = gap / (n - 1) if n > 1 else np.full(len(gap), np.inf)  # the mean of nobody
            else:
                leverage, residual, move = np.full(len(gap), 1.0 / n), gap, gap / (n + 1)
        if self.statistic == "sum":
            move = np.linalg.norm(np.asarray(X, dtype=np.float64), ord=order, axis=1)
        pair = Laplace if self.noise == "laplace" else Shift
        return People(leverage, residual, pair(move / self.scale))

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
