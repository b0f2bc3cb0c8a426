"""No release shows a cell: numpy's and scikit-learn's own errors would."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import perinstance as pi
from perinstance.errors import InvalidTable, PerinstanceError
from perinstance.releases.base.arguments import rows_as_they_are
from perinstance.releases.promises.class_labels import labels_as_they_are, signs

SECRET = "HIV-positive-4711"
RELEASES = [
    pi.PosteriorSample(),
    pi.OutputPerturbation(),
    pi.ObjectivePerturbation(),
    pi.AdaSSP(x_bound=1.0, y_bound=1.0),
    pi.AdaOPS(x_bound=1.0, y_bound=1.0),
]


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("where", ["X", "y"])
def test_a_text_in_a_cell_is_not_quoted(release, where):
    X, y = np.ones((5, 2), dtype=object), np.ones(5, dtype=object)
    if release.mechanism().promises:  # a refusal would tell: there the cell is a missing one
        X, y = X.astype(str), y.astype(str)
    if where == "X":
        X[3, 1] = SECRET
    else:
        y[3] = SECRET
    with pytest.raises((PerinstanceError, ValueError)) as caught:
        release.fit(X, y)
    shown = str(caught.value) + str(caught.value.__cause__)
    assert SECRET not in shown
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("release", RELEASES[:3], ids=lambda r: type(r).__name__)
def test_predicting_from_texts_is_not_quoted(release):
    from sklearn.base import clone

    rng = np.random.default_rng(0)
    fitted = clone(release).fit(rng.normal(size=(20, 2)), rng.normal(size=20))
    with pytest.raises((PerinstanceError, ValueError)) as caught:
        fitted.predict(np.array([[SECRET, 1.0]], dtype=object))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("release", [*RELEASES[:3], pi.NoisyMean()], ids=lambda r: type(r).__name__)
def test_what_an_audit_refuses_is_not_published(release):
    """Text that reads as numbers, dates, and whatever lies under a mask."""
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    mask = X == 3.0
    for table in (X.astype(str), X.astype("datetime64[s]"), np.ma.array(X, mask=mask)):
        for ask in (release.fit, lambda *rows: pi.audit(release, *rows)):
            with pytest.raises(InvalidTable):
                ask(table, *(() if isinstance(release, pi.NoisyMean) else (y,)))
    if not isinstance(release, pi.NoisyMean):
        for target in (y.astype(str), np.ma.array(y, mask=y == 3.0)):
            with pytest.raises(InvalidTable):
                release.fit(X, target)
    plain = np.ma.array(X)  # nothing is masked
    release.fit(plain, *(() if isinstance(release, pi.NoisyMean) else (y,)))


def test_what_lies_under_a_mask_is_missing_where_nothing_is_refused():
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
    rows, targets = rows_as_they_are(pi.AdaSSP(), np.ma.array(X, mask=X == 3.0), np.ma.array(y, mask=y == 5.0))
    assert np.isnan(rows[1, 1]) and np.isnan(rows).sum() == 1 and np.isnan(targets[5]) and np.isnan(targets).sum() == 1
    whole, _ = rows_as_they_are(pi.AdaSSP(), np.ma.array(X.astype(int), mask=X == 3.0), y)
    assert np.isnan(whole[1, 1]) and (whole[0] == X[0]).all()


def test_a_masked_label_is_refused_or_missing():
    """Where nothing is refused, it counts as a label of no declared class does: as no gradient."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(30, 2))
    y = np.ma.array((X[:, 0] > 0).astype(float), mask=np.arange(30) == 7)
    with pytest.raises(InvalidTable, match="masked"):
        pi.OutputPerturbation(LogisticRegression()).fit(X, y)
    words = np.ma.array(np.where(y.data > 0, "yes", "no"), mask=y.mask)
    for labels, two in ((y, (0.0, 1.0)), (words, ("no", "yes"))):
        found = signs(labels_as_they_are(pi.PrivateLogisticRegression(), X, labels), two)
        assert np.isnan(found[7]) and np.isfinite(np.delete(found, 7)).all()
    pi.NoisyDescent(LogisticRegression(), steps=2, noise=1.0).fit(X, y)
