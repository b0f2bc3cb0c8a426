"""Statements: functions of one's own row and what is public; never below the truth; nothing else on a page."""

from __future__ import annotations

import json
import os
import re
import stat
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.disclosure import Statement, Wording, statement, together, write_statements
from perinstance.errors import InvalidInput, RefusedModel, UnsafeFile
from perinstance.releases.adaops.estimator import own_row_promise
from perinstance.releases.adassp.mechanism import people_squares
from perinstance.releases.base.log_ratios import PublicFacts
from tests.releases.slow_roads import whole_profile

ROW, TARGET = np.array([0.3, -0.2, 0.1]), 0.4


def table(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.5, 0.5, size=(n, 3))
    return X, np.clip(X.sum(1) + 0.1 * rng.normal(size=n), -1, 1)


def classes_of(release, y):
    """Targets of classifiers are classes."""
    classes = isinstance(release, pi.PrivateLogisticRegression | pi.NoisyDescent)
    return (y > 0).astype(float) if classes else y


RELEASES = [
    (pi.AdaSSP(epsilon=1.0, x_bound=1.0, y_bound=1.0), {}),
    (pi.AdaSSP(epsilon=1.0, x_bound=1.0, y_bound=1.0, rounds=1, fit_intercept=False), {}),
    (pi.AdaOPS(epsilon=1.0, x_bound=1.0, y_bound=1.0, n_public=1000), {}),
    (pi.NoisyMean(scale=2.0, statistic="sum"), {}),
    (pi.NoisyMean(scale=2.0, noise="gaussian", statistic="sum"), {}),
    (pi.PosteriorSample(alpha=2.0, gamma=0.5), {"y_bound": 1.0, "people": 100}),
    (pi.NoisyDescent(LogisticRegression(C=1.0), steps=10, clip=1.0, noise=5.0), {}),
    (pi.PrivateLogisticRegression(epsilon=1.0, delta=1e-6, x_bound=1.0, rounds=5), {}),
]


@pytest.mark.parametrize(("release", "facts"), RELEASES[:2] + RELEASES[3:])
def test_it_is_never_below_the_audit_of_any_table(release, facts):
    """The person's own row stands in three different tables; what they are told covers each of the exact losses."""
    told = statement(release, ROW, TARGET, **facts)
    for seed in range(3):
        X, y = table(seed)
        X[0], y[0] = ROW, TARGET
        y = classes_of(release, y)
        audit = pi.audit(release, X) if "Mean" in type(release).__name__ else pi.audit(release, X, y)
        assert audit.losses[0] <= told.epsilon * (1 + 1e-9)
        if told.kind == "exact":
            assert audit.losses[0] == pytest.approx(told.epsilon, rel=1e-9)


@pytest.mark.parametrize(("release", "facts"), RELEASES)
def test_replacing_every_other_row_changes_nothing(release, facts):
    """What was published stays; all rows but the person's own are others."""
    from sklearn.base import clone

    X, y = table(0)
    X[0], y[0] = ROW, TARGET
    y = classes_of(release, y)
    mean = "Mean" in type(release).__name__
    fitted = clone(release).fit(X) if mean else clone(release).fit(X, y)
    told = []
    for seed in (1, 2):
        Z, t = table(seed)
        Z[0], t[0] = ROW, TARGET
        told.append(statement(fitted, Z[0], t[0], **facts))
    assert told[0] == told[1] == statement(fitted, ROW, TARGET, **facts)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_adaops_own_row_by_quadrature(seed):
    """The exact delta of the whole mechanism, for somebody of a shorter row, stays below what they are told."""
    release = pi.AdaOPS(epsilon=1.0, delta=1e-4, x_bound=1.0, y_bound=1.0, n_public=400, fit_intercept=False)
    box = release._box(2)
    request = replace(release._request(box), box=None)  # the sample by itself
    u, t = 0.5, 0.5
    promised = own_row_promise(request, u, t)
    epsilon = promised.epsilon(1e-4)
    assert epsilon < 1.0
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2))
    X /= np.maximum(np.linalg.norm(X, axis=1), 1)[:, None]
    y = np.clip(X @ [0.8, -0.5], -1, 1)
    x = rng.normal(size=2)
    x *= u / np.linalg.norm(x)
    found = whole_profile(request, X.T @ X, X.T @ y, x, rng.choice([-t, t]), epsilon, nodes=21)
    assert max(found.values()) <= 1e-4
    assert (
        0.99 <= own_row_promise(request, 1.0, 1.0).epsilon(1e-4) <= 1.0
    )  # everybody: the promise, as tight as its plan
    told = statement(release, [0.29, 0.4], 0.49, delta=1e-4)  # within eight sixteenths
    first, row = release._first(box), box.rows(np.array([[0.29, 0.4]]), np.array([0.49]))
    moved = np.sqrt(people_squares(first, row, None)[0]) / first.promise.distance
    parts = own_row_promise(release._request(box), u, 1.0, np.ceil(moved * 16) / 16)
    assert told.epsilon == pytest.approx(parts.epsilon(1e-4), rel=1e-5) and told.promise == (1.0, 1e-4)
    assert told.epsilon < 1.0


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 50), st.floats(0.01, 20))
def test_the_posterior_bound_against_refits(seed, alpha, gamma):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(12, 2)) * rng.choice([0.1, 1, 10]), rng.uniform(-1, 1, size=12)
    x, target = rng.normal(size=2), rng.uniform(-3, 3)
    release = pi.PosteriorSample(alpha=alpha, gamma=gamma)
    release.coef_ = np.round(rng.normal(size=2), 3)
    told = statement(release, x, target, y_bound=1.0, people=12)
    audit = pi.audit(release, np.vstack([x, X]), np.append(target, y))
    assert audit.losses[0] <= told.epsilon * (1 + 1e-9)
    L = audit.realised(release.coef_, np.vstack([x, X]), np.append(target, y)).losses[0]
    assert told.log_odds[0] - 1e-9 <= L <= told.log_odds[1] + 1e-9


def test_what_promises_nothing_and_knows_nothing_is_refused():
    with pytest.raises(RefusedModel, match="nothing that may be told"):
        statement(pi.OutputPerturbation(Ridge(), scale=1.0), ROW, TARGET)
    with pytest.raises(RefusedModel, match="others' mean"):
        statement(pi.NoisyMean(scale=1.0), ROW)
    with pytest.raises(InvalidInput, match="y_bound and people"):
        statement(pi.PosteriorSample(), ROW, TARGET)
    with pytest.raises(RefusedModel, match="penalised"):
        statement(pi.PosteriorSample(fit_intercept=True), ROW, TARGET, y_bound=1.0, people=5)
    for row in (["HIV+", 1.0, 2.0], [np.nan, 0.0, 0.0]):
        with pytest.raises(InvalidInput) as caught:
            statement(pi.NoisyMean(scale=1.0, statistic="sum"), row)
        assert "HIV" not in str(caught.value)


def test_a_release_that_only_promises_states_its_promise():
    class OnlyPromises(pi.AdaSSP):
        own_row_loss = None

    release = OnlyPromises(epsilon=0.7, delta=1e-7, x_bound=1.0, y_bound=1.0)
    told = statement(release, ROW, TARGET)
    assert (told.epsilon, told.delta, told.own_row) == (0.7, 1e-7, False)


def test_a_row_beyond_the_bounds_costs_the_promise_at_most():
    release = pi.AdaSSP(epsilon=1.0, x_bound=1.0, y_bound=1.0)
    far = statement(release, [1e9, -1e9, 0.0], 1e9)
    assert far.epsilon <= 1.0 and far.epsilon == pytest.approx(1.0, rel=1e-6)
    assert statement(release, [np.nan, 0.0, 0.0], 0.0).epsilon == 0.0  # a missing cell: a row of zeros
    descent = pi.NoisyDescent(LogisticRegression(), steps=5, clip=1.0, noise=2.0)
    for cell in (np.nan, np.inf, -np.inf, 1e300):  # fit refuses none of them
        assert statement(descent, [cell, 0.0, 0.0], 1.0).epsilon == descent.promise().epsilon(1e-6)


def test_several_releases_add_up():
    parts = [statement(r, ROW, TARGET) for r, _ in RELEASES[:2]]
    both = together(parts)
    assert both.epsilon >= sum(p.epsilon for p in parts) and both.delta >= 2e-6 and both.releases == 2
    exact = pi.pairs.GaussianShift([0.0])
    for release, _ in RELEASES[:2]:
        X, y = table(0)
        X[0], y[0] = ROW, TARGET
        exact = exact + pi.audit(release, X, y).pairs[0]
    assert exact.epsilon(2e-6)[0] <= both.epsilon
    assert "published 2 times" in both.text()


def test_a_model_file_says_the_same(tmp_path):
    X, y = table()
    for release in (RELEASES[0][0], RELEASES[5][0]):
        facts = {"y_bound": 1.0, "people": 100} if isinstance(release, pi.PosteriorSample) else {}
        fitted = release.fit(X, y)
        (tmp_path / "m.json").write_text(fitted.to_json())
        told = statement(pi.load_model(tmp_path / "m.json"), ROW, TARGET, **facts)
        assert told == statement(fitted, ROW, TARGET, **facts)
    fitted = pi.OutputPerturbation(Ridge(), scale=1.0).fit(X, y)
    (tmp_path / "m.json").write_text(fitted.to_json())
    with pytest.raises(InvalidInput, match="promises nothing"):
        statement(pi.load_model(tmp_path / "m.json"), ROW, TARGET)


def told_to(ids) -> list[Statement]:
    return [statement(RELEASES[1][0], ROW, TARGET) for _ in ids]


HOSTILE = [
    "../../etc/passwd",
    "a/b",
    "",
    ".",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "é" * 300,
    "x\x00y",
    "007",
    "7",
]


def test_pages_are_private_and_ids_are_harmless(tmp_path):
    place = write_statements(tmp_path / "out", HOSTILE, told_to(HOSTILE))
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o700
    names = sorted(path.name for path in place.iterdir())
    assert len(names) == len(HOSTILE) + 1
    for path in place.iterdir():
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert path.name == "index.csv" or re.fullmatch(r"[0-9a-f]{32}\.html", path.name)
    pages = "".join(path.read_text() for path in place.glob("*.html"))
    assert "<script>" not in pages and "&lt;script&gt;" in pages and "default-src 'none'" in pages
    assert "'=cmd" in (place / "index.csv").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_nothing_is_overwritten_unless_asked(tmp_path):
    place = write_statements(tmp_path / "out", ["a"], told_to("a"))
    (place / "notes.txt").write_text("mine")
    before = {path.name for path in place.glob("*.html")}
    with pytest.raises(InvalidInput, match="not empty"):
        write_statements(place, ["a"], told_to("a"))
    write_statements(place, ["a", "b"], told_to("ab"), format="text", again=True)
    assert not before & {path.name for path in place.iterdir()} and (place / "notes.txt").read_text() == "mine"
    assert len(list(place.glob("[0-9a-f]*.txt"))) == 2
    with pytest.raises(InvalidInput, match="ids repeat"):
        write_statements(tmp_path / "twice", ["a", "a"], told_to("aa"))
    (tmp_path / "open").mkdir(mode=0o755)
    with pytest.raises(UnsafeFile):
        write_statements(tmp_path / "open", ["a"], told_to("a"))


def test_words_are_data():
    english = dict(Wording.english().sentences)
    german = Wording({**english, "language": "de", "title": "Was wir veröffentlicht haben"})
    assert told_to("a")[0].text(german).startswith("Was wir")
    for broken in (
        {"loss": "no numbers"},
        {"loss": english["loss"] + "{x}"},
        {"title": "{0}"},
        {"loss": "{epsilon:.1f}"},
    ):
        with pytest.raises(InvalidInput):
            Wording({**english, **broken})
    with pytest.raises(InvalidInput, match="lacks"):
        Wording({"title": "x"})


def test_numbers_are_rounded_against_the_publisher():
    told = statement(RELEASES[0][0], ROW, TARGET)
    shown = float(re.search(r"epsilon = ([\d.]+)", told.text())[1])
    factor = float(re.search(r"factor of at most ([\d.]+)", told.text())[1])
    assert shown >= told.epsilon and factor >= np.exp(told.epsilon)
    sampled = pi.PosteriorSample(alpha=2.0, gamma=0.5)
    sampled.coef_ = np.array([0.5, 0.25, 0.125])
    odds = statement(sampled, ROW, TARGET, y_bound=1.0, people=100)
    assert odds.facts == PublicFacts(1.0, 100) and "at most 100 people" in odds.text()
    low, high = (float(v.replace(",", "")) for v in re.search(r"between (\S+) and (\S+) times", odds.text()).groups())
    assert low <= np.exp(odds.log_odds[0]) and high >= np.exp(odds.log_odds[1])


def test_the_command(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from perinstance.cli import terminal
    from perinstance.cli.app import app

    monkeypatch.setattr(terminal, "PLAIN_EVERY", 0.0)
    X, y = table()
    lines = ["person,a,b,c,t"] + [
        f"p{i},{','.join(map(repr, map(float, row)))},{float(y[i])!r}" for i, row in enumerate(X)
    ]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    model = pi.AdaSSP(epsilon=1.0, x_bound=1.0, y_bound=1.0).fit(X, y)
    (tmp_path / "m.json").write_text(model.to_json(features=["a", "b", "c"], target="t"))
    run = CliRunner().invoke
    base = ["statement", str(tmp_path / "m.json"), str(tmp_path / "t.csv"), "--id", "person"]
    done = run(app, [*base, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Writing statements: 59 of 60" in done.output  # who writes 20,000 pages sees how far it is
    assert "60 statements, one" in done.output and len(list((tmp_path / "out").glob("*.html"))) == 60
    told = run(app, [*base, "--only", "p3"])
    assert statement(model, X[3], y[3]).sentences()[1][:60] in re.sub(r"\s+", " ", told.output)
    again = run(app, [*base, "--out", str(tmp_path / "out")])
    assert again.exit_code != 0
    assert isinstance(run(app, base).exception, InvalidInput)
    assert json.loads((tmp_path / "m.json").read_text())["method"] == "AdaSSP"
    losses = ["publish-losses", *base[1:], "--epsilon", "2", "--out", str(tmp_path / "l.json")]
    done = run(app, losses)
    assert done.exit_code == 0 and "95% of the people lost at most 1 (upper bound)" in done.output, done.output
    told = json.loads((tmp_path / "l.json").read_text())
    assert told["promise"]["epsilon"] == 2.0 and (tmp_path / "l.json").stat().st_mode & 0o777 == 0o600
    assert isinstance(run(app, losses).exception, InvalidInput)  # a second draw would cost again
