from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.auditing.rows_again import recheck
from perinstance.errors import InvalidInput

RELEASES = [
    pi.PosteriorSample(alpha=0.5, gamma=0.7, fit_intercept=True),
    pi.OutputPerturbation(Ridge(alpha=1.0), scale=0.3),
    pi.ObjectivePerturbation(Ridge(alpha=1.0), scale=2.0),
]


def table(n: int = 70):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 3))
    return X, X.sum(1) + rng.normal(size=n)


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: type(r).__name__)
def test_both_roads_agree(release):
    X, y = table()
    audit = pi.audit(release, X, y)
    checks = recheck(audit, X, y)
    assert [c.name for c in checks] == ["most exposed", "median", "least exposed"]
    assert all(c.difference < 1e-9 for c in checks)
    assert checks[0].epsilon == audit.losses.max()


def test_a_smooth_model_agrees_too():
    X, y = table()
    audit = pi.audit(
        pi.OutputPerturbation(LogisticRegression(C=1.0), scale=0.5), X, (y > 0).astype(int), method="exact"
    )
    assert all(c.difference < 1e-6 for c in recheck(audit, X, (y > 0).astype(int)))


def test_a_wrong_loss_is_found():
    from dataclasses import replace

    X, y = table()
    audit = pi.audit(RELEASES[0], X, y)
    wrong = replace(audit, losses=audit.losses * 0.99)
    assert max(c.difference for c in recheck(wrong, X, y)) > 0.005


def test_another_table_is_refused():
    X, y = table()
    audit = pi.audit(RELEASES[0], X, y)
    with pytest.raises(InvalidInput, match="pass the table that was audited"):
        recheck(audit, X[:-1], y[:-1])


def test_one_person_has_nothing_to_compare_with():
    audit = pi.audit(RELEASES[0], np.ones((1, 1)), np.ones(1))
    assert recheck(audit, np.ones((1, 1)), np.ones(1)) == ()
