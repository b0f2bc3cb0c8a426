"""Wherever a number is shown: upwards, a promise of 1 as 1, one definition of a quantile, records as small tables."""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction

import numpy as np
import pytest

import perinstance as pi
from perinstance import analysis
from perinstance.auditing.result import Health, Summary
from perinstance.auditing.rows_again import RareFeatures
from perinstance.cli import terminal
from perinstance.pairs import GaussianShift
from perinstance.record_tables import ShownAsTable
from perinstance.releases.promises.promise import Promise
from perinstance.report import words
from perinstance.report.content import gather
from perinstance.report.figures import ALL_RATES, FACTORS, QUANTILES, RATES, attack_curves, noise_sweep
from perinstance.report.group_lines import by_group, group_rows
from perinstance.report.words import ODDS_RATE, PRIORS, belief_after_alarm
from tests.report.conftest import small_audit

DISTANCES = np.random.default_rng(0).uniform(0.01, 2.0, size=6)
DELTA = 1e-6


def not_below(shown, values):
    """Compare what is shown with the numbers, as fractions: never below, and close."""
    for text, value in zip(shown, values, strict=True):
        assert np.isinf(value) or Fraction(text) >= Fraction(float(value)), (text, value)
        assert float(text) <= value * 1.0011


@pytest.mark.parametrize("distance", DISTANCES)
def test_tables_of_compositions_and_definitions(distance):
    pairs = GaussianShift([distance, distance / 3, distance / 7])
    found = analysis.composition([pairs] * 3, DELTA)
    for line in str(found).splitlines()[1:-1]:
        name, *shown = line.split()
        values = getattr(found, name)
        not_below(shown, (values.mean(), np.median(values), values.max()))
    table = analysis.variants(pairs, DELTA)
    for line in str(table).splitlines()[1:-1]:
        name, *shown = line.split()
        not_below(shown[:1] + shown[-1:], (table[name].mean(), table[name].max()))


def share_of(text):
    """The number in a share like 2.3%."""
    return Fraction(re.search(r"([\d.]+)%", text).group(1)) / 100


@pytest.mark.parametrize("kind", ["exact", "upper", "estimate"])
@pytest.mark.parametrize("distance", DISTANCES)
def test_the_power_of_an_attack(kind, distance):
    pairs = GaussianShift([distance], kind)
    power = np.asarray(pairs[np.zeros(len(ALL_RATES), dtype=int)].attack_power(ALL_RATES))
    at = float(power[-len(RATES) :][RATES.index(ODDS_RATE)])
    told = words.verdict(9, 0.1, 0.2, None, None, at, ODDS_RATE, kind)
    assert share_of(told[told.index("with probability") :]) >= Fraction(at)
    section = attack_curves({"somebody": power}, kind)
    powers, beliefs = (table.lines for table in section.tables)
    for line, value in zip(powers, power[-len(RATES) :], strict=True):
        assert share_of(line[1]) >= Fraction(float(value))
    for line, prior in zip(beliefs, PRIORS, strict=True):
        assert share_of(line[1]) >= Fraction(belief_after_alarm(prior, at))


@pytest.mark.parametrize(
    "release",
    [
        pi.AdaSSP(1.0, DELTA, x_bound=1.0, y_bound=1.0, rounds=1),
        pi.AdaSSP(1.0, DELTA, x_bound=1.0, y_bound=1.0),
        pi.PrivateLogisticRegression(1.0, DELTA, x_bound=1.0, classes=(-1.0, 1.0)),
    ],
    ids=lambda release: f"{type(release).__name__}-{release.rounds}",
)
@pytest.mark.filterwarnings("ignore::perinstance.errors.BeyondBounds")
def test_a_promise_of_one_is_one(release, tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)) * 9.0, rng.choice([-1.0, 1.0], size=60)  # most rows are clipped
    audit = pi.audit(release, X, y)
    assert 0.9999 < audit.losses.max() <= 1.0
    ledger = pi.Ledger(tmp_path / "ledger")
    ledger.charge(audit, "release", ids=[f"p{i}" for i in range(60)])
    totals = ledger.totals(DELTA)
    assert re.search(r"maximum +1$", str(totals.summary()), re.MULTILINE)
    assert "total 1 (" in str(ledger.person(f"p{int(audit.losses.argmax())}", DELTA))
    page = ledger.report(tmp_path / "ledger.html", delta=DELTA).read_text()
    assert "would say 1.00 to each" in page
    page = re.sub("<style.*?</style>", "", page, flags=re.DOTALL)
    assert set(re.findall(r"(?<![\d.])1\.0\d+", page)) == {"1.00"}


LEVELS = (0.5, 0.95, 0.99, 1.0)


@pytest.mark.parametrize("n", [7, 42])
def test_the_same_quantile_everywhere(n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 2))
    audit = pi.audit(pi.PosteriorSample(), X, X[:, 0] + rng.normal(size=n))
    expected = audit.quantile(LEVELS)
    assert all((audit.losses <= value).mean() >= q for value, q in zip(expected, LEVELS, strict=True))
    shown = [words.loss(float(value)) for value in expected]
    cards = {card.name: card.value for card in gather(audit).cards}
    names = ("Median loss", "95% of the people", "99% of the people", "Most exposed person")
    assert [cards[name] for name in names] == shown
    assert re.findall(r"<td>([^<]*)</td>", audit._repr_html_())[:4] == shown
    told = terminal.audit_record(audit, terminal.Told())["epsilon"]
    assert [told[name] for name in ("median", "q95", "q99", "max")] == list(expected)
    row = group_rows(by_group(audit.losses, ["all"] * n))[0]
    assert [row.median, row.q95, row.largest] == list(audit.quantile(QUANTILES))
    swept = noise_sweep(audit)
    as_released = int(np.argmin(np.abs(FACTORS - 1.0)))
    assert swept.epsilon[:, as_released] == pytest.approx(audit.quantile(QUANTILES))


def test_a_notebook_shows_quantiles_and_the_worst_ten():
    shown = small_audit(30, ids=[f"<b>{i}</b>" for i in range(30)])._repr_html_()
    assert shown.count("<tr>") == 2 + 1 + 10
    assert "<b>" not in shown and "&lt;b&gt;" in shown
    assert "Confidential" in shown


def test_every_record_that_users_get_is_a_small_table():
    rooms = [getattr(pi.analysis, name) for name in pi.analysis.__all__]
    records = [one for one in rooms if isinstance(one, type) and dataclasses.is_dataclass(one)]
    assert len(records) > 15
    for record in (*records, Health, Summary, Promise):
        assert issubclass(record, ShownAsTable), record
        assert not hasattr(record, "__dict__") or "__dict__" not in dir(record)


def test_records_show_their_fields_and_no_markup_of_the_data():
    audit = small_audit(50)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 4))
    y = X @ np.arange(1, 5) + rng.normal(size=50)
    for record, fields in ((audit.summary(), 9), (audit.health, 10), (audit.recheck(X, y)[0], 5)):
        shown = record._repr_html_()
        assert shown.count("<tr>") == fields + 1 and shown.startswith("<table>")
    assert str(audit.summary().maximum) in audit.summary()._repr_html_()
    composed = pi.analysis.identification(audit.pairs)._repr_html_()
    assert "<table>" in composed and len(composed) < 3000
    assert "&lt;b&gt;" in RareFeatures(0, ("<b>",), (1.0,))._repr_html_()
