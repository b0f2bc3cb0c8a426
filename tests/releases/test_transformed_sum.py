"""Concave functions of sums: the pair against refits with 60 digits, the policy against every other table."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perinstance as pi
from perinstance.disclosure import statement
from perinstance.errors import InvalidInput, PerinstanceError
from perinstance.pairs import GaussianShift

mp.mp.dps = 60
RELEASES = [pi.SlowScalingSum("log", 0.5, 2.0), pi.SlowScalingSum("sqrt", 1.5), pi.SlowScalingSum("log", 1.0, 1e-18)]


def slow(release, rows):
    """f of the sum of each column, with 60 digits."""
    totals = [mp.fsum(mp.mpf(max(v, 0.0)) for v in column) for column in rows.T.tolist()]
    return [mp.log(t + mp.mpf(release.offset)) if release.transform == "log" else mp.sqrt(t) for t in totals]


def slow_distance(release, X, i):
    steps = [a - b for a, b in zip(slow(release, X), slow(release, np.delete(X, i, 0)), strict=True)]
    return mp.sqrt(mp.fsum(s * s for s in steps)) / mp.mpf(release.scale)


@pytest.mark.parametrize("release", RELEASES, ids=["log", "sqrt", "next to no offset"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_distances_by_refits(release, data):
    sizes = st.sampled_from([0.0, 1e-17, 1e-12, 0.3, 17.5, 1e6, 1e16, -3.0])
    X = np.array(data.draw(st.lists(st.tuples(sizes, sizes), min_size=1, max_size=6)))
    audit = pi.audit(release, X)
    found = audit.pairs.to_columns()["distance"]
    for i in range(len(X)):
        truth = slow_distance(release, X, i)
        assert truth <= found[i] * (1 + 1e-30)
        if audit.kind[i] == "exact":
            assert found[i] <= truth * (1 + 2e-6) + 1e-300
        assert found[i] <= np.linalg.norm(release.policy(X[i])) * (1 + 1e-9) + 1e-300  # the policy covers every table


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("transform", ["log", "sqrt"])
@pytest.mark.parametrize("offset", [1e-310, 1.0, 1.7e308])
def test_amounts_of_any_size(transform, offset):
    """Squares of moves underflow, sums overflow: no distance is below the truth, inside and outside."""
    rng = np.random.default_rng(4)
    release = pi.SlowScalingSum(transform, 1e-3, offset)
    for powers in ((-320, -300), (-200, 200), (-170, -150), (300, 308)):
        X = rng.uniform(0.1, 1.0, (4, 2)) * 10.0 ** rng.integers(*powers, size=(4, 2))
        new = np.array([[1.7e308, 1e308], [1e-300, 1e-323], [1.0, 0.0]])
        with mp.workdps(700):
            audit, outside = pi.audit(release, X), pi.audit(release, X, outsiders=(new, None))
            truths = [slow_distance(release, X, i) for i in range(4)]
            truths += [slow_distance(release, np.vstack([X, row]), 4) for row in new]
            distances = np.concatenate([one.pairs.to_columns()["distance"] for one in (audit, outside)])
            kinds = np.concatenate([audit.kind, outside.kind])
            for found, truth, kind, row in zip(distances, truths, kinds, np.vstack([X, new]), strict=True):
                assert np.isfinite(found) and truth <= mp.mpf(found)
                assert kind != "exact" or found <= truth * (1 + mp.mpf("1e-6"))
                policy = mp.sqrt(mp.fsum(mp.mpf(p) ** 2 for p in release.policy(row).tolist()))
                assert truth <= policy
    with pytest.raises(PerinstanceError, match="column 0: its sum is beyond"):
        pi.audit(release, np.full((2, 1), 1e308))


@pytest.mark.parametrize("release", RELEASES[:2], ids=lambda r: r.transform)
def test_statement_and_realised_loss(release):
    X = np.abs(np.random.default_rng(3).normal(size=(8, 2))) * 100
    for seed in range(3):
        others = np.abs(np.random.default_rng(seed).normal(size=(5, 2))) * 10.0**seed
        audit = pi.audit(release, np.vstack([X[0], others]))
        assert audit.losses[0] <= statement(release, X[0]).epsilon * (1 + 1e-9)
    told = statement(release, X[0])
    assert told.epsilon == pytest.approx(
        GaussianShift([np.linalg.norm(release.policy(X[0]))]).epsilon(1e-6)[0], rel=1e-9
    )
    o = [4.0, 5.0]
    found = pi.audit(release, X).realised(o, X)

    def log_density(rows):
        return -mp.fsum(
            ((mp.mpf(v) - c) / mp.mpf(release.scale)) ** 2 / 2 for v, c in zip(o, slow(release, rows), strict=True)
        )

    joined = np.vstack([X, [[3.0, 70.0]]])
    outside = pi.audit(release, X, outsiders=(joined[-1:],)).realised(o, X, outsiders=(joined[-1:],))
    for i in range(8):
        assert abs(found.losses[i] - (log_density(X) - log_density(np.delete(X, i, 0)))) <= found.errors[i] <= 1e-6
    assert abs(outside.losses[0] - (log_density(joined) - log_density(X))) <= outside.errors[0] <= 1e-6


def test_what_is_refused():
    X = np.ones((4, 1))
    for wrong in ({"transform": "exp"}, {"scale": 0.0}, {"offset": 0.0}, {"offset": -1.0}):
        with pytest.raises(InvalidInput):
            pi.audit(pi.SlowScalingSum(**wrong), X)
    audit = pi.audit(RELEASES[0], X)
    for ask in (lambda: audit.everyone(), lambda: audit.worst_case_dp()):
        with pytest.raises(PerinstanceError):
            ask()
