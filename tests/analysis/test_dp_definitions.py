"""Definitions side by side; what an attacker may guess, before and after a release."""

from types import SimpleNamespace

import numpy as np
import pytest

from perinstance.analysis import identification, odds_bound, posterior_odds, realised_loss, variants
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.pairs import GaussianShift, LaplaceShift, PosteriorSamplePair
from tests.analysis.worlds import fit_of, release_of, table


def test_each_column_is_its_own_definition():
    """Numbers of a posterior sample that tests/pairs proves, and those of shifts that are known."""
    pairs = PosteriorSamplePair([0.3], [1.2])
    table = variants(pairs, 1e-4, orders=(2.0,))
    numbers = {"approximate": pairs.epsilon(1e-4), "renyi(2)": pairs.renyi(2.0), "kl": pairs.kl(), "tv": pairs.tv()}
    assert all(table[name] == value for name, value in numbers.items())
    assert table["pure"][0] == np.inf and table["zcdp"][0] == np.inf
    assert variants(LaplaceShift([0.5]), 1e-6)["pure"][0] == pytest.approx(0.5)
    assert variants(GaussianShift([0.4]), 1e-6)["zcdp"][0] == pytest.approx(0.08)


def test_an_audit_will_do():
    audit = SimpleNamespace(pairs=GaussianShift([0.1, 0.2, 0.3]), delta=1e-5)
    table = variants(audit)
    assert table.delta == 1e-5 and table.values.shape == (3, len(list(table)))
    assert table.on_average_kl == pytest.approx(np.mean([0.005, 0.02, 0.045]))
    assert table.random_dp(0.4) == pytest.approx(GaussianShift([0.2]).epsilon(1e-5)[0])
    assert list(table.to_frame().columns) == list(table)
    assert "largest" in str(table)


@pytest.mark.parametrize("prior", [0.5, 0.1, 0.9])
def test_the_best_guess_by_simulation(prior):
    """Draw membership, draw w, let the attacker use Bayes: they are right as often as computed."""
    rng = np.random.default_rng(0)
    mu, rho, n = 0.4, 1.5, 400_000
    inside = rng.random(n) < prior
    w = np.where(
        inside,
        rho / (1 + mu) + np.sqrt(mu / (1 + mu)) * rng.standard_normal(n),
        rho + np.sqrt(mu) * rng.standard_normal(n),
    )
    loss = -0.5 * np.log1p(mu) + 0.5 * (w**2 - rho**2 / (1 + mu))
    guess = posterior_odds(loss, prior) > 1
    answer = identification(PosteriorSamplePair([mu], [rho]), prior)
    assert np.mean(guess == inside) == pytest.approx(answer.accuracy[0], abs=5 * 0.5 / n**0.5)
    assert answer.advantage[0] >= 0 and answer.guess[0] == max(prior, 1 - prior)
    # and the odds are calibrated
    p = posterior_odds(loss, prior) / (1 + posterior_odds(loss, prior))
    for low in np.arange(0.1, 0.9, 0.2):
        some = (p > low) & (p < low + 0.1)
        if some.sum() > 2000:
            assert inside[some].mean() == pytest.approx(p[some].mean(), abs=0.03)


def test_a_coin_without_a_release():
    assert np.allclose(identification(GaussianShift([0.0, 0.0]), [0.3, 0.8]).accuracy, [0.7, 0.8])
    with pytest.raises(InvalidInput):
        identification(GaussianShift([0.1]), 1.0)


@pytest.mark.parametrize("pair", [PosteriorSamplePair([0.2], [2.0]), LaplaceShift([1.0]), GaussianShift([0.8])])
def test_the_log_odds_fact(pair):
    """Events at least delta/eps likely under both move the log odds by at most 2 eps: thresholds of the best test."""
    delta = 1e-3
    eps = pair.epsilon(delta)
    bound = odds_bound(eps, delta)
    for fpr in np.geomspace(1e-4, 0.999, 60):
        P, Q = fpr, float(pair.attack_power(fpr)[0])
        if min(P, Q) >= bound.event_probability[0]:
            assert abs(np.log(P / Q)) <= bound.log_odds[0] + 1e-9


def test_the_realised_loss_is_the_log_ratio():
    """Against the closed form of MATH 1b, at outputs drawn from the release with everyone."""
    rng = np.random.default_rng(2)
    X, y = table(rng, 30, 3)
    release = release_of("posterior", 1.0, scale=0.7)
    with_, without = fit_of(release, X, y), fit_of(release, X[1:], y[1:])
    person = release.people(with_, Block(X[:1], y[:1]))
    mu, r = person.leverage[0], person.residual[0]
    for _ in range(20):
        theta = with_.theta + with_.basis @ rng.standard_normal(3) * 0.7
        w = (y[0] - X[0] @ theta) / 0.7
        expected = -0.5 * np.log1p(mu) + 0.5 * (w**2 - (r / 0.7) ** 2 / (1 + mu))
        assert realised_loss(release.law(without), release.law(with_), theta) == pytest.approx(
            expected, rel=1e-8, abs=1e-9
        )
