"""Everyone under a smooth model: refits of random, promising and climbing people never beat the certificate."""

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor

from perinstance import audit
from perinstance.analysis import everyone
from perinstance.analysis.anybody_smooth import _targets
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.models.losses.catalogue import PseudoHuber
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothL1Penalty, SmoothObjective
from perinstance.models.smooth.problem import SmoothProblem
from perinstance.releases import OutputPerturbation
from tests.analysis.worlds import world

DELTA = 1e-6
#: how far the certificate may lie above somebody who was refitted, on ordinary tables of some hundred people
GAP = 0.25


def crowd(rng, fit, d, size, x_bound, domain):
    x = rng.standard_normal((size, d))
    x[: size // 3] += 3 * rng.standard_normal((size // 3, 1)) * fit.theta[:d]
    x[size // 3 : 2 * size // 3] = x[size // 3 : 2 * size // 3] @ np.linalg.inv(fit.model.fit.hessian)[:d, :d]
    length = rng.choice([1.0, 1.0, 1.0, 0.7], (size, 1))
    if domain == "box":
        return np.sign(x) * x_bound * length
    return x / np.linalg.norm(x, axis=1)[:, None] * x_bound * length


def attack(seed, estimator, n, d, *, domain="ball", size=1000, x_bound=0.9, scale=0.2):
    """Return the answer after ``size`` refitted people have tried to beat it."""
    rng, sweep = world(seed, estimator, n, d, 0.5)
    release = OutputPerturbation(estimator, scale=scale)
    fit = release.confidential_fit(sweep, "upper")
    answer = everyone(release, fit, DELTA, x_bound=x_bound, y_bound=5.0, domain=domain, sweep=sweep)
    ends = _targets(fit.model.fit.objective.loss, 5.0)

    def losses(x, y):
        return np.asarray(
            release.refine(fit, sweep, Block(np.ascontiguousarray(x), y), inside=False).pairs.epsilon(DELTA)
        )

    x, y = crowd(rng, fit, d, size, x_bound, domain), rng.choice(ends, size)
    found = losses(x, y)
    best = found.max()
    assert best <= answer.epsilon, (seed, best, answer)
    # the person it names is in the domain and loses what it says
    assert losses(answer.x[None], np.array([answer.y]))[0] == pytest.approx(answer.attained, rel=1e-6)
    assert (np.abs(answer.x) <= x_bound).all() if domain == "box" else np.linalg.norm(answer.x) <= x_bound * (1 + 1e-12)
    assert answer.attained <= answer.epsilon and answer.kind == "upper"
    return answer


MODELS = [
    LogisticRegression(C=0.3),
    LogisticRegression(C=1.0, fit_intercept=False),
    PoissonRegressor(alpha=0.05),
    PoissonRegressor(alpha=0.5, fit_intercept=False),
    GammaRegressor(alpha=0.1),
]


@pytest.mark.parametrize("estimator", MODELS, ids=lambda e: type(e).__name__)
def test_nobody_in_the_ball_loses_more_and_somebody_as_much(estimator):
    assert attack(504, estimator, 500, 4).gap < GAP


@pytest.mark.parametrize("estimator", MODELS[:3], ids=lambda e: type(e).__name__)
def test_nobody_in_the_box_loses_more(estimator):
    assert attack(5, estimator, 500, 3, domain="box", x_bound=0.5).gap < 0.5


@pytest.mark.parametrize("estimator", MODELS[:2], ids=lambda e: type(e).__name__)
def test_without_the_data_nobody_is_refitted(estimator):
    """The certificate holds all the same; nobody is named who attains it."""
    _, sweep = world(2, estimator)
    release = OutputPerturbation(estimator, scale=0.2)
    fit = release.confidential_fit(sweep, "upper")
    answer = everyone(release, fit, DELTA, x_bound=0.8, y_bound=5.0)
    with_data = everyone(release, fit, DELTA, x_bound=0.8, y_bound=5.0, sweep=sweep)
    assert answer.attained == 0.0 < with_data.attained <= answer.epsilon
    assert any("pass the data" in note for note in answer.assumptions)


def test_other_losses_and_penalties_have_the_certificate_too():
    rng, sweep = world(4, PoissonRegressor())
    for objective in (
        SmoothObjective(PseudoHuber(1.0), RidgePenalty(1.0), fit_intercept=True),
        SmoothObjective(PseudoHuber(1.0), SmoothL1Penalty(0.5), fit_intercept=True),
    ):
        release = OutputPerturbation(SmoothProblem(objective), scale=0.2)
        fit = release.confidential_fit(sweep, "upper")
        answer = everyone(release, fit, DELTA, x_bound=0.8, y_bound=5.0, sweep=sweep)
        x, y = crowd(rng, fit, 3, 300, 0.8, "ball"), rng.choice([-5.0, 5.0], 300)
        found = release.refine(fit, sweep, Block(x, y), inside=False).pairs.epsilon(DELTA).max()
        assert found <= answer.epsilon and found <= answer.attained * 1.01


def test_a_domain_of_one_point_and_of_one_feature():
    _, sweep = world(6, MODELS[0], d=1)
    release = OutputPerturbation(MODELS[0], scale=0.2)
    fit = release.confidential_fit(sweep, "upper")
    for domain in ("ball", "box"):
        nowhere = everyone(release, fit, DELTA, x_bound=0.0, domain=domain, sweep=sweep)
        assert nowhere.gap < GAP and not nowhere.x.any()
        assert everyone(release, fit, DELTA, x_bound=0.5, domain=domain, sweep=sweep).gap < GAP


@pytest.mark.filterwarnings("ignore::perinstance.errors.BeyondBounds")  # the bounds are meant to be small
@pytest.mark.parametrize("method", ["auto", "upper", "estimate"])
def test_an_audit_reads_its_table_again(method):
    """Whatever the grade of the audit: with its table everyone() has a bound and somebody beside it."""
    _, sweep = world(7, MODELS[0], n=200)
    report = audit(OutputPerturbation(MODELS[0], scale=0.2), sweep.X, sweep.y, delta=DELTA, method=method)
    answer = report.everyone(0.8, 1.0, sweep.X, sweep.y)
    assert answer.gap < GAP and answer.x_bound == 0.8
    box = report.everyone([0.8, 0.1, 0.2], 1.0, sweep.X, sweep.y, domain="box")
    assert (np.abs(box.x) <= [0.8, 0.1, 0.2]).all() and box.attained <= box.epsilon


def test_another_table_is_refused():
    _, sweep = world(7, MODELS[0], n=200)
    report = audit(OutputPerturbation(MODELS[0], scale=0.2), sweep.X, sweep.y, delta=DELTA)
    for X, y in ((sweep.X[1:], sweep.y[1:]), (sweep.X, sweep.y[::-1].copy()), (2 * sweep.X, sweep.y)):
        with pytest.raises(InvalidInput, match="not the table"):
            report.everyone(0.8, 1.0, X, y)
    with pytest.raises(InvalidInput, match="features"):
        report.everyone(0.8, 1.0, sweep.X[:, :2], sweep.y)
