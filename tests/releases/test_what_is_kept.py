"""What a fitted release keeps is what it published: pickles, JSON and ``vars`` hold nothing else of the data."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import pickle
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone

import perinstance as pi

from .catalogue import CATALOGUE

LINEAR = {"coef_", "intercept_"}
SUMS = {"totals_", "column_totals_", "gram_", "moments_"}
PUBLISHED = {
    "OutputPerturbation": LINEAR | {"classes_"},
    "PosteriorSample": LINEAR,
    "PrivateGram": LINEAR | {"moments_", "privacy_"},
    "ObjectivePerturbation": LINEAR | {"classes_"},
    "LaplacePosterior": LINEAR | {"classes_"},
    "GaussianProcessSample": {"values_"},
    "NoisyMean": {"value_"},
    "SlowScalingSum": {"value_", "total_"},  # the total follows from the value
    "StudentPerturbation": LINEAR | {"classes_"},
    "NoisyDescent": LINEAR | {"classes_", "path_", "noise_", "privacy_"},
    # lambda, gamma and the floor follow from the noisy numbers that were released
    # _drawn is the sample itself, in its coordinates; coef_ and intercept_ are made of it and of the sums
    "AdaOPS": LINEAR
    | SUMS
    | {"lambda_", "gamma_", "eigenvalue_", "count_", "log_size_", "privacy_", "_floor", "_drawn"},
    "AdaSSP": LINEAR | SUMS | {"squared_residuals_", "score_", "meat_", "privacy_"},
    # the points of the rounds follow from the noisy Gram matrix and sums; the classes were declared
    "PrivateLogisticRegression": LINEAR | {"classes_", "gram_", "slope_sums_", "privacy_", "_path"},
}
CANARY = 0.3141592653589793
every = pytest.mark.parametrize("name", CATALOGUE)


def fits(name: str):
    """The same release, fitted to its table and to one of other people, more clipping and a planted cell."""
    release, X, y = CATALOGUE[name]
    X = X[:50]
    other = np.vstack([X[::-1] * 1.5, X[:9], X[:1]])
    other[7, 1] = CANARY
    if y is None:
        return clone(release).fit(X), clone(release).fit(other)
    y = y[:50]
    targets = np.concatenate([y[::-1], y[:9], y[:1]])
    if len(np.unique(y)) > 2:
        targets[9], targets[10:20] = CANARY, 5.0
    return clone(release).fit(X, y), clone(release).fit(other, targets)


def plain(value):
    """Whatever it is, as nested tuples of numbers and texts."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return tuple((field.name, plain(getattr(value, field.name))) for field in dataclasses.fields(value))
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes() if value.dtype != object else repr(value.tolist()))
    if isinstance(value, dict):
        return tuple((key, plain(part)) for key, part in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(plain(part) for part in value)
    if hasattr(value, "get_params"):
        return (type(value).__name__, plain(vars(value)))
    return repr(value)


def dumps(release) -> dict[str, bytes]:
    stream = io.BytesIO()
    joblib.dump(release, stream)
    copied = pickle.dumps(copy.deepcopy(release))
    return {"pickle": pickle.dumps(release), "joblib": stream.getvalue(), "deepcopy": copied}


@every
def test_two_tables_with_one_answer_leave_the_same_object(name):
    """All published numbers made equal, nothing is left that tells the tables apart."""
    one, other = fits(name)
    for attribute in PUBLISHED[type(one).__name__]:
        if hasattr(one, attribute):
            setattr(other, attribute, copy.deepcopy(getattr(one, attribute)))
    assert plain(one.__getstate__()) == plain(other.__getstate__())
    assert plain(one.get_params()) == plain(other.get_params())
    assert {how: len(data) for how, data in dumps(one).items()} == {how: len(d) for how, d in dumps(other).items()}
    first, second = (pickle.loads(pickle.dumps(release)) for release in (one, other))
    assert pickle.dumps(first) == pickle.dumps(second)


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("name", ["adaops", "adassp"])
def test_the_model_file_is_declared_and_published_numbers(name):
    _, fitted = fits(name)
    record = json.loads(fitted.to_json(features=["a", "b", "c"], target="y"))
    assert "model" in record and "promise" in record
    told = json.dumps(record)
    assert "clip" not in told and repr(CANARY)[:10] not in told


def test_clipped_rows_are_counted_by_a_call_of_its_own():
    _, X, y = CATALOGUE["adassp"]
    release = pi.AdaSSP(x_bound=0.5, y_bound=0.25)
    counted = release.clipped(X, y)
    assert counted.features == int((np.linalg.norm(X, axis=1) > 0.5).sum()) > 0
    assert counted.labels == int((np.abs(y) > 0.25).sum()) > 0
    assert set(vars(release)) == set(release.get_params())
    audit = pi.audit(pi.AdaSSP(x_bound=0.7, y_bound=1.0), X, y)
    assert audit.health.clipped_features == int((np.linalg.norm(X, axis=1) > 0.7).sum())
    assert pi.audit(pi.PosteriorSample(), X, y).health.clipped_features is None


@pytest.mark.parametrize("name", ["output", "posterior", "adassp", "mean", "process"])
def test_a_search_over_a_release_is_told_to_cost_as_many_releases_as_fits(name):
    from sklearn.model_selection import GridSearchCV, cross_val_score

    from perinstance.errors import ManyReleases

    release, X, y = CATALOGUE[name]
    parameter = {"adassp": "epsilon", "posterior": "gamma", "process": "gamma"}.get(name, "scale")
    scorer = (lambda estimator, *_: 0.0) if name in ("mean", "process") else None
    search = GridSearchCV(clone(release), {parameter: [1.0, 2.0]}, cv=2, scoring=scorer, refit=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            search.fit(X, y)
        cross_val_score(clone(release), X, y, cv=2, scoring=scorer)
    assert [one.category for one in said] == [ManyReleases] * 3 and "publishes" in str(said[0].message)
    clone(release).fit(X, y)  # alone it says nothing: warnings are errors here
