"""No release shows a cell: numpy's and scikit-learn's own errors would."""

from __future__ import annotations

import numpy as np
import pytest

import perinstance as pi
from perinstance.errors import PerinstanceError

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


def test_a_mean_of_texts_is_not_quoted():
    with pytest.raises((PerinstanceError, ValueError)) as caught:
        pi.NoisyMean(scale=1.0).fit(np.array([["1"], [SECRET]], dtype=object))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("release", RELEASES[:3], ids=lambda r: type(r).__name__)
def test_predicting_from_texts_is_not_quoted(release):
    from sklearn.base import clone

    rng = np.random.default_rng(0)
    fitted = clone(release).fit(rng.normal(size=(20, 2)), rng.normal(size=20))
    with pytest.raises((PerinstanceError, ValueError)) as caught:
        fitted.predict(np.array([[SECRET, 1.0]], dtype=object))
    assert SECRET not in str(caught.value)
