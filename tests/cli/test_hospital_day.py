"""A statistician's day, from a CSV to a published model and a sentence for the people in it, with planted cells.

Everything is done by commands on real files, in one folder; the report is opened in a real browser. The planted cells
are found in what is confidential, where they belong, and nowhere in what is published.
"""

from __future__ import annotations

import json
import stat

import numpy as np
import pandas as pd
import pytest

import perinstance as pi
from tests.cli.conftest import Outcome, commanded
from tests.report.test_browser import CHROMIUM, DRIVER, browser, open_page  # noqa: F401 - a fixture

RECIPE = """
# From the hospital's code book and from clinical ranges: nothing here was looked up in the table.
intercept = true

[target]
column = "cost_eur"
range = [0, 40000]

[columns.ward]
categories = ["surgery", "cardiology", "oncology", "psychiatry", "paediatrics"]

[columns.admitted]
dates = ["2024-01-01", "2024-12-31"]

[columns.age]
range = [0, 110]

[columns.smoker]
yes = ["yes"]
no = ["no"]
missing = "no"

[columns.creatinine_mg_dl]
range = [0, 5]
missing = 1.0

[columns.platelets_per_ul]
range = [0, 500000]
missing = 250000

[columns.nights]
range = [0, 30]
"""
READMITTED = RECIPE.replace(
    'column = "cost_eur"\nrange = [0, 40000]', 'column = "readmitted"\nyes = ["yes"]\nno = ["no"]'
)
#: A cell of one person in every column that could carry something, and a column that nobody asked for.
CANARIES = {
    "person": "canary-id-4711",
    "ward": "canary-ward-HIV",
    "smoker": "no",
    "weight_kg": 123.4567891,
    "creatinine_mg_dl": 3.14159265,
    "platelets_per_ul": 271828182,
    "nights": 29,
    "cost_eur": 38765.4321,
    "note": "canary-note-suicidal",
}
# long enough that no random digits of a coefficient or a checksum are taken for one
TRACES = ("canary", "id-4711", "123.4567", "3.14159", "271828182", "38765.43", "38,765.43", "38765,43", "suicidal")


@pytest.fixture(scope="module")
def day(tmp_path_factory) -> dict[str, Outcome]:
    """The whole day, once: each command by the name of its step."""
    folder = tmp_path_factory.mktemp("hospital")
    frame = pi.data.hospital_patients().to_pandas()
    frame["note"] = "none"
    for column, cell in CANARIES.items():
        frame[column] = frame[column].astype(object)
        frame.loc[1234, column] = cell
    frame.to_csv(folder / "patients.csv", index=False)
    frame.head(100).drop(columns=["cost_eur", "readmitted", "note"]).to_csv(folder / "new.csv", index=False)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "readmitted.toml").write_text(READMITTED)
    table = ("patients.csv", "--id", "person")
    by = ("--recipe", "recipe.toml")
    steps = {
        "raw": ("audit", *table, "--target", "cost_eur"),
        "draft": ("recipe", *table, "--target", "cost_eur", "--without", "note", "--out", "draft.toml"),
        "draft unfilled": ("audit", *table, "--recipe", "draft.toml"),
        "report": ("-v", "audit", *table, *by, "--group", "ward", "--gamma", "25", "--compare"),
        "losses": ("audit", *table, *by, "--gamma", "25", "--per-person", "losses.csv", "--out", "r.html", "--json"),
        "redacted": ("-v", "audit", *table, *by, "--group", "ward", "--gamma", "25", "--redact", "--out", "red.html"),
        "readmitted": ("audit", *table, "--recipe", "readmitted.toml", "--release", "logistic", "--out", "yes.html"),
        "release": ("-v", "release", *table, *by, "--epsilon", "1"),
        "release json": ("release", *table, *by, "--epsilon", "1", "--json", "--out", "second.json"),
        "compare": ("release", *table, *by, "--epsilon", "1", "--compare", "--out", "third.json"),
        "predict": ("-v", "predict", "model.json", "new.csv", "--id", "person", "--out", "predictions.csv"),
        "sentence": ("explain", "--model", "model.json"),
        "sentence json": ("explain", "--model", "model.json", "--json"),
        "check": ("recipe", "patients.csv", "--check", "recipe.toml"),
        "show": ("show", "model.json"),
        "paid": ("audit", *table, "--model", "model.json", "--out", "paid.html"),
        "choose": ("choose", *table, *by, "--at", "1"),
        "export": ("export", "model.json", "--registry", "entry.yaml", "--regulator", "summary.json"),
        "little": ("publish-losses", "model.json", *table, "--epsilon", "1"),
        "book": ("ledger", "init", "book", "--gaussian", "2"),
        "admitted": ("release", *table, *by, "--epsilon", "1", "--ledger", "book", "--key", "Q1", "--out", "q1.json"),
        "totals": ("ledger", "totals", "book", "--fail-over", "2"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return {**{name: commanded(*words) for name, words in steps.items()}, "folder": folder}


def test_every_step_does_what_it_should(day):
    refused = {"raw", "draft unfilled", "little"}
    codes = {name: one.code for name, one in day.items() if name != "folder"}
    assert codes == {name: 2 if name in refused else 0 for name in codes}, {n: day[n].err for n in codes if codes[n]}
    assert "ward" in day["raw"].err and "admitted" in day["raw"].err
    assert "fill in" in day["draft unfilled"].err
    assert "5,000 people, 13 features" in day["report"].out
    assert "What privacy costs in accuracy" in day["report"].out and "Confidential" in day["compare"].out
    assert "100 predictions of cost_eur" in day["predict"].out
    assert "Every cell of the recipe's columns can be read" in day["check"].out
    assert "per 1, counted from 0 to 110" in day["show"].out and "95% interval" in day["show"].out
    assert "promised at epsilon = 1" in day["paid"].out and "canary-id-4711" not in day["show"].out
    assert "this noise was chosen by looking" in day["choose"].out.replace("\n", " ")
    assert "--even-so" in day["little"].err and "nobody loses more than ε" in day["book"].out
    assert "5,000 people" in day["totals"].out


def test_the_planted_cells_are_in_what_is_confidential(day):
    """Else the search below could find nothing anywhere: the person with the rarest row is the most exposed."""
    assert "canary-id-4711" in (day["folder"] / "report.html").read_text()
    assert "canary-id-4711" in (day["folder"] / "losses.csv").read_text()
    assert "canary-id-4711" in day["report"].out


def test_no_planted_cell_is_found_in_what_is_published(day):
    folder = day["folder"]
    published = {name: (folder / name).read_text() for name in ("model.json", "second.json", "third.json", "red.html")}
    published |= {name: (folder / name).read_text() for name in ("q1.json", "entry.yaml", "summary.json")}
    shown = ("release", "release json", "sentence", "sentence json", "show", "admitted", "check")
    published |= {name: day[name].out for name in shown}
    # what a shell, a service or a ticket keeps: error streams with every step told, and refusals
    published |= {f"log of {name}": one.err for name, one in day.items() if name != "folder"}
    published["draft"] = (folder / "draft.toml").read_text()
    assert [(name, one) for name, text in published.items() for one in TRACES if one.lower() in text.lower()] == []
    logs = day["report"].err + day["release"].err + day["predict"].err
    assert "audit of PosteriorSample begins" in logs and "AdaSSP published one draw" in logs


def test_what_is_left_behind(day):
    """What was asked for and nothing else, readable by its owner alone."""
    folder = day["folder"]
    asked = {"report.html", "losses.csv", "r.html", "red.html", "yes.html", "model.json", "second.json", "third.json"}
    asked |= {"predictions.csv", "paid.html", "q1.json"}
    public = {"entry.yaml", "summary.json", "book"}
    given = {"patients.csv", "new.csv", "recipe.toml", "readmitted.toml", "draft.toml"}
    assert {path.name for path in folder.iterdir()} == asked | given | public
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in asked} == {0o600}


def test_the_model_file_alone_predicts(day):
    """The slow road: the rules of the recipe that is written in model.json, once more and naively."""
    document = json.loads((day["folder"] / "model.json").read_text())
    people = pd.read_csv(day["folder"] / "new.csv")
    coefficients = dict(zip(document["features"], document["model"]["coef"], strict=True))
    low, high = document["recipe"]["target"]["range"]
    expected = []
    for row in people.to_dict("records"):
        total = document["model"]["intercept"]
        for column, rule in document["recipe"]["columns"].items():
            cell = row[column]
            if isinstance(cell, float) and np.isnan(cell):
                cell = rule["missing"]
            if "categories" in rule:
                total += coefficients[f"{column}_{cell if cell in rule['categories'] else 'other'}"]
            elif "yes" in rule:
                total += coefficients[column] * (cell in rule["yes"])
            else:
                first, last = rule["range"] if "range" in rule else map(pd.Timestamp, rule["dates"])
                cell = min(max(cell if "range" in rule else pd.Timestamp(cell), first), last)
                total += coefficients[column] * (2 * ((cell - first) / (last - first)) - 1)
        expected.append(low + (high - low) * (total + 1) / 2)
    answers = pd.read_csv(day["folder"] / "predictions.csv")
    assert answers["id"].tolist() == people["person"].tolist()
    assert answers["prediction"].to_numpy() == pytest.approx(expected, rel=1e-9)
    truth = pd.read_csv(day["folder"] / "patients.csv")["cost_eur"].head(100)
    assert np.corrcoef(answers["prediction"], truth)[0, 1] > 0.8  # and it is worth predicting with


def test_the_sentence_for_the_patients(day):
    said = " ".join(day["sentence"].out.split())
    assert "for 'cost_eur'" in said and "a factor of at most 2.72" in said and "epsilon = 1, delta = 1e-06" in said
    assert " ".join(json.loads(day["sentence json"].out)["sentence"].split()) in said
    assert "For the people in the data" in day["release"].out
    assert "factor of at most 2.72" in " ".join(day["release"].out.split())


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium here: install Debian's chromium and chromium-driver")
def test_the_report_in_a_browser(day, browser):  # noqa: F811
    from selenium.webdriver.common.by import By

    open_page(browser, day["folder"] / "report.html")
    assert browser.get_log("browser") == []
    text = browser.find_element(By.TAG_NAME, "body").text
    assert "Confidential: computed from personal data" in text and "canary-id-4711" in text
    accuracy = browser.find_element(By.CSS_SELECTOR, "section[aria-labelledby=h-accuracy]").text
    assert (
        "What privacy costs in accuracy" in accuracy and "not private" in accuracy and "no promise covers" in accuracy
    )
    open_page(browser, day["folder"] / "red.html")
    text = browser.find_element(By.TAG_NAME, "body").text
    assert "Redacted" in text and "canary" not in text and "not private:" not in text
