"""Statements about anybody, of releases that use several rows of a person: all of those rows count."""

from __future__ import annotations

import numpy as np
import pytest

import perinstance as pi
from perinstance import analysis
from perinstance.errors import RefusedModel
from perinstance.pairs import GaussianShift


@pytest.mark.parametrize("statistic", ["sum", "mean"])
@pytest.mark.parametrize("k", [None, 1, 3])
def test_anybody_brings_as_many_rows_as_are_used(statistic, k):
    """Others at -1 and a person with k rows at 1, by hand; what is calibrated keeps what was asked for."""
    release = pi.NoisyMean(scale=2.0, noise="gaussian", statistic=statistic, rows_per_person=k)
    n, m = 10, k or 1
    move = m if statistic == "sum" else (m - n) / (n + m) + 1.0
    found = analysis.worst_case_dp(release, 1e-6, x_bound=1.0, n=n, d=1)
    assert found.epsilon == pytest.approx(GaussianShift([move / 2.0]).epsilon(1e-6)[0], rel=1e-9)
    assert (f"at most {m} rows used" if m > 1 else "one row") in found.assumptions[0]
    others, theirs = np.full((n, 1), -1.0), np.ones((m, 1))
    ids = [*range(n), *[99] * m]
    audit = pi.audit(release, np.vstack([others, theirs]), ids=ids)
    truth = audit.losses[-1]
    assert found.epsilon == pytest.approx(truth, rel=1e-9)
    alone = pi.audit(release, others, ids=ids[:n])
    assert alone.everyone(1.0).epsilon == pytest.approx(truth, rel=1e-9)
    assert audit.worst_case_dp(1.0).epsilon == pytest.approx(truth, rel=1e-9)
    scale = pi.calibrate(release, epsilon=1.0, x_bound=1.0, y_bound=1.0, people=n, n_features=1).value
    assert GaussianShift([move / scale]).epsilon(1e-6)[0] <= 1.0


@pytest.mark.parametrize("release", [pi.NoisyMean(rows_per_person=1), pi.SlowScalingSum(rows_per_person=1)])
def test_people_outside_a_table_whose_rows_are_left_out(release):
    """Beside 100 rows of which one is used, somebody who joins moves far more than beside 100."""
    table, ids = np.full((100, 1), 0.5), ["a"] * 100
    with pytest.raises(RefusedModel, match="more rows than rows_per_person"):
        pi.audit(release, table, ids=ids, outsiders=(np.ones((1, 1)), None, ["b"]))
    used = pi.audit(release, table[:1], ids=ids[:1], outsiders=(np.ones((1, 1)), None, ["b"]))
    assert np.isfinite(used.losses[0])
