"""A model file is enough to predict, holds what was published and nothing else, and is refused when it is not whole."""

from __future__ import annotations

import json
from functools import cache, reduce
from operator import getitem

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.svm import LinearSVC

import perinstance as pi
from perinstance.errors import InvalidInput, InvalidModelFile, InvalidTable, NewerModelFile
from perinstance.models.losses.catalogue import CATALOGUE as LOSSES
from perinstance.published.model_files import model_of
from perinstance.releases.base.model_document import FORMAT_VERSION, checksum, document_text
from tests.releases.catalogue import CATALOGUE, CLASSES, Example, X, Y

#: Everything a document may hold. A new field is a decision: may everybody in the world read it?
FIELDS = {
    *("format", "format_version", "perinstance", "method", "published", "promise", "bounds", "declared", "grid"),
    *("target", "n_features", "features", "recipe", "model", "released", "inference", "checksum"),
}
COUNTS = np.round(np.exp(Y))
THREE = np.digitize(Y, [-0.2, 0.2])
MORE = {
    "poisson": Example(pi.OutputPerturbation(PoissonRegressor(alpha=0.1), scale=0.1), y=COUNTS),
    "linear svc": Example(pi.OutputPerturbation(LinearSVC(C=1.0), scale=0.1), y=CLASSES),
    "three classes": Example(pi.OutputPerturbation(LogisticRegression(C=1.0), scale=0.1), y=THREE),
    "text classes": Example(
        pi.OutputPerturbation(LogisticRegression(C=1.0), scale=0.1), y=np.where(CLASSES > 0, "yes", "no")
    ),
}
EVERY = CATALOGUE | MORE


@cache
def fitted(name: str):
    example = EVERY[name]
    return clone(example.release).fit(example.X, *([] if example.y is None else [example.y]))


def loaded(text: str, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(text, encoding="utf-8")
    return pi.load_model(path)


@pytest.mark.parametrize("name", EVERY)
def test_a_loaded_model_predicts_as_the_release_does(name, tmp_path):
    release = fitted(name)
    model = loaded(release.to_json(features=["a", "b", "c"], target="t"), tmp_path)
    if model.numbers.task == "values":
        published = release.value_ if hasattr(release, "value_") else release.values_
        assert model.numbers.values.tolist() == published.tolist()
        with pytest.raises(InvalidInput, match="nothing is predicted"):
            model.predict(X)
        return
    assert np.array_equal(model.predict(X), release.predict(X))
    frame = pd.DataFrame(X[:, ::-1], columns=["c", "b", "a"]).assign(other="text")
    assert np.array_equal(model.predict(frame), release.predict(X))
    assert hasattr(release, "predict_proba") == model.numbers.probabilities
    if model.numbers.probabilities:
        assert np.array_equal(model.predict_proba(X), release.predict_proba(X))
    exported = model.to_sklearn().predict(pd.DataFrame(X, columns=["a", "b", "c"]))
    if model.numbers.task == "classifier":
        assert np.array_equal(exported, model.predict(X))
    else:  # scikit-learn multiplies a frame as it lies in memory, which decides over the last bit
        assert exported == pytest.approx(model.predict(X), rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("name", EVERY)
def test_a_file_holds_the_published_numbers_and_nothing_else(name):
    """Every number of the document is declared, or stands in the list of what was drawn; no count of people."""
    release = fitted(name)
    document = json.loads(release.to_json())
    assert set(document) == FIELDS
    drawn = {"coef_", "intercept_", "value_", "values_", "lambda_", "gamma_", "eigenvalue_", "count_", "log_size_"}
    drawn |= {"totals_", "column_totals_", "gram_", "moments_", "_floor"}
    published = [np.ravel(value) for key, value in vars(release).items() if key in drawn and value is not None]
    declared = np.hstack([_numbers(release.get_params()), [document["format_version"], 3.0, 2.0**-40]])
    allowed = set(np.hstack(published)) | set(declared) | set(np.ravel(getattr(release, "points", 0.0)).tolist())
    if "classes" in document["model"] and document["model"]["classes"]:
        assert document["model"]["classes"] == release.classes_.tolist()
        del document["model"]["classes"]
    if document["promise"] and release.get_params()["epsilon"] is None:  # a function of what was declared
        assert document["promise"]["epsilon"] == release.promise(3).epsilon(document["promise"]["delta"])
        del document["promise"]
    bare = clone(release)  # standard errors follow from what was published: nothing else of the fit is needed
    kept = {key: value for key, value in vars(release).items() if key.endswith("_") or key in ("_floor", "_drawn")}
    vars(bare).update(kept)
    assert document.pop("inference") == {a: bare.uncertainty(a).to_json() for a in ("population", "table")}
    found = {float(number) for number in _numbers(document)}
    assert not found - {float(number) for number in allowed}
    assert len(X) not in found or getattr(release, "n_public", None) == len(X)


def _numbers(value) -> list[float]:
    if isinstance(value, bool):
        return []
    if isinstance(value, int | float):
        return [value]
    if isinstance(value, dict):
        return [n for one in value.values() for n in _numbers(one)]
    if isinstance(value, list | tuple):
        return [n for one in value for n in _numbers(one)]
    if hasattr(value, "get_params"):
        return _numbers(value.get_params())
    return []


def test_the_file_of_a_model_that_came_fitted_does_not_hold_the_fit():
    """A fitted estimator may be handed over as a starting point; its coefficients are confidential."""
    start = LogisticRegression(C=1.0).fit(X, CLASSES)
    text = pi.OutputPerturbation(start, scale=5.0).fit(X, CLASSES).to_json()
    assert not any(repr(float(c)) in text for c in np.ravel(start.coef_))


@pytest.mark.parametrize("name", LOSSES)
def test_the_link_is_the_mean(name):
    loss, eta = LOSSES[name], np.linspace(-2, 2, 9)
    if loss.binary:
        return
    assert np.array_equal(loss.mean(eta), {"identity": eta, "log": np.exp(eta)}[loss.link])


def adassp() -> dict:
    return json.loads(fitted("adassp").to_json(features=["a", "b", "c"], target="t"))


def test_the_promise_and_the_bounds_are_stated(tmp_path):
    model = loaded(json.dumps(adassp()), tmp_path)
    assert model.promise == (1.0, 1e-6) and model.bounds == (1.0, 1.0) and model.grid == 2.0**-40
    assert model.features == ("a", "b", "c") and model.target == "t" and model.version == pi.__version__
    assert "epsilon = 1" in model.statement() and "2.72" in model.statement()
    assert json.loads(model.to_json()) == adassp() | {
        "model": model.document["model"],
        "checksum": model.document["checksum"],
    }
    with pytest.raises(InvalidInput, match="promises nothing"):
        loaded(fitted("posterior").to_json(), tmp_path).statement()


def test_a_file_that_was_cut_off_anywhere_is_refused(tmp_path):
    text = fitted("adassp").to_json()
    for end in range(0, len(text) - 2, 397):
        with pytest.raises(InvalidModelFile):
            loaded(text[:end], tmp_path)


def _paths(value, path=()):
    yield path
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _paths(one, (*path, key))


@given(st.data())
def test_an_edited_file_is_refused(tmp_path_factory, data):
    """Whichever field is changed, removed or added: the checksum does not fit."""
    document = adassp()
    path = data.draw(st.sampled_from([p for p in _paths(document) if p and p[0] not in ("format", "format_version")]))
    inner = reduce(getitem, path[:-1], document)
    before = inner[path[-1]]
    inner[path[-1]] = data.draw(st.sampled_from([0, 1.5, "x", None, True, [], {}]).filter(lambda new: new != before))
    with pytest.raises(InvalidModelFile):
        loaded(json.dumps(document), tmp_path_factory.mktemp("edited"))


@given(st.data())
def test_a_file_with_a_checksum_of_its_own_is_still_checked(data):
    """Somebody who also mends the checksum gets a typed error or a model that predicts; never a crash."""
    document = adassp()
    path = data.draw(st.sampled_from([p for p in _paths(document) if p and p[0] != "checksum"]))
    inner = reduce(getitem, path[:-1], document)
    if isinstance(inner, dict) and data.draw(st.booleans()):
        del inner[path[-1]]
    else:
        inner[path[-1]] = data.draw(st.sampled_from([0, -1, 1.5, "x", None, True, [], [1.0], {}, {"a": 1}]))
    document["checksum"] = checksum(document)
    try:
        model = model_of(document)
    except InvalidModelFile:
        return
    assert np.isfinite(model.predict(X)).all()


def test_newer_missing_and_foreign_files_are_told_apart(tmp_path):
    document = adassp() | {"format_version": FORMAT_VERSION + 1}
    with pytest.raises(NewerModelFile, match="install a newer perinstance"):
        loaded(document_text({k: v for k, v in document.items() if k != "checksum"}), tmp_path)
    with pytest.raises(InvalidModelFile, match="cannot be read"):
        pi.load_model(tmp_path / "nothing.json")
    (tmp_path / "latin.json").write_bytes("{'ü': 1}".encode("latin-1"))
    with pytest.raises(InvalidModelFile, match="not complete JSON"):
        pi.load_model(tmp_path / "latin.json")
    for text in ("", "[]", "null", '"x"', "[" * 100_000, '{"format": "perinstance.model"}', "NaN", "a,b\n1,2\n"):
        with pytest.raises(InvalidModelFile):
            loaded(text, tmp_path)


def test_tables_that_do_not_fit_are_refused(tmp_path):
    model = loaded(json.dumps(adassp()), tmp_path)
    with pytest.raises(InvalidTable, match="lacks 2 of the model's columns: 'a', 'c'"):
        model.predict(pd.DataFrame({"b": [1.0]}))
    with pytest.raises(InvalidTable, match="3 features, the table 2"):
        model.predict(np.zeros((4, 2)))
    with pytest.raises(InvalidTable, match="missing value"):
        model.predict(pd.DataFrame({"a": [1.0], "b": [np.nan], "c": [0.0]}))
    assert model.predict(pd.DataFrame({"a": [], "b": [], "c": []}, dtype=float)).shape == (0,)
    with pytest.raises(InvalidInput, match="features must name the 3 columns"):
        fitted("adassp").to_json(features=["a"])
    unnamed = loaded(fitted("adassp").to_json(), tmp_path)
    with pytest.raises(InvalidInput, match="does not name its features"):
        unnamed.predict(pd.DataFrame(X))


def test_names_of_a_frame_are_kept_and_an_unfitted_release_writes_nothing():
    release = pi.PosteriorSample().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    assert json.loads(release.to_json())["features"] == ["a", "b", "c"]
    from sklearn.exceptions import NotFittedError

    for example in CATALOGUE.values():
        with pytest.raises(NotFittedError):
            clone(example.release).to_json()


def test_infinity_is_null_with_a_flag():
    document = json.loads(pi.OutputPerturbation(LogisticRegression(C=np.inf), scale=1.0).fit(X, CLASSES).to_json())
    assert document["declared"]["estimator"]["C"] is None
    assert document["declared"]["estimator"]["C_infinite"] is True


RAW = pd.DataFrame(
    {
        "age": [30, 50, None, 70] * 15,
        "ward": ["north", "south", "west", None] * 15,
        "cost": np.linspace(100, 9000, 60),
        "secret": ["canary"] * 60,
    }
)
RECIPE = pi.Recipe(
    {"age": {"range": [0, 100], "missing": 50}, "ward": {"categories": ["north", "south"], "missing": "other"}},
    target={"column": "cost", "range": [0, 10_000]},
    intercept=True,
)


def test_a_recipe_is_part_of_the_file_and_predictions_are_in_the_unit_of_the_table(tmp_path):
    numbers, y = RECIPE.transform(RAW), RECIPE.transform_target(RAW)
    release = pi.AdaSSP(epsilon=5.0, delta=1e-6, x_bound=RECIPE.x_bound, y_bound=1.0).fit(numbers, y)
    text = release.to_json(recipe=RECIPE, target="cost")
    model = loaded(text, tmp_path)
    assert model.recipe.to_dict() == RECIPE.to_dict() and "canary" not in text
    assert model.features == ("age", "ward_north", "ward_south", "ward_other", "intercept")
    expected = 5000 + 5000 * release.predict(numbers)
    assert model.predict(RAW) == pytest.approx(expected, rel=1e-12)
    assert model.predict(RAW.drop(columns=["cost", "secret"])) == pytest.approx(expected, rel=1e-12)
    RAW.to_csv(tmp_path / "raw.csv", index=False)
    assert model.predict(pi.scan(tmp_path / "raw.csv")) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InvalidTable, match="lacks 1 of the model's columns: 'ward'"):
        model.predict(RAW[["age"]])
    document = json.loads(text)
    document["recipe"]["columns"].pop("age")
    with pytest.raises(InvalidModelFile, match="recipe"):
        model_of(document)
    document["recipe"] = {"nonsense": 1}
    with pytest.raises(InvalidModelFile, match="recipe"):
        model_of(document)
