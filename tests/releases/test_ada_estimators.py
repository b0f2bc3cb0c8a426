"""AdaOPS and AdaSSP as scikit-learn users meet them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import perinstance as pi
from perinstance.errors import InvalidInput


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = np.clip(X @ [0.6, -0.5, 0.3, 0.2, 0.0] + rng.normal(size=4000) / 10, -1, 1)
    return X, y


def test_adaops_reports_what_it_released(table):
    model = pi.AdaOPS(epsilon=2.0, x_bound=1.0, y_bound=1.0).fit(*table)
    assert model.lambda_ >= 0
    assert model.gamma_ > 0
    assert abs(model.count_ - 4000) < 500
    assert np.isfinite([model.eigenvalue_, model.log_size_]).all()
    assert (model._drawn * 2.0**40 == np.round(model._drawn * 2.0**40)).all()
    known = pi.AdaOPS(epsilon=2.0, x_bound=1.0, y_bound=1.0, n_public=4000).fit(*table)
    assert known.count_ is None


def test_kappa_sets_the_floor(table):
    lenient, strict = (
        pi.AdaOPS(epsilon=2.0, x_bound=1.0, y_bound=1.0, n_public=4000, kappa=k).fit(*table) for k in (100.0, 0.1)
    )
    assert strict.lambda_ > 1000 > lenient.lambda_


@pytest.mark.parametrize("release", [pi.AdaSSP, pi.AdaOPS])
def test_missing_bounds_are_an_error_and_never_guessed(release, table):
    for bounds in ({}, {"x_bound": 1.0}, {"y_bound": 1.0}, {"x_bound": 0.0, "y_bound": 1.0}, {"x_bound": True}):
        with pytest.raises(InvalidInput, match="must be declared"):
            release(**bounds).fit(*table)


@pytest.mark.parametrize(
    "wrong",
    [
        pi.AdaOPS(x_bound=1.0, y_bound=1.0, n_public=3999),
        pi.AdaOPS(x_bound=1.0, y_bound=1.0, n_public=0),
        pi.AdaOPS(x_bound=1.0, y_bound=1.0, n_public=4000.0),
        pi.AdaOPS(x_bound=1.0, y_bound=1.0, kappa=-1.0),
        pi.AdaSSP(x_bound=1.0, y_bound=1.0, rounds=0),
        pi.AdaSSP(x_bound=1.0, y_bound=1.0, rounds=2.5),
        pi.AdaSSP(x_bound=1.0, y_bound=1.0, residual_bound=2.0),
    ],
    ids=str,
)
def test_wrong_declarations_are_refused(wrong, table):
    with pytest.raises(InvalidInput):
        clone(wrong).fit(*table)


def test_clipping_happens_and_is_told_to_the_curator_only(table):
    X, y = table
    model = pi.AdaSSP(x_bound=0.5, y_bound=0.25, epsilon=2.0).fit(X, y)
    clipped = model.clipped(X, y)
    assert clipped.features == (np.linalg.norm(X, axis=1) > 0.5).sum()
    assert clipped.labels == (np.abs(y) > 0.25).sum()
    assert not any(character.isdigit() for character in repr(clipped))
