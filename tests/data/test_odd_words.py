"""Half characters, bytes that are no text, NUL in a path, endless numbers: refused in words, each where it comes in."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import perinstance as pi
from perinstance.errors import InvalidModelFile, PerinstanceError
from perinstance.releases.base.model_document import document_text

HALF = "a\ud800"
X, Y = np.arange(6.0).reshape(3, 2), np.arange(3.0)
RIDGE = pi.PosteriorSample(alpha=1.0)
PROMISED = pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0)


def no_text() -> pa.Array:
    ends = pa.py_buffer(np.array([0, 1, 2, 3], np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 3, [None, ends, pa.py_buffer(b"\xff\xfea")])


@pytest.fixture
def ledger(tmp_path):
    book = pi.Ledger(tmp_path / "book")
    book.charge_pairs(["a", "b"], 1.0, "k", delta=1e-6)
    return book


@pytest.mark.parametrize(
    "ids",
    [["a", HALF, "c"], pd.Series(["a", HALF, "c"], dtype=object), np.array(["a", HALF, "c"]), no_text()],
    ids=["list", "pandas", "numpy", "bytes"],
)
def test_ids_that_are_no_text(ids):
    with pytest.raises(PerinstanceError):
        pi.audit(RIDGE, X, Y, ids=ids)


@pytest.mark.parametrize("names", [{7: 8}, {"a": 8}, {"a": None}, {"a": HALF}, {HALF: "a"}, ["a"], "ab"], ids=ascii)
def test_a_ledger_renames_texts(ledger, names):
    with pytest.raises(PerinstanceError):
        ledger.rename(names)
    assert ledger.totals().ids.to_pylist() == ["a", "b"]


def test_a_ledger_asked_about_half_a_character(ledger):
    for ask in (ledger.forget, ledger.person):
        with pytest.raises(PerinstanceError):
            ask(HALF)


@pytest.mark.parametrize("name", ["a\0b", HALF], ids=["nul", "half"])
@pytest.mark.parametrize(
    "use",
    [
        pi.Ledger,
        pi.Recipe.from_toml,
        pi.load_model,
        pi.scan,
        pi.disclosure.Wording.read,
        lambda path: pi.data.write_losses(path + ".csv", [{"x": [1]}]),
        lambda path: pi.disclosure.write_statements(path, ["a"], [pi.disclosure.statement(PROMISED, [0.1])]),
    ],
    ids=["ledger", "recipe", "model", "scan", "wording", "losses", "statements"],
)
def test_paths_that_no_system_takes(tmp_path, name, use):
    with pytest.raises(PerinstanceError):
        use(f"{tmp_path}/{name}")


def test_a_recipe_takes_half_a_character_for_any_other_word():
    recipe, cells = pi.Recipe({"a": {"categories": ["x"]}}), np.array(["x", HALF], dtype=object)
    with pytest.raises(PerinstanceError, match="lone surrogate"):
        pi.Recipe({"a": {"categories": [HALF]}}).get_feature_names_out()
    for table in (pd.DataFrame({"a": pd.Series(cells, dtype=object)}), cells[:, None]):
        assert recipe.transform(table).tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_half_a_character_is_written_to_no_file(tmp_path):
    told = [pi.disclosure.statement(PROMISED, [0.1])]
    for write in (
        lambda: pi.data.write_losses(tmp_path / "losses.csv", [{"id": [HALF]}]),
        lambda: pi.disclosure.write_statements(tmp_path / "pages", [HALF], told),
        lambda: pi.PosteriorSample().fit(X, Y).to_json(target=HALF),
        lambda: pi.PosteriorSample().fit(X, Y).to_json(features=["a", HALF]),
    ):
        with pytest.raises(PerinstanceError):
            write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("huge", [10**400, -(10**400)], ids=["large", "negative"])
@pytest.mark.parametrize("field", ["grid", "promise epsilon", "model intercept", "model coef", "bounds x_bound"])
def test_endless_numbers_in_a_model_file(tmp_path, field, huge):
    document = json.loads(PROMISED.fit(X, Y).to_json(features=["a", "b"], target="t"))
    del document["checksum"]
    *outer, name = field.split()
    record = document[outer[0]] if outer else document
    record[name] = [huge, 1.0] if name == "coef" else huge
    path = tmp_path / "model.json"
    path.write_text(document_text(document), encoding="utf-8")
    with pytest.raises(InvalidModelFile):
        pi.load_model(path)


def test_a_foreign_model_cannot_speak_to_the_terminal(tmp_path, capsys, monkeypatch):
    from perinstance.cli import main

    model = PROMISED.fit(X, Y).to_json(features=["a", "b"], target="t\x1b]0;owned\x07\x1b[31m")
    (tmp_path / "model.json").write_text(model, encoding="utf-8")
    pd.DataFrame(X, columns=["a", "b"]).to_csv(tmp_path / "new.csv", index=False)
    words = ["predict", tmp_path / "model.json", tmp_path / "new.csv", "--out", tmp_path / "p.csv"]
    monkeypatch.setattr("sys.argv", ["perinstance", *map(str, words)])
    with pytest.raises(SystemExit) as left:
        main()
    assert not left.value.code
    shown = capsys.readouterr()
    assert "3 predictions of t" in shown.out and "\x1b" not in shown.out + shown.err
