"""One posterior sample (OPS) of linear and ridge regression, exact (MATH 1b)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance import sampling
from perinstance.checked_numbers import non_negative, positive, truth_value
from perinstance.errors import NumericalTrouble, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import People, Sweep
from perinstance.inference.equation import bounded_draw
from perinstance.inference.published_inference import AT_MOST, PublishedInference, only_the_table
from perinstance.inference.table import About
from perinstance.models.linear.ridge import DualFit, LinearFit, Without, linear_fit, refined, without
from perinstance.models.linear.several_rows import person_spectra
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP
from perinstance.pairs import GeneralGaussian, PosteriorSamplePair
from perinstance.pairs.kinds import Method
from perinstance.releases.base.log_ratios import LogRatios, OwnRowLoss, PublicFacts, cell, output_of, posterior_own_row
from perinstance.releases.base.publishing import Law, Publishing, exact_equations
from perinstance.releases.base.release import Mechanism
from perinstance.releases.base.ridge_ratios import ridge_log_ratios
from perinstance.releases.base.weighted_rows import refuse_own_row
from perinstance.sampling import GRID


class PosteriorSample(Publishing):
    """``theta ~ N(H^-1 X'y, H^-1 / gamma)``, ``H = X'X + alpha I``.

    Parameters
    ----------
    alpha
        The coefficient in ``||y - X theta||^2 + alpha ||theta||^2``; an intercept is not penalised.
    gamma
        The inverse temperature: one over the noise variance of the model.
    fit_intercept
        Whether a column of ones is added, with a flat prior.
    grid
        The public power of two to whose multiples ``fit`` rounds.
    """

    def __init__(self, alpha: float = 1.0, gamma: float = 1.0, fit_intercept: bool = False, grid: float = GRID) -> None:
        self.alpha = alpha
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.grid = grid

    def mechanism(self) -> Mechanism:
        """Describe the release: one draw of ``N(theta, H^-1 / gamma)``."""
        alpha, gamma = non_negative("alpha", self.alpha), positive("gamma", self.gamma)
        intercept = truth_value("fit_intercept", self.fit_intercept)
        constant = ", with intercept" if intercept else ""
        return Mechanism(
            name="PosteriorSample",
            moved="ridge",
            family="posterior",
            noise="gaussian",
            scale=gamma**-0.5,
            words=(f"one posterior sample of ridge regression{constant}, alpha = ", alpha, ", gamma = ", gamma),
            alpha=alpha,
            fit_intercept=intercept,
        )

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> LinearFit | DualFit:
        """Fit without noise; every method is exact here."""
        positive("gamma", self.gamma)
        alpha, intercept = non_negative("alpha", self.alpha), truth_value("fit_intercept", self.fit_intercept)
        own = intercept and self.rows_are_weighted
        return linear_fit(sweep, alpha, intercept and not own, own_ones=own)

    def uncertainty(self, about: About) -> PublishedInference:
        """Bound the draw's variance by ``1/(gamma alpha)``: what the ridge fit on this table says."""
        if about == "population":
            return PublishedInference(None, (), only_the_table("PosteriorSample"))
        square = 1.0 / float(self.gamma) / float(self.alpha) if self.alpha > 0 else np.inf
        variances = np.append(np.full(len(self.coef_), square), [np.inf] * self.fit_intercept)
        found = np.append(self.coef_, [self.intercept_] * self.fit_intercept)
        return PublishedInference(bounded_draw(found, variances), (AT_MOST,))

    def people(self, fit: LinearFit | DualFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block."""
        return self.from_row_statistics(fit, without(fit, block.X, block.y, inside, self.residual_floor))

    def refine(self, fit: LinearFit | DualFit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people that ``people`` left open."""
        return self.from_row_statistics(fit, refined(fit, sweep, block.X, block.y, inside, self.residual_floor))

    def persons(self, fit: LinearFit | DualFit, block: Block, starts: NDArray[np.int64], inside: bool = True) -> People:
        """Map: the pairs of people with several rows, one coordinate for each row (MATH 12)."""
        scale = self.residual_floor
        found = person_spectra(fit, block.X, block.y, starts, inside, scale)
        pairs = GeneralGaussian(found.excess, found.shift / scale * NORM_UP, found.rough.astype(np.uint8))
        return People(found.leverage, found.residual, pairs, found.open if found.open.any() else None)

    def ideal(self, X: NDArray, y: Floats) -> sampling.ExactPosterior:
        """Return the same in exact numbers: what ``fit`` draws from."""
        gamma, alpha = positive("gamma", self.gamma), non_negative("alpha", self.alpha)
        intercept = truth_value("fit_intercept", self.fit_intercept)
        equations = exact_equations(X, y, alpha, intercept, self.rows_are_weighted)
        return sampling.ExactPosterior(equations, gamma)

    def law(self, fit: LinearFit | DualFit) -> Law:
        """Return ``N(theta, H^-1 / gamma)``."""
        if fit.rank < len(fit.theta):
            raise NumericalTrouble(
                "the posterior is improper: alpha is 0 and the data leaves directions open; use alpha > 0"
            )
        return Law(fit.theta, fit.basis / np.sqrt(positive("gamma", self.gamma)))

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return a bound of one person's loss from their own row, public facts and, where fitted, the draw."""
        ridge = non_negative("alpha", self.alpha), positive("gamma", self.gamma)
        if not ridge[0] > 0 or self.fit_intercept:
            raise RefusedModel("nothing bounds an estimate from one's own row unless every coefficient is penalised")
        refuse_own_row(self)
        drawn = cell(np.asarray(self.coef_), float(self.grid)) if hasattr(self, "coef_") else None
        return posterior_own_row(ridge, x, y, drawn, delta, facts)

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at one published sample."""
        mechanism = self.mechanism()
        output = output_of(self, published, sweep.n_features + mechanism.fit_intercept)
        return ridge_log_ratios(sweep, mechanism, positive("gamma", self.gamma), output, outside)

    @property
    def residual_floor(self) -> float:
        """A residual of this size moves a sample about as much as the leverage does."""
        return float(self.gamma) ** -0.5

    def from_row_statistics(self, fit: LinearFit | DualFit, loo: Without) -> People:
        """Return the pairs of people of whom leverage and residual are known."""
        # where theta_without is not determined (NaN) no finite loss can be stated
        rho = np.sqrt(float(self.gamma)) * np.where(np.isnan(loo.residual), np.inf, np.abs(loo.residual))
        return People(loo.leverage, loo.residual, PosteriorSamplePair(loo.leverage, rho, loo.kind_code), loo.open)
