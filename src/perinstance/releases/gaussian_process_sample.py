"""One draw of a Gaussian process posterior at public points, exact (MATH 1b)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance import sampling
from perinstance.checked_numbers import positive
from perinstance.errors import NumericalTrouble
from perinstance.event_log import LOG
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep, People, Sweep
from perinstance.models.gram_inverse import column_lengths
from perinstance.models.kernel_ridge import KernelFit, KernelProblem, Seen, predictions
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import charge
from perinstance.numerics.rounding import DEPENDENT_POINTS, STEP_UP, UNIT
from perinstance.pairs import PosteriorSamplePair
from perinstance.pairs.kinds import Method
from perinstance.releases.base.arguments import validated
from perinstance.releases.base.model_document import PublishedNumbers
from perinstance.releases.base.publishing import Law, WritesModel
from perinstance.releases.base.release import Mechanism, estimator_words
from perinstance.sampling import GRID


class GaussianProcessSample(WritesModel):
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
            name="GaussianProcessSample",
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
        """Map: the pairs of the people of one block, charged for rounding.

        A larger mu with a rho that is larger by ``sqrt((1 + mu')/(1 + mu))`` tells more: the smaller pair is the larger
        one, scaled and with Gaussian noise added. (A larger mu alone need not.) So the mu that is stated goes into
        ``rho = sqrt(gamma (1 + mu)/(alpha + v)) |r|``.
        """
        problem, gamma = self.problem(), positive("gamma", self.gamma)
        seen = problem.seen(fit, block.X, block.y, inside)
        r = np.abs(seen.residual)
        found, high = _shares(fit, seen, inside, problem.noise)
        # never more than a draw of the whole function would tell, which is all there is to say of points that determine
        # each other
        at = np.minimum(found, seen.leverage)
        mu = charge(at, np.maximum(np.minimum(high, seen.leverage + seen.leverage_lost) - at, 0))
        rho = np.sqrt(gamma * (1 + at) / seen.whole) * r
        rho_high = np.sqrt(gamma * (1 + mu.value) / seen.whole_low) * (r + seen.residual_lost) * STEP_UP
        rho_charged = charge(rho, np.maximum(rho_high - rho, 0))
        kinds = problem.kinds(np.maximum(mu.kind_code, rho_charged.kind_code))
        leverage, residual = charge(seen.leverage, seen.leverage_lost), charge(seen.residual, seen.residual_lost)
        return People(leverage.value, residual.value, PosteriorSamplePair(mu.value, rho_charged.value, kind=kinds))

    def law(self, fit: KernelFit) -> Law:
        """Return the distribution in floating point."""
        return Law(fit.theta, np.linalg.cholesky(fit.covariance) / np.sqrt(positive("gamma", self.gamma)))

    def fit(self, X: Any, y: Any, **refused: Any) -> GaussianProcessSample:
        """Publish one draw: ``values_``, one number per point.

        Mean and covariance are float64 numbers, converged to rounding error and taken as they are; the noise is exact.
        """
        self._begin(refused)
        X, y = validated(self, X, y, y_numeric=True, dtype=(np.float64, np.float32))
        fit = self.confidential_fit(ArraySweep(X, np.asarray(y, dtype=np.float64)))
        try:
            precision = np.linalg.inv(np.linalg.cholesky((fit.covariance + fit.covariance.T) / 2))
        except np.linalg.LinAlgError:
            raise NumericalTrouble("the points determine each other; publish fewer or more distant ones") from None
        scale = 1 / np.sqrt(positive("gamma", self.gamma))
        self.values_ = sampling.draw(sampling.ExactOutput(fit.theta, scale, precision.T @ precision), self.grid).values
        LOG.info("GaussianProcessSample published one draw")
        return self

    def published_numbers(self) -> PublishedNumbers:
        """Return one number per public point."""
        return PublishedNumbers("values", values=self.values_, points=np.asarray(self.points, dtype=np.float64))


def _shares(fit: KernelFit, seen: Seen, inside: bool, noise: float) -> tuple[Floats, Floats]:
    """Return ``mu = t/(alpha + v - t)``, t the part of v that the values at the points explain, and a bound of it.

    ``c = (alpha + v) a`` with a the covariances of ``seen``, so ``t = (alpha + v)^2 a'S^-1a``. Inside, S is the
    covariance with the person, which is smaller by ``cc'/(alpha + v)``: then ``mu = (alpha + v) a'S^-1a``.
    """
    T = len(fit.covariance)
    values, V = np.linalg.eigh((fit.covariance + fit.covariance.T) / 2)
    # the eigenvalues are off by what rounding took from the matrix, and from its decomposition
    off = np.linalg.norm(fit.covariance_lost) + 8 * T * UNIT * max(abs(values[0]), abs(values[-1]))
    if not (values[0] > DEPENDENT_POINTS * values[-1] and off < values[0] / 2):
        return np.zeros(len(seen.whole)), np.full(len(seen.whole), np.inf)
    a = seen.covariance
    root = column_lengths((a @ V / np.sqrt(values)).T)
    a_lost = column_lengths(seen.covariance_lost.T) + 4 * T * UNIT * column_lengths(a.T)
    root_high = root / np.sqrt(1 - off / values[0]) * (1 + 4 * T * UNIT) + a_lost / np.sqrt(values[0] - off)
    whole, whole_high = seen.whole, noise + noise * (seen.leverage + seen.leverage_lost)
    if inside:
        return whole * root**2, whole_high * root_high**2 * STEP_UP
    t, t_high = (whole * root) ** 2, (whole_high * root_high) ** 2
    left, left_low = np.maximum(whole - t, noise), np.maximum(seen.whole_low - t_high, noise)
    return t / left, t_high / left_low * STEP_UP
