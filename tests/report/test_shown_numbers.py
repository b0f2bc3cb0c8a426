"""Wherever a privacy number is shown it is shown upwards, and a promise of 1 is shown as 1."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

import perinstance as pi
from perinstance import analysis
from perinstance.pairs import GaussianShift
from perinstance.report import words
from perinstance.report.figures import ALL_RATES, RATES, attack_curves
from perinstance.report.words import ODDS_RATE, PRIORS, belief_after_alarm

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
