"""One draw of a Gaussian process posterior at public points, exact (MATH 1b)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from perinstance import sampling
from perinstance.checked_numbers import positive
from perinstance.errors import NumericalTrouble
from perinstance.event_log import LOG
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep, People, Sweep
from perinstance.models.kernel_ridge import KernelFit, KernelProblem, Seen, predictions
from perinstance.numerics.rounding import DEPENDENT_POINTS
from perinstance.pairs import Posterior
from perinstance.pairs.interface.kinds import Method
from perinstance.releases.base.arguments import validated
from perinstance.releases.base.mechanism import Mechanism, estimator_words
from perinstance.releases.base.model_document import PublishedNumbers, WritesModel
from perinstance.releases.base.publishing import Law, refuse_weights
from perinstance.releases.base.repeated_fits import warn_inside_search
from perinstance.sampling import GRID


class ProcessSample(WritesModel, BaseEstimator):
    """``f(T) ~ N(K_T M y, (K_TT - K_T M K_T') / gamma)``: a draw of the posterior at the points T.

    Given the values at T, a person's target is ``c'S^-1 f(T)`` plus noise of variance ``alpha + v - t``, S being the
    posterior covariance at T without them, c that of T and x, v the variance at x and ``t = c'S^-1c``. So the pair is
    that of one posterior sample with ``mu = t/(alpha + v - t)`` and ``rho = sqrt(gamma/(alpha + v - t)) |r|``.

    Parameters
    ----------
    estimator
        ``GaussianProcessRegressor`` with ``optimizer=None``, or ``KernelRidge`` (the same posterior mean).
    points
        The **public** points T, one row each.
    gamma
        The inverse temperature.
    grid
        The public power of two to whose multiples ``fit`` rounds.
    """

    def __init__(
        self, estimator: Any = None, points: ArrayLike | None = None, gamma: float = 1.0, grid: float = GRID
    ) -> None:
        self.estimator = estimator
        self.points = points
        self.gamma = gamma
        self.grid = grid

    def problem(self) -> KernelProblem:
        """Return the model behind the estimator."""
        return predictions(self.estimator, [] if self.points is None else self.points)

    def mechanism(self) -> Mechanism:
        """Describe the release: one draw of the posterior at public points."""
        gamma = positive("gamma", self.gamma)
        return Mechanism(
            name="ProcessSample",
            moved="predictions",
            family="posterior",
            noise="gaussian",
            scale=gamma**-0.5,
            words=("one posterior sample of ", *estimator_words(self.estimator), " at public points, gamma = ", gamma),
        )

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> KernelFit:
        """Factorise the Gram matrix of everyone; every method is exact here."""
        positive("gamma", self.gamma)
        return self.problem().fit(sweep)

    def people(self, fit: KernelFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block."""
        X, y = block.X, block.y
        problem = self.problem()
        seen = problem.seen(fit, X, y, inside)
        return People(seen.leverage, seen.residual, self._pairs(problem, fit, seen, inside))

    def refine(self, fit: KernelFit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Nobody is left open; the same answer."""
        return self.people(fit, block, inside)

    def _pairs(self, problem: KernelProblem, fit: KernelFit, seen: Seen, inside: bool) -> Posterior:
        alpha, gamma = problem.noise, positive("gamma", self.gamma)
        whole = alpha * (1 + seen.leverage)  # alpha + v
        c = seen.covariance * whole[:, None]
        S = (fit.covariance + fit.covariance.T) / 2
        values, V = np.linalg.eigh(S)
        if not values[0] > DEPENDENT_POINTS * values[-1]:
            # points that determine each other: the whole function is drawn from, which can only tell more
            rho = np.sqrt(gamma / alpha) * np.abs(seen.residual)
            return Posterior(seen.leverage, rho, kind="upper")
        rotated = c @ V
        g = (rotated * rotated) @ (1 / values)
        # inside, S is the covariance with the person: without them it is larger by cc'/(alpha + v)
        t = g / (1 + g / whole) if inside else g
        t = np.minimum(t, alpha * seen.leverage)
        left = whole - t
        return Posterior(t / left, np.sqrt(gamma / left) * np.abs(seen.residual))

    def law(self, fit: KernelFit) -> Law:
        """Return the distribution in floating point."""
        return Law(fit.theta, np.linalg.cholesky(fit.covariance) / np.sqrt(positive("gamma", self.gamma)))

    def fit(self, X: Any, y: Any, **refused: Any) -> ProcessSample:
        """Publish one draw: ``values_``, one number per point.

        Mean and covariance are float64 numbers, converged to rounding error and taken as they are; the noise is exact.
        """
        refuse_weights(refused)
        warn_inside_search(self)
        X, y = validated(self, X, y, y_numeric=True, dtype=(np.float64, np.float32))
        fit = self.confidential_fit(ArraySweep(X, np.asarray(y, dtype=np.float64)))
        try:
            precision = np.linalg.inv(np.linalg.cholesky((fit.covariance + fit.covariance.T) / 2))
        except np.linalg.LinAlgError:
            raise NumericalTrouble("the points determine each other; publish fewer or more distant ones") from None
        scale = 1 / np.sqrt(positive("gamma", self.gamma))
        self.values_ = sampling.draw(sampling.ExactOutput(fit.theta, scale, precision.T @ precision), self.grid).values
        LOG.info("ProcessSample published one draw")
        return self

    def published_numbers(self) -> PublishedNumbers:
        """Return one number per public point."""
        return PublishedNumbers("values", values=self.values_, points=np.asarray(self.points, dtype=np.float64))
