"""``perinstance export``: the registry's tiers, a regulator's summary, and their refusals."""

from __future__ import annotations

import json

import pytest

import perinstance as pi
from tests.cli.conftest import people, run  # noqa: F401 - a fixture

yaml = pytest.importorskip("yaml")

TIERS = {
    "tier_1": {"curator", "intended_use", "data_product", "publication_date"},
    "tier_2": {"flavor", "privacy_unit", "privacy_loss", "deployment_model"},
    "tier_3": {"mechanism", "parameters", "data_domain", "unprotected_quantities", "preprocessing", "accounting",
               "implementation", "rationale"},
}  # fmt: skip


@pytest.fixture
def model(tmp_path):
    frame = people()
    recipe = pi.Recipe(
        {"age": {"range": [-3, 3]}, "ward": {"categories": ["north: 1", '"south"']}},
        target={"column": "bmi", "range": [-6, 6], "unit": "kg/m²"},
    )
    release = pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=recipe, y_bound=recipe.target_range)
    release.fit(recipe.transform(frame), recipe.transform_target(frame))
    return release.save(tmp_path / "model.json", target="bmi", recipe=recipe)


def test_an_entry_has_what_the_three_tiers_ask_for(run, model, tmp_path):  # noqa: F811
    done = run("export", model, "--registry", tmp_path / "e.yaml", "--regulator", tmp_path / "s.json")
    assert done.code == 0, done.err
    assert run("ledger", "regulator", model, tmp_path / "again.json").code == 0  # where the ledger's commands are
    assert (tmp_path / "again.json").read_text() == (tmp_path / "s.json").read_text()
    entry = yaml.safe_load((tmp_path / "e.yaml").read_text(encoding="utf-8"))
    assert {name: set(entry[name]) for name in TIERS} == TIERS
    assert entry == json.loads(json.dumps(pi.disclosure.registry_entry(pi.load_model(model))))
    assert entry["tier_2"]["privacy_loss"] == {"epsilon": 1.0, "delta": 1e-6}
    assert entry["tier_3"]["preprocessing"]["target"]["unit"] == "kg/m²"
    open_fields = [one for one in _texts(entry) if one.startswith("FILL IN")]
    assert len(open_fields) == 6
    summary = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert summary == pi.disclosure.regulator_summary(pi.load_model(model))
    again = run("export", model, "--registry", tmp_path / "e.yaml")
    assert again.code == 2 and "exists already" in again.err


def _texts(value):
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def test_what_cannot_be_exported_is_refused(run, model, tmp_path):  # noqa: F811
    frame = people()
    audit = pi.audit(pi.PosteriorSample(), frame[["age"]], frame.bmi)
    pi.PosteriorSample().fit(frame[["age"]], frame.bmi).save(tmp_path / "p.json")
    (tmp_path / "empty.json").write_text("")
    for words, said in (
        ((model,), "--registry"),
        ((tmp_path / "p.json", "--registry", "e.yaml"), "promises nothing"),
        ((tmp_path / "none.json", "--registry", "e.yaml"), "none.json"),
        ((tmp_path / "empty.json", "--registry", "e.yaml"), "empty.json"),
        ((model, "--registry", "none/e.yaml"), "no folder"),
    ):
        done = run("export", *words)
        assert done.code == 2 and said in done.err and done.err.count("\n") == 1, done.err
    with pytest.raises(pi.errors.InvalidInput, match="confidential"):
        pi.disclosure.registry_entry(audit)


def test_losses_that_would_say_no_more_than_the_promise_are_not_paid_for(run, model, tmp_path):  # noqa: F811
    people().to_csv(tmp_path / "people.csv", index=False)
    asked = ("publish-losses", model, "people.csv", "--id", "person", "--epsilon", "1", "--out", "l.json")
    done = run(*asked)
    assert done.code == 2 and "--even-so" in done.err and not (tmp_path / "l.json").exists()
    assert run(*asked, "--even-so").code == 0
