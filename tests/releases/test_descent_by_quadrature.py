"""Two steps on a line by brute force: the law of all iterates, with a person and without, summed over every batch.

Nothing is composed here, and nobody's batches are known: the density of both noisy sums is a mixture over who was
sampled in each step, and the second step depends on what came out of the first. What is claimed must not be below.
"""

from __future__ import annotations

import copy
from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.releases.descent.clipped_steps import OwnClips, SummedGradients, objective_of, shortened

EPSILONS = np.array([-1.0, 0.0, 0.1, 0.3, 1.0, 2.0, 4.0])
POINTS = 501
#: of a midpoint sum whose integrand has a kink
COARSE = 1e-5


class TwoSteps:
    """The density of the two noisy sums on a grid, without the last person and with them."""

    def __init__(self, release, X, y):
        self.steps, objective = release.declared_steps(), objective_of(release.problem())
        self.people = SummedGradients(objective, X, y)
        steps = self.steps
        spread = steps.clip * len(X) + 9.0 * steps.noise
        self.grid = np.linspace(-spread, spread, POINTS)
        clips = OwnClips(self.people, steps)
        first = self._moved(clips, 0, np.zeros(1))
        self.cell = (self.grid[1] - self.grid[0]) ** 2
        self.without, self.with_ = (np.empty((POINTS, POINTS)) for _ in range(2))
        start = [self._density(first, inside) for inside in (False, True)]
        for k, total in enumerate(self.grid):
            penalty = objective.penalty_slope(np.zeros(1))
            theta = -steps.learning_rate * (np.array([total]) / steps.rate + penalty)
            second = self._moved(copy.deepcopy(clips), 1, theta)
            self.without[k] = start[0][k] * self._density(second, False)
            self.with_[k] = start[1][k] * self._density(second, True)

    def _moved(self, clips, t, theta):
        """What everybody adds to the sum of a step if they are sampled, as the release computes it."""
        return shortened(self.people.at(theta), clips.at(t, theta))[:, 0]

    def _density(self, moved, inside):
        q, people = self.steps.rate, moved if inside else moved[:-1]
        batches = np.array(list(product((False, True), repeat=len(people))), dtype=bool)
        chances = np.where(batches, q, 1.0 - q).prod(axis=1)
        from_mean = (self.grid - (batches @ people)[:, None]) / self.steps.noise
        return chances @ np.exp(-0.5 * from_mean**2) / (self.steps.noise * np.sqrt(2.0 * np.pi))

    def delta(self, epsilon):
        """The larger of both directions."""
        factor = np.exp(epsilon)
        ways = ((self.with_, self.without), (self.without, self.with_))
        return max(float(np.maximum(a - factor * b, 0.0).sum()) * self.cell for a, b in ways)

    def renyi(self, order):
        with np.errstate(all="ignore"):
            ways = ((self.with_, self.without), (self.without, self.with_))
            sums = [np.where(b > 0, a**order * b ** (1.0 - order), 0.0).sum() * self.cell for a, b in ways]
        return float(np.log(max(sums)) / (order - 1.0))


#: Others who push the second iterate far to either side, where the last person's gradient is at its longest.
TABLES = {
    "outvoted": (np.array([[1.5], [1.2], [0.9]]), np.array([0.0, 0.0, 1.0])),
    "alone": (np.array([[0.9]]), np.array([1.0])),
    "a short row": (np.array([[1.5], [-1.2], [0.3]]), np.array([1.0, 0.0, 1.0])),
}


def descent(estimator, **declared):
    return pi.NoisyDescent(estimator, **{"steps": 2, "clip": 1.0, "noise": 0.8, "publish": "all", **declared})


@pytest.mark.parametrize(
    ("table", "rate"), [("outvoted", 1.0), ("outvoted", 0.3), ("alone", 0.3), ("a short row", 1.0)]
)
@pytest.mark.parametrize("estimator", [LogisticRegression(fit_intercept=False), Ridge(fit_intercept=False)])
def test_own_row_bounds_and_the_promise_are_not_below_the_law_of_the_iterates(estimator, table, rate):
    X, y = TABLES[table]
    release = descent(estimator, rate=rate, learning_rate=3.0)
    truth, people = TwoSteps(release, X, y), pi.audit(release, X, y, delta=1e-3)
    assert people.kind[-1] == "upper" and truth.with_.sum() * truth.cell == pytest.approx(1.0, abs=1e-9)
    one = people.pairs[len(X) - 1]
    for epsilon in EPSILONS:
        least = truth.delta(epsilon)
        assert one.delta(epsilon).item() >= least - COARSE
        if epsilon >= 0.0:
            assert release.promise().delta(epsilon) >= one.delta(epsilon).item() * (1 - 1e-9)
    shorter = 0.45 if isinstance(estimator, LogisticRegression) else 0.3
    half = one.with_noise(1.0 / shorter)  # so much less would have been too little
    assert any(half.delta(epsilon).item() < truth.delta(epsilon) for epsilon in EPSILONS)


@pytest.mark.parametrize(
    ("table", "rate", "share"), [("outvoted", 0.5, 0.6), ("outvoted", 0.5, 1.1), ("outvoted", 0.1, 1.7)]
)
def test_a_filter_below_rate_one_keeps_the_divergence_of_its_order(table, rate, share):
    """``share`` of the price of one step at the start: the person pays for a later one only, for one, or nearly two."""
    X, y = TABLES[table]
    order = 4.0
    at_start = abs(X[-1, 0]) / 2.0
    budget = share * float(pi.pairs.SampledGaussian(rate, at_start / 0.8).renyi(order)[0])
    release = descent(LogisticRegression(fit_intercept=False), rate=rate, learning_rate=3.0, filter=(order, budget))
    truth = TwoSteps(release, X, y)
    assert truth.renyi(order) <= budget * (1 + 1e-9) + 1e-12
    for epsilon in EPSILONS[1:]:
        assert release.promise().delta(epsilon) >= truth.delta(epsilon) - COARSE
    free = TwoSteps(descent(LogisticRegression(fit_intercept=False), rate=rate, learning_rate=3.0), X, y)
    assert free.renyi(order) > budget  # without the filter the budget would not have lasted
    assert (truth.renyi(order) > 0.5 * budget) == (share > 1.0)


@pytest.mark.parametrize(("table", "share"), [("outvoted", 1.1), ("a short row", 1.7)])
def test_a_filter_at_rate_one_keeps_one_gaussian_shift(table, share):
    X, y = TABLES[table]
    order = 4.0
    budget = share * 0.5 * order * (abs(X[-1, 0]) / 2.0 / 0.8) ** 2
    release = descent(LogisticRegression(fit_intercept=False), learning_rate=3.0, filter=(order, budget))
    truth, promise = TwoSteps(release, X, y), release.promise()
    shift = pi.pairs.GaussianShift([np.sqrt(2.0 * budget / order)])
    one = pi.audit(release, X, y, delta=1e-3).pairs[len(X) - 1]
    for epsilon in EPSILONS[1:]:
        least = truth.delta(epsilon)
        assert min(promise.delta(epsilon), one.delta(epsilon).item(), shift.delta(epsilon).item()) >= least - COARSE
    assert truth.delta(0.0) > 0.5 * shift.delta(0.0).item()
