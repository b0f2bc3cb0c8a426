"""``perinstance export``: an entry of the registry, a regulator's summary, and their refusals."""

from __future__ import annotations

import json

import jsonschema
import pytest

import perinstance as pi
from tests.cli.conftest import people, run  # noqa: F401 - a fixture

yaml = pytest.importorskip("yaml")


def fields(required="", optional="", **kinds):
    """A JSON schema of an object whose fields are texts, but for those that say otherwise."""
    properties = {name: {"type": "string"} for name in f"{required} {optional}".split()} | kinds
    return {"type": "object", "additionalProperties": False, "required": required.split(), "properties": properties}


def one_of(*words):
    return {"enum": list(words)}


TEXTS = {"type": "array", "items": {"type": "string"}, "minItems": 1}
#: The registry's schema: ``summaries.REGISTRY_SCHEMA`` names the file and the commit.
REGISTRY = fields(
    "url_slug status tier deployment",
    status=one_of("Converted", "Draft", "Pending", "Changes Required", "Approved"),
    tier=one_of(1, 2, 3),
    deployment=fields(
        "product",
        product=fields(
            "name data_curators description intended_use data_product_type data_product_region publication_date",
            data_curators=TEXTS,
            data_product_type=one_of("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
            data_product_sector=one_of("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
        ),
        dp_variant=fields(
            optional="input_metric bound_on_input_distance output_measure bound_on_output_distance data_domain "
            "unprotected_quantities",
            variant_name=one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
        ),
        privacy_loss=fields(
            optional="privacy_unit privacy_unit_description privacy_parameters_description",
            privacy_parameters=fields(
                epsilon={"type": "number"}, delta={"type": ["number", "string"]}, rho={"type": "number"}
            ),
        ),
        model=fields(
            optional="model_name_description actors release_type_description data_source_type_description "
            "access_type_description",
            model_name=one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
            release_type=one_of("One release", "Many releases"),
            data_source_type=one_of("Static", "Dynamic"),
            access_type=one_of("Interactive", "Non-interactive"),
        ),
        accounting=fields(optional="post_processing composition"),
        implementation=fields(optional="pre_processing_eda_hyperparameter_tuning mechanisms justification"),
        resources=fields("registry_authors", "sources notes", registry_authors=TEXTS),
    ),
)


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


def test_an_entry_keeps_the_schema_of_the_registry(run, model, tmp_path):  # noqa: F811
    done = run("export", model, "--registry", tmp_path / "e.yaml", "--regulator", tmp_path / "s.json")
    assert done.code == 0, done.err
    assert run("ledger", "regulator", model, tmp_path / "again.json").code == 0  # where the ledger's commands are
    assert (tmp_path / "again.json").read_text() == (tmp_path / "s.json").read_text()
    entry = yaml.safe_load((tmp_path / "e.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(entry, REGISTRY)
    assert entry == json.loads(json.dumps(pi.disclosure.registry_entry(pi.load_model(model))))
    told = entry["deployment"]
    assert told["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert "kg/m²" in told["implementation"]["pre_processing_eda_hyperparameter_tuning"]
    assert all(
        one in told["implementation"]["mechanisms"] for one in ("promised at epsilon = 1", "public grid", "rounds")
    )
    open_fields = [one for one in _texts(entry) if one.startswith("FILL IN")]
    assert len(open_fields) == 11
    summary = json.loads((tmp_path / "s.json").read_text(encoding="utf-8"))
    assert summary == pi.disclosure.regulator_summary(pi.load_model(model))
    again = run("export", model, "--registry", tmp_path / "e.yaml")
    assert again.code == 2 and "exists already" in again.err


def _texts(value):
    if isinstance(value, dict):
        return [text for one in value.values() for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
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
