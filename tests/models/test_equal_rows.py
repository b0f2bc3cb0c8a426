"""Rows that are equal bit by bit are answered once by the slow road, and each gets that answer."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import perinstance as pi
from perinstance.models.linear import open_people


@pytest.mark.parametrize("value", [1.0, 0.0])
def test_many_equal_rows_that_are_fitted_exactly(value, monkeypatch):
    asked, slow = [], open_people._answered
    monkeypatch.setattr(open_people, "_answered", lambda *given: asked.append(len(given[2])) or slow(*given))
    release = pi.OutputPerturbation(LinearRegression(), scale=1.0)
    audit = pi.audit(release, np.full((5000, 1), value), np.full(5000, value))
    assert (audit.losses == 0.0).all() and (np.asarray(audit.kind) == "exact").all() and audit.health.refined == 5000
    assert max(asked) == 1


def test_equal_rows_have_the_answer_of_each_by_itself(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.choice([1.0, 2.0, 5.0], size=(60, 1))
    y = 3.0 * X[:, 0] + rng.choice([0.0, 2.0**-50, -(2.0**-50)], size=60)  # residuals that floats do not know
    release = pi.OutputPerturbation(LinearRegression(), scale=1e-15)
    once = pi.audit(release, X, y)
    assert once.health.refined > 20 and len(np.unique(once.losses)) > 5
    monkeypatch.setattr(open_people, "distinct_rows", lambda X, y: (np.arange(len(y)), np.arange(len(y))))
    each = pi.audit(release, X, y)
    assert (once.losses == each.losses).all() and (once.leverages == each.leverages).all()
    assert (once.residuals == each.residuals).all() and (np.asarray(once.kind) == np.asarray(each.kind)).all()
