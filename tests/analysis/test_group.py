"""Groups: against refits and two-Gaussian quadrature; the chain bound in both directions."""

import mpmath as mp
import numpy as np
import pytest

from perinstance.analysis import chain_bound, chain_pairs, group, group_pairs
from perinstance.analysis.group_privacy import chain
from perinstance.errors import NumericalTrouble
from perinstance.pairs import PosteriorSamplePair
from tests.analysis.worlds import fit_of, release_of, table

DELTA = 1e-3


def laws(release, X, y, k):
    """Means and covariances without and with the first k people, by refitting."""
    both = [release.law(fit_of(release, X[k:], y[k:])), release.law(fit_of(release, X, y))]
    return [(law.mean, law.root @ law.root.T) for law in both]


def test_a_whole_hospital():
    """300 people of 20 coefficients: still at most 20 directions, and finite."""
    rng = np.random.default_rng(7)
    X, y = table(rng, 1000, 20)
    release = release_of("posterior", 1.0, scale=3.0)
    pairs = group_pairs(release, fit_of(release, X, y), X[:300], y[:300])
    assert pairs.excess.shape == (1, 20)
    p, q = laws(release, X, y, 300)
    R = np.linalg.cholesky(q[1])
    nu = np.linalg.eigvalsh(np.linalg.solve(R, np.linalg.solve(R, p[1] - q[1]).T))
    assert np.allclose(np.sort(pairs.excess[0]), nu, rtol=1e-8)


def test_people_who_alone_hold_up_a_direction_lose_everything():
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.standard_normal(30), np.zeros(30)])
    X[:2, 1] = 1.0, -2.0
    release = release_of("posterior", 0.0)
    y = rng.standard_normal(30)
    with pytest.raises(NumericalTrouble, match="inside=False"):  # rounding cannot tell very large from infinite
        group(release, fit_of(release, X, y), X[:2], y[:2], 1e-6)
    outside = group(release, fit_of(release, X[2:], y[2:]), X[:2], y[:2], 1e-6, inside=False)
    assert outside.epsilon == np.inf


def test_the_two_directions_of_the_chain_have_different_weights():
    eps, deltas = np.array([0.5, 1.0, 0.2]), np.array([1e-3, 1e-4, 1e-2])
    c = chain_bound(eps, deltas)
    assert c.delta_without == pytest.approx(1e-3 + 1e-4 * np.exp(0.5) + 1e-2 * np.exp(1.5))
    assert c.delta_with == pytest.approx(1e-3 * np.exp(1.2) + 1e-4 * np.exp(0.2) + 1e-2)
    assert c.delta == max(c.delta_without, c.delta_with) and c.epsilon == pytest.approx(1.7)


def test_the_chain_is_rounded_up():
    rng = np.random.default_rng(0)
    with mp.workdps(40):
        for k in rng.integers(1, 40, 50).tolist():
            eps, deltas = rng.uniform(0.0, 3.0, k), rng.uniform(0.0, 1e-60, k)
            e, d, c = [mp.mpf(v) for v in eps], [mp.mpf(v) for v in deltas], chain_bound(eps, deltas)
            forward = mp.fsum(d[i] * mp.exp(mp.fsum(e[:i])) for i in range(k))
            backward = mp.fsum(d[i] * mp.exp(mp.fsum(e[i + 1 :])) for i in range(k))
            assert forward <= c.delta_without <= forward * (1 + 1e-9) and c.epsilon >= mp.fsum(e)
            assert backward <= c.delta_with <= backward * (1 + 1e-9)
    assert chain_bound([np.inf, 1.0], 0.0).delta == 0.0 and chain_bound([800.0, 1.0], 1e-300).delta == 1.0


@pytest.mark.parametrize("seed", range(10))
def test_the_chain_holds_in_both_directions(seed):
    """At the chain's (epsilon, delta) both exact profiles are below; the printed delta~ alone would not always do."""
    rng = np.random.default_rng(seed)
    X, y = table(rng, 30, 2)
    k = int(rng.integers(2, 5))
    release = release_of("posterior", 1.0, scale=float(rng.choice([0.5, 2.0])))
    fit = fit_of(release, X, y)
    steps = chain_pairs(release, fit, X[:k], y[:k])
    exact = group_pairs(release, fit, X[:k], y[:k])
    for share in (1e-2, 1e-4):
        c = chain_bound(steps.epsilon(share), share)
        assert exact.delta(c.epsilon, "without")[0] <= c.delta_without * (1 + 1e-9)
        assert exact.delta(c.epsilon, "with")[0] <= c.delta_with * (1 + 1e-9)


def test_the_chain_spends_its_delta():
    pairs = PosteriorSamplePair([0.01, 0.02, 0.05], [1.0, 0.5, 2.0])
    c = chain(pairs, 1e-6)
    assert 0.99e-6 < c.delta <= 1e-6
    assert c.epsilon >= pairs.epsilon(1e-6).sum()
