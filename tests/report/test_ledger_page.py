"""The page of a ledger: what it says in full, redacted, and at the ends: nobody, one person, no bound."""

from __future__ import annotations

import re
import stat

import numpy as np
import pytest

import perinstance as pi
from perinstance.errors import InvalidInput
from perinstance.ledger.totals import growth
from perinstance.pairs import GaussianShift, LaplaceShift
from perinstance.report import ledger_page


def text_of(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", " ", page, flags=re.S)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


@pytest.fixture
def ledger(tmp_path):
    return pi.Ledger(tmp_path / "ledger")


def fill(ledger, n=100, releases=3):
    rng = np.random.default_rng(0)
    ids = [f"secret-{i:03d}" for i in range(n)]
    for k in range(releases):
        losses = rng.uniform(0.1, 0.3, n)
        losses[5] = 4.0 + k
        ledger.charge_pairs(ids, GaussianShift(losses), key=f"release {k}", note="for Dr. X", fixed_in_advance=True)
    return ids


def test_it_says_how_totals_grew_and_who_lost_most(ledger, tmp_path):
    fill(ledger)
    path = ledger.report(tmp_path / "page.html", 1e-6, limit=30.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    said = text_of(path.read_text())
    totals = ledger.totals(1e-6)
    summary = totals.summary()
    for value in (summary.median, summary.p95, summary.maximum):
        assert pi.report.words.loss(value) in said
    assert "Confidential" in said and "These totals are guarantees" in said
    assert "secret-005" in said and said.index("secret-005") < said.index("What this does not say")
    one_number = sum(float(GaussianShift([4.0 + k]).epsilon(1e-6 / 3)[0]) for k in range(3))
    assert pi.report.words.loss(one_number) in said
    assert "in order" in said and ledger.verify().head in said
    assert "more than the limit, 30.0 1" in said
    assert totals.report(tmp_path / "again.html").exists()


def test_nothing_that_is_reachable_or_hostile_gets_in(ledger):
    ledger.charge_pairs(["<script>alert(1)</script>"], GaussianShift([1.0]), key="<img src=x>", mechanism="<b>")
    page = ledger_page.render(ledger)
    assert "<script" not in page and "<img" not in page and "http" not in page.replace("http-equiv", "")


def test_a_redacted_copy_shows_nothing_that_few_share(ledger):
    ids = fill(ledger)
    ledger.charge_pairs(ids[:7], LaplaceShift(np.linspace(1.234, 1.9, 7)), key="few", note="for Dr. X")
    page = ledger_page.render(ledger, redact=True, limit=30.0)
    said = text_of(page)
    assert "secret" not in said and "Dr. X" not in said
    assert not any(release.stored.content[:8] in said for release in ledger.releases())
    for part in ledger.overview(1e-6).growth:
        for counts in (part.added, part.totals):
            assert pi.report.words.loss(float(counts.quantile([1.0])[0])) not in said.split()
    assert "fewer than 40" in said and " 7 " not in said.split("The log")[1].split("Verification")[0]
    assert "Redacted" in said and "One number" not in said
    few = pi.Ledger(ledger._charges.parents[1] / "few")
    fill(few, 39)
    with pytest.raises(InvalidInput, match="at least 40"):
        ledger_page.render(few, redact=True)


def test_nobody_one_person_and_no_bound(ledger):
    said = text_of(ledger_page.render(ledger))
    assert "Nothing has been charged" in said and "A ledger without releases." in said
    ledger.charge_pairs(["only"], GaussianShift([0.0]), key="nothing")
    assert "The one person in this ledger lost ε = 0" in text_of(ledger_page.render(ledger, limit=1.0))
    ledger.charge_pairs(["only"], GaussianShift([np.inf]), key="everything")
    ledger.charge_pairs(["only"], GaussianShift([1.0], "estimate"), key="more")
    said = text_of(ledger_page.render(ledger))
    assert "lost about ε = ∞" in said and "no finite total holds" in said and "readings, not guarantees" in said
    ledger.reserve_pairs(["only"], GaussianShift([0.5]), "pending", mechanism="a mean")
    assert "Not settled: pending." in text_of(ledger_page.render(ledger))
    for wrong in ({"limit": -1.0}, {"delta": 2.0}):
        with pytest.raises(InvalidInput):
            ledger_page.render(ledger, **wrong)


def test_a_filter_shows_who_is_near_its_end(tmp_path):
    rng = np.random.default_rng(0)
    X, ids = rng.uniform(0.0, 1.0, (50, 1)), [f"id{i}" for i in range(50)]
    ledger = pi.Ledger(tmp_path / "l", filter=pi.ledger.GaussianBudget(distance=0.5))
    assert "A filter is on" in text_of(ledger_page.render(ledger))
    for k in range(8):
        ledger.admit(pi.NoisyMean(scale=5.0, noise="gaussian", statistic="sum"), X, ids=ids, key=f"{k}")
    use = ledger.budget_use()
    spent = np.minimum(8, np.floor(0.25 / (X[:, 0] / 5.0) ** 2)) * (X[:, 0] / 5.0) ** 2 / 0.25
    assert use.shares.quantile([0.5, 1.0]) == pytest.approx(np.sort(spent)[[24, 49]])
    assert use.most[0][0] == f"id{spent.argmax()}"
    said = text_of(ledger_page.render(ledger))
    assert "near the end of the budget" in said and f"id{spent.argmax()}" in said
    assert f"more than 95% {int((spent > 0.95).sum())}" in said


@pytest.mark.parametrize("step", [1, 7])
def test_growth_is_that_of_each_person_composed_anew(ledger, monkeypatch, step):
    rng = np.random.default_rng(4)
    people = [f"p{i:02d}" for i in range(60)]
    books = {name: [] for name in people}
    for k in range(4):
        there = np.sort(rng.permutation(60)[:45])
        pairs = GaussianShift(rng.uniform(0.1, 1.0, 45)) if k % 2 else LaplaceShift(rng.uniform(0.01, 0.2, 45))
        ledger.charge_pairs([people[i] for i in there], pairs, key=f"{k}")
        for j, i in enumerate(there):
            books[people[i]].append((k, pairs[j : j + 1]))
    monkeypatch.setattr(growth, "COMPOSITIONS", {True: 1, False: -(-180 // step)})
    found = ledger.overview(1e-6)
    assert found.step == step
    everybody = [name for name in people if books[name]]
    top = found.worst[0].id
    chosen = {*everybody[::step], top}
    for k, part in enumerate(found.growth):
        totals, added = [], []
        for name in chosen:
            before, now = (_total([pair for j, pair in books[name] if j <= last]) for last in (k - 1, k))
            totals += [now] if any(j <= k for j, _ in books[name]) else []
            added += [now - before] if any(j == k for j, _ in books[name]) else []
        assert np.repeat(*part.totals.weighted()) == pytest.approx(np.sort(totals), rel=1e-9)
        assert np.repeat(*part.added.weighted()) == pytest.approx(np.sort(added), rel=1e-6, abs=1e-9)
    assert found.totals.people == len(everybody)
    assert sum(found.share(k) for k in range(4)) == pytest.approx(1.0)
    assert found.totals.quantile([1.0])[0] == found.worst[0].epsilon == ledger.totals(1e-6).losses.max()


def _total(pairs):
    if not pairs:
        return 0.0
    whole = pairs[0]
    for pair in pairs[1:]:
        whole = whole + pair
    return float(whole.epsilon(1e-6)[0])
