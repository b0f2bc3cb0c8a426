"""Deletions against brute force: refits without the group, densities written down, every subset looked at."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput, RefusedModel

DELTA = 1e-3
RELEASES = [
    pi.PosteriorSample(alpha=1.0, gamma=0.5),
    pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=0.4),
    pi.ObjectivePerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=3.0),
]


def one_column(n=9):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 1))
    return X, 0.5 * X[:, 0] + rng.normal(size=n)


def law(release, X, y):
    """Refit one coefficient: mean and standard deviation of what is published."""
    H = float(X[:, 0] @ X[:, 0]) + 1.0
    mean = float(X[:, 0] @ y) / H
    if isinstance(release, pi.PosteriorSample):
        return mean, (release.gamma * H) ** -0.5
    return mean, release.scale if isinstance(release, pi.OutputPerturbation) else release.scale / H


def slow_loss(release, X, y, gone):
    """Both directions of the hockey stick on a fine grid; epsilon by bisection."""
    keep = np.delete(np.arange(len(y)), list(gone))
    first, second = law(release, X, y), law(release, X[keep], y[keep])

    low, high = (f(first[0], second[0]) + sign * 12 * max(first[1], second[1]) for f, sign in ((min, -1), (max, 1)))
    o = np.linspace(low, high, 200_001)
    p, q = norm.pdf(o, *first), norm.pdf(o, *second)

    def hockey_stick(eps):
        factor = np.exp(eps)
        sticks = [np.maximum(a - factor * b, 0.0).sum() * (o[1] - o[0]) for a, b in ((p, q), (q, p))]
        return max(sticks) - DELTA

    return 0.0 if hockey_stick(0.0) <= 0 else brentq(hockey_stick, 0.0, 60.0, xtol=1e-7)


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: type(r).__name__)
def test_one_and_two_at_once_by_quadrature(release):
    X, y = one_column()
    audit = pi.audit(release, X, y, delta=DELTA)
    epsilon = float(np.median(audit.losses))
    found = audit.deletions(epsilon)
    for i in (0, 4):
        slow = slow_loss(release, X, y, [i])
        assert audit.losses[i] == pytest.approx(slow, abs=1e-5)
        assert found.possible[i] == (slow <= epsilon) or abs(slow - epsilon) < 1e-5
    assert found.count == (audit.losses <= epsilon).sum()
    together = audit.deletions_together([0, 4], 100.0, X, y)
    assert together.loss == pytest.approx(slow_loss(release, X, y, [0, 4]), abs=1e-5)
    assert together.possible and set(together.order) == {0, 4} and together.rest == () and together.kind == "exact"


@pytest.mark.parametrize("release", RELEASES[:2], ids=lambda r: type(r).__name__)
def test_the_largest_set_is_the_largest(release):
    X, y = one_column()
    audit = pi.audit(release, X, y, delta=DELTA)
    people, epsilon = [0, 1, 3, 5], float(np.quantile(audit.losses, 0.6))
    found = audit.deletions_together(people, epsilon, X, y)
    slow = {some: slow_loss(release, X, y, some) for k in range(1, 5) for some in combinations(people, k)}
    size = max((len(some) for some, loss in slow.items() if loss <= epsilon), default=0)
    assert len(found.largest) == size and (not size or slow[found.largest] <= epsilon)
    for k, loss in enumerate(found.order_losses):
        assert loss == pytest.approx(slow[tuple(sorted(found.order[: k + 1]))], abs=1e-5) and loss <= epsilon
    first = min(people, key=lambda i: slow[(i,)])
    assert not found.order or found.order[0] == first
    assert len(found.order) <= size
    assert set(found.rest) == set(people) - set(found.largest)


def test_two_who_cancel_can_leave_together_though_neither_can_alone():
    """The loss of a group need not grow with it: the exact search finds what the greedy one cannot."""
    X, y = np.ones((40, 1)), np.zeros(40)
    y[0], y[1] = 3.0, -3.0
    release = pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=0.05)
    audit = pi.audit(release, X, y, delta=1e-6)
    found = audit.deletions_together([0, 1], 1.0, X, y)
    assert audit.losses[:2].min() > 1 and found.order == ()
    assert found.largest == (0, 1) and found.possible and found.loss < 1e-6


def test_own_row_bounds_add_up():
    X, y = one_column(30)
    ssp = pi.audit(pi.AdaSSP(epsilon=1.0, x_bound=4.0, y_bound=5.0), X, y, delta=1e-6)
    found = ssp.deletions_together([0, 1, 2], 1.0, X, y)
    assert found.kind == "upper" and found.loss >= ssp.losses[:3].max()
    D = ssp.pairs.to_columns()["distance"][:3].sum()
    assert found.loss == pytest.approx(pi.pairs.GaussianShift([D]).epsilon(1e-6)[0], rel=1e-9)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("statistic", ["sum", "mean"])
def test_several_of_a_sum_or_a_mean_by_the_sums_themselves(statistic, noise):
    """Both sums written down; the distance of a group is that of its vector, and people who cancel move nothing."""
    X = np.random.default_rng(4).normal(size=(12, 1 if noise == "laplace" else 3)) + 100.0
    X[6] = 200.0 - X[5]
    release = pi.NoisyMean(scale=0.7, statistic=statistic, noise=noise)
    audit = pi.audit(release, X, delta=DELTA)
    pair = pi.pairs.LaplaceShift if noise == "laplace" else pi.pairs.GaussianShift
    for gone in ([0, 1], [2, 5, 6, 9]):
        keep = np.delete(np.arange(12), gone)
        f = X.sum(axis=0) if statistic == "sum" else X.mean(axis=0)
        rest = X[keep].sum(axis=0) if statistic == "sum" else X[keep].mean(axis=0)
        found = audit.deletions_together(gone, 1e9, X)
        truth = pair([np.linalg.norm(f - rest) / 0.7]).epsilon(DELTA)[0]
        assert found.loss == pytest.approx(truth, rel=1e-9) and found.kind == "exact" and found.possible
    everybody = audit.deletions_together(list(range(12)), 1.0, X)
    assert np.isinf(everybody.loss) == (statistic == "mean") or everybody.loss > 1e2


@pytest.mark.parametrize("transform", ["log", "sqrt"])
def test_several_of_a_transformed_sum_by_mpmath(transform):
    import mpmath as mp

    X = np.abs(np.random.default_rng(4).normal(size=(9, 2)))
    X[4] = [1e12, 1e-12]
    X[5, 0] = -3.0  # counts as zero
    release = pi.SlowScalingSum(transform=transform, scale=0.3, offset=0.5)
    audit = pi.audit(release, X, delta=DELTA)
    f = (lambda s: mp.log(s + mp.mpf(0.5))) if transform == "log" else mp.sqrt
    with mp.workdps(60):
        for gone in ([1, 4], [0, 2, 5], list(range(9))):
            moves = []
            for column in np.maximum(X, 0.0).T.tolist():
                whole = mp.fsum(map(mp.mpf, column))
                rest = mp.fsum(mp.mpf(v) for i, v in enumerate(column) if i not in gone)
                moves.append(f(whole) - f(rest))
            distance = float(mp.sqrt(mp.fsum(m * m for m in moves)) / mp.mpf(0.3))
            found = audit.deletions_together(gone, 1e9, X)
            assert found.loss == pytest.approx(pi.pairs.GaussianShift([distance]).epsilon(DELTA)[0], rel=1e-9)
            assert found.kind == "exact"


def test_estimates_certify_nothing():
    X, y = one_column(30)
    audit = pi.audit(pi.OutputPerturbation(LogisticRegression(), scale=1.0), X, (y > 0).astype(int), method="estimate")
    assert audit.deletions(1e6).count == 0
    with pytest.raises(RefusedModel, match="one person at a time"):
        audit.deletions_together([0, 1], 1.0, X, (y > 0).astype(int))


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: type(r).__name__)
def test_publishing_again_costs_both(release):
    X, y = one_column(20)
    audit = pi.audit(release, X, y, delta=DELTA)
    found = audit.republished([2, 7], X, y)
    keep = np.delete(np.arange(20), [2, 7])
    again = pi.audit(release, X[keep], y[keep], delta=DELTA)
    assert np.allclose(found.after, (audit.pairs[keep] + again.pairs).epsilon(DELTA), rtol=1e-7)
    assert (found.after >= found.before - 1e-12).all() and list(found.positions) == list(keep)
    assert np.array_equal(found.before, audit.losses[keep])


def test_people_by_id_and_what_is_refused():
    X, y = one_column()
    ids = ["007", "7", "NA", "=cmd", "a", "b", "c", "d", "e"]
    audit = pi.audit(RELEASES[0], X, y, ids=ids)
    assert audit.deletions_together(["7", "007"], 9.0, X, y, ids=ids).people == (1, 0)
    for wrong in ([], "007", ["8"], [9], [-1], [0, 0], [True, 0.5]):
        with pytest.raises(InvalidInput):
            audit.deletions_together(wrong, 1.0, X, y)
    with pytest.raises(InvalidInput, match="epsilon"):
        audit.deletions(-1.0)
    with pytest.raises(InvalidInput, match="audited"):
        audit.deletions_together([0], 1.0, X[1:], y[1:])
    with pytest.raises(InvalidInput, match="audited"):
        audit.republished([0], X[1:], y[1:])
    with pytest.raises(InvalidInput, match="outsiders"):
        pi.audit(RELEASES[0], X, y, outsiders=(X[:1], y[:1])).deletions(1.0)
    with pytest.raises(InvalidInput, match="nobody"):
        audit.republished(list(range(9)), X, y)


def test_nothing_shows_in_a_repr():
    X, y = one_column()
    audit = pi.audit(RELEASES[0], X, y)
    shown = [audit.deletions(1.0), audit.deletions_together([0], 1.0, X, y), audit.republished([0], X, y)]
    assert [repr(one) for one in shown] == [
        "Deletions(9 people, confidential)",
        "DeletedTogether(1 people, confidential)",
        "Republished(8 people, confidential)",
    ]
    assert list(audit.deletions(1.0).to_frame()) == ["possible", "epsilon", "kind"]
