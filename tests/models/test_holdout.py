"""People of leverage near one in a table too large for rational arithmetic: the factor of the rest, and their rows."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.models import ArraySweep
from perinstance.models.linear.ridge import linear_fit, refined, without
from tests.neighbours.refit import distance, leave_out, to_float


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("size", [1e3, 1e6])
def test_without_each_of_several_dominant_people(size, intercept):
    rng = np.random.default_rng(2)
    n, d = 300, 4
    X, y = rng.normal(size=(n, d)), rng.normal(size=n)
    X[[5, 100, 200]] *= size * rng.uniform(1, 3, size=(3, 1))
    sweep = ArraySweep(X, y, 64)
    fit = linear_fit(sweep, 0.1, intercept, np.eye(d + intercept))
    first = without(fit, X, y)
    hard = np.array([5, 100, 200])
    assert size == 1e3 or first.open[hard].all()  # floats still know what 1 - m is of the first
    got = refined(fit, sweep, X[hard], y[hard])
    for k, i in enumerate(hard):
        truth = leave_out(X, y, i, 0.1, intercept)
        assert got.leverage[k] == pytest.approx(to_float(truth.leverage), rel=1e-9)
        assert got.residual[k] == pytest.approx(to_float(truth.residual), rel=1e-7)
        assert got.leverage[k] >= to_float(truth.leverage)
        assert abs(got.residual[k]) >= abs(to_float(truth.residual))


def awkward_tables(seed):
    """Rows and columns of very different size, nearly dependent columns, targets of two sizes."""
    rng = np.random.default_rng(seed)
    while True:
        n, d = int(rng.integers(66, 90)), int(rng.integers(2, 6))
        X = rng.normal(size=(n, d)) + rng.choice([0, 0, 100.0])
        y = rng.normal(size=n) * rng.choice([1, 1e3])
        for i in rng.choice(n, int(rng.integers(0, 4)), replace=False):
            X[i] *= 10 ** rng.uniform(0, 7)
        if rng.random() < 0.5 and d > 1:
            X[:, -1] = X[:, 0] + X[:, -1] * 10 ** -rng.uniform(0, 7)
        rng.uniform(-4, 4, d)
        X *= rng.choice([1, 1e8, 1e-8], d)
        intercept = bool(rng.integers(2))
        yield X, y, float(rng.choice([0, 1e-6, 0.1])), intercept


@pytest.mark.parametrize("number", [14, 66, 79, 203, 251])
def test_a_short_direction_is_off_by_what_leaks_into_it(number):
    # 14, 66, 79 (held out) and 251 (not) had distances below the truth; 203 a rough residual that was called exact
    X, y, alpha, intercept = next(islice(awkward_tables(2), number, None))
    answer = pi.audit(pi.OutputPerturbation(Ridge(alpha=alpha, fit_intercept=intercept), 1.0), X, y)
    people = {0, 1, 2, 3, int(np.argmax(answer.leverage))}
    for i in people:
        truth = leave_out(X, y, i, alpha, intercept)
        D, r = distance(truth, np.eye(X.shape[1] + intercept)), abs(to_float(truth.residual))
        assert answer.pairs.distance[i] >= D and abs(answer.residual[i]) >= r
        above = answer.pairs.distance[i] / D - 1
        assert above < 1e-2 and (above < 3e-6 or answer.kind[i] == "upper")


def test_the_only_owner_of_a_category_is_lost_without_a_penalty():
    rng = np.random.default_rng(3)
    X, y = np.hstack([rng.normal(size=(500, 2)), np.zeros((500, 1))]), rng.normal(size=500)
    X[123, 2] = 1.0  # nobody else has it
    for release in (pi.PosteriorSample(0.0), pi.OutputPerturbation(pi.models.linear.ridge.LinearProblem(0.0))):
        answer = pi.audit(release, X, y)
        assert np.flatnonzero(np.isinf(answer.epsilon)).tolist() == [123]
        assert answer.health.largest_leverage == 1.0
    assert np.isfinite(pi.audit(pi.PosteriorSample(1e-3), X, y).epsilon).all()


def test_a_direction_that_nobody_holds_up_harms_nobody():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(200, 3)), rng.normal(size=200)
    twice = np.hstack([X, X[:, :1], np.zeros((200, 1)), np.ones((200, 1))])
    plain = pi.audit(pi.PosteriorSample(0.0, fit_intercept=True), X, y)
    more = pi.audit(pi.PosteriorSample(0.0, fit_intercept=True), twice, y)
    assert more.health.rank == 4
    assert more.epsilon == pytest.approx(plain.epsilon, rel=1e-6)
    stranger = np.append(X[:1], [[0.0, 0.0, 0.0]], axis=1)  # off the plane in which everybody lies
    assert (
        pi.audit(pi.PosteriorSample(0.0, fit_intercept=True), twice, y, outsiders=(stranger, y[:1])).epsilon[0]
        == np.inf
    )


def test_what_few_bits_leave_unknown_more_bits_say():
    """A quotient by a ball around zero is no number, and must not outlive the precision in which it was met."""
    rng = np.random.default_rng(5)
    X, y = np.repeat(rng.normal(size=(30, 1)), 2, axis=1), rng.normal(size=30)
    sweep = ArraySweep(X, y)
    fit = linear_fit(sweep, 1e-83, False, np.eye(2))
    found = refined(fit, sweep, np.array([[1.0, 1.0], [1.0, 2.0]]), np.ones(2), inside=False)
    assert np.isfinite(found.leverage).all() and np.isfinite(found.length).all() and not found.kind_code.any()
