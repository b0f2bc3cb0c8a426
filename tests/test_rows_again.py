"""Rows beyond bounds, rare features, clipping, refits: what a second look at the table adds to an audit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.errors import BeyondBounds, InvalidInput
from perinstance.report import render


def table(n: int = 200):
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=["age", "weight", "dose", "stay"])
    y = X.sum(axis=1) + rng.normal(size=n)
    X.loc[7, "dose"], y[7] = 30.0, -40.0
    return X, y


def test_rows_beyond_are_those_one_would_count():
    X, y = table()
    audit = pi.audit(pi.PosteriorSample(), X, y)
    found = audit.rows_beyond(2.5, 4.0, X, y)
    far, high = np.linalg.norm(X, axis=1) > 2.5, np.abs(y) > 4.0
    assert (found.people, found.features, found.targets) == (200, far.sum(), high.sum())
    assert found.either == (far | high).sum()
    box = audit.rows_beyond([1.0, 2.0, 3.0, 4.0], 4.0, X, y)
    assert box.features == (np.abs(X.to_numpy()) > [1, 2, 3, 4]).any(axis=1).sum()
    assert not any(letter.isdigit() for letter in repr(found))


@pytest.mark.parametrize("intercept", [False, True])
def test_shares_are_what_the_leverage_loses_without_the_column(intercept):
    X, y = table()
    audit = pi.audit(pi.PosteriorSample(alpha=0.0, fit_intercept=intercept), X, y)
    found = audit.rare_features(X, y)
    assert [one.position for one in found] == np.argsort(-audit.losses, kind="stable")[:10].tolist()
    assert found[0].position == 7 and found[0].names[0] == "dose" and found[0].shares[0] > 0.9
    rows = X.to_numpy() - (X.to_numpy().mean(axis=0) if intercept else 0.0)
    for one in found:  # the slow road: the leverage of the table without the column
        whole = leverage(rows, one.position)
        shares = [1 - leverage(np.delete(rows, j, axis=1), one.position) / whole for j in range(4)]
        order = [j for j in np.argsort(np.negative(shares))[:3] if shares[j] >= 0.05]
        assert one.names == tuple(X.columns[j] for j in order)
        assert one.shares == pytest.approx([shares[j] for j in order])


def leverage(rows, i: int) -> float:
    return float(rows[i] @ np.linalg.solve(rows.T @ rows, rows[i]))


def test_a_constant_column_and_a_row_of_zeros_have_no_rare_feature():
    X = np.column_stack([np.linspace(-1, 1, 9), np.zeros(9)])
    found = pi.audit(pi.PosteriorSample(), X, np.arange(9.0)).rare_features(X, np.arange(9.0))
    assert {one.names for one in found} == {("column 0",), ()}


def test_columns_without_names_are_numbered_and_outsiders_refused():
    X, y = table()
    audit = pi.audit(pi.PosteriorSample(), X.to_numpy(), y.to_numpy())
    assert audit.rare_features(X.to_numpy(), y.to_numpy(), count=1)[0].names[0] == "column 2"
    outside = pi.audit(pi.PosteriorSample(), X, y, outsiders=(X[:3], y[:3]))
    with pytest.raises(InvalidInput, match="outsiders"):
        outside.rare_features(X, y)


def test_python_warns_when_somebody_lost_more_than_anybody_within_bounds():
    X, y = table()
    audit = pi.audit(pi.OutputPerturbation(scale=0.5), X, y)
    with pytest.warns(BeyondBounds, match="the table breaks the bounds, and then") as caught:
        anybody = audit.everyone(x_bound=1.0, y_bound=1.0)
    assert audit.losses.max() > anybody.epsilon
    assert caught[0].filename == __file__
    audit.everyone(x_bound=60.0, y_bound=80.0)  # warnings are errors here
    ridge = pi.OutputPerturbation(scale=0.5)
    page = render(pi.audit(ridge, X, y), everyone=float(anybody.epsilon))
    assert "Check the declared bounds:" in page
    assert "Check the declared bounds:" not in render(audit, everyone=float(audit.losses.max()) + 1)


def test_many_clipped_rows_are_told_by_the_audit_and_not_by_fit():
    X, y = table()
    release = pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=100.0)
    release.fit(X, y)  # says nothing, whatever the data: warnings are errors here
    with pytest.warns(BeyondBounds, match="more than 5% of the rows"):
        audit = pi.audit(release, X, y)
    page = render(audit)
    count = int((np.linalg.norm(X, axis=1) > 1.0).sum())
    assert "Many rows are clipped:" in page and f"{count:,} of 200" in page


def test_a_promise_stands_beside_the_losses():
    X, y = table()
    audit = pi.audit(pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=60.0, y_bound=80.0), X, y)
    page = render(audit)
    assert "Promise (DP)" in page and "the release promises everybody at most 1.00" in page
    assert "promised to all 1.00" in page
    assert "1.01" not in page[page.index("The verdict") : page.index("Who is most exposed")]
    other = pi.audit(audit.release, X, y, delta=1e-8)
    promised = audit.release.promise(4).epsilon(1e-8)
    assert f"{promised:.2f}"[:3] in render(other)
    assert "Promise" not in render(pi.audit(pi.PosteriorSample(), X, y))


@pytest.mark.parametrize("known_by", ["ids", "index", "file"])
def test_a_table_in_another_order_is_refused(known_by, tmp_path):
    """Rows are found by position: after sorting, a certificate, or an odds ratio, would be somebody else's."""
    X, y = table(40)
    frame = X.assign(person=[f"p{i}" for i in range(40)], cost=y)
    columns = {"target": "cost", "ids": "person"} if known_by != "index" else {"target": "cost"}
    frame = frame.drop(columns="person") if known_by == "index" else frame
    other = frame.sort_values("age")
    if known_by != "index":
        other = other.reset_index(drop=True)
    release = pi.PosteriorSample()
    if known_by == "file":
        for name, rows in (("audited.csv", frame), ("sorted.csv", other)):
            rows.to_csv(tmp_path / name, index=False)
        frame, other = (pi.scan(tmp_path / name) for name in ("audited.csv", "sorted.csv"))
    audit = pi.audit(release, frame, **columns)
    published = release.fit(X, y)
    asked = [
        lambda rows: audit.deletions_together([1, 2], 1.0, rows, **columns).loss,
        lambda rows: audit.republished([1], rows, **columns).after.max(),
        lambda rows: audit.realised(published, rows, **columns).losses.max(),
        lambda rows: audit.recheck(rows, **columns)[0].refitted,
        lambda rows: audit.rare_features(rows, **columns)[0].position,
    ]
    for ask in asked:
        assert np.isfinite(ask(frame))
        with pytest.raises(InvalidInput, match="another order"):
            ask(other)


RELEASES = [
    pi.PosteriorSample(alpha=0.5, gamma=0.7, fit_intercept=True),
    pi.OutputPerturbation(Ridge(alpha=1.0), scale=0.3),
    pi.ObjectivePerturbation(Ridge(alpha=1.0), scale=2.0),
]


def small_table(n: int = 70):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 3))
    return X, X.sum(1) + rng.normal(size=n)


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: type(r).__name__)
def test_both_roads_agree(release):
    X, y = small_table()
    audit = pi.audit(release, X, y)
    checks = audit.recheck(X, y)
    assert [c.name for c in checks] == ["most exposed", "median", "least exposed"]
    assert all(c.difference < 1e-9 for c in checks)
    assert checks[0].epsilon == audit.losses.max()


def test_a_smooth_model_agrees_too():
    X, y = small_table()
    audit = pi.audit(
        pi.OutputPerturbation(LogisticRegression(C=1.0), scale=0.5), X, (y > 0).astype(int), method="exact"
    )
    assert all(c.difference < 1e-6 for c in audit.recheck(X, (y > 0).astype(int)))


def test_a_wrong_loss_is_found():
    X, y = small_table()
    audit = pi.audit(RELEASES[0], X, y)
    wrong = replace(audit, losses=audit.losses * 0.99)
    assert max(c.difference for c in wrong.recheck(X, y)) > 0.005


def test_one_person_has_nothing_to_compare_with():
    audit = pi.audit(RELEASES[0], np.ones((1, 1)), np.ones(1))
    assert audit.recheck(np.ones((1, 1)), np.ones(1)) == ()
