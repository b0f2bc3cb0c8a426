"""Losses published with noise: what one person moves, whether the bounds are bounds, what is read from the counts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.disclosure import loss_bounds, publish_losses, published_losses
from perinstance.disclosure.loss_bounds import (
    EDGES,
    NoisyLook,
    PublicTerms,
    RowBounds,
    SplitPromise,
    bins_of,
    bounded,
    checked_edges,
    noisy_gram,
    row_bounds,
)
from perinstance.errors import InvalidInput, LedgerConflict, RefusedModel
from perinstance.folds.sweep import ArraySweep
from perinstance.pairs import GaussianShift, PosteriorSamplePair

RNG = np.random.default_rng(5)
RIDGE = Ridge(alpha=1.0, fit_intercept=False)


@pytest.fixture(autouse=True)
def same_tables(monkeypatch):
    """Begin every test with the same numbers, whichever tests this process has run before."""
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(5))


def table(n=300, d=3, spread=1.0):
    X = RNG.normal(size=(n, d)) * spread ** np.arange(d)
    X /= np.maximum(np.linalg.norm(X, axis=1) / 0.95, 1.0)[:, None]
    return X, X.sum(1) + 0.3 * RNG.normal(size=n)


def exact_noise_free(noisy):
    """Stand in for the draw: the exact centre."""
    return SimpleNamespace(values=np.array([float(c) for c in noisy.center]))


def rows(block):
    return np.asarray(block.X, dtype=np.float64)


# --- what one person moves


@pytest.mark.parametrize(
    "extreme", [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1e200, 1.0, 1.0], [1e-200, 0.6, 0.8], [0.7, 0.8, 0.0]]
)
def test_one_person_moves_a_look_by_the_square_of_the_bound(monkeypatch, extreme):
    """By brute force, at rows within, at and far beyond the bound."""
    monkeypatch.setattr(loss_bounds, "draw", exact_noise_free)
    X, y = table(12)
    for square in (1.0, 0.3, 40.0):
        here = noisy_gram(ArraySweep(X, y), rows, 3, square, 1.0)
        there = noisy_gram(ArraySweep(np.vstack([X, extreme]), np.append(y, 1.0)), rows, 3, square, 1.0)
        assert np.linalg.norm(there - here) <= square * (1 + 1e-12)


def terms_for(family="posterior", intercept=False, d=3):
    p = d + intercept
    K = np.diag(np.linspace(5.0, 90.0, p)) + 0.5
    look = NoisyLook(K, 2.0, 1.0)
    scale = 1.0 if family == "posterior" else 0.01
    return PublicTerms(family, look, 1.0, intercept, scale, 1 / scale, 4.0, np.linspace(-1, 1, p), 2.0**-41)


@pytest.mark.parametrize("family", ["posterior", "output"])
def test_nobodys_bin_hangs_on_the_others(family):
    """The same row among others, alone, twice, in another place, in another memory order: the same bin and bits."""
    terms = terms_for(family)
    X, y = table(257)
    X[:5] *= [[0.0], [1e-150], [1e150], [1e8], [1.0]]
    whole = row_bounds(terms, X, y)
    bins = bins_of(terms, whole, EDGES, 1e-6)
    assert len(set(bins.tolist())) > 3
    order = RNG.permutation(len(y))
    mixed = row_bounds(terms, np.asfortranarray(X[order]), y[order])
    assert np.array_equal(mixed.leverage, whole.leverage[order], equal_nan=True)
    assert np.array_equal(mixed.residual, whole.residual[order], equal_nan=True)
    assert np.array_equal(bins_of(terms, mixed, EDGES, 1e-6), bins[order])
    for i in (0, 1, 2, 100):
        alone = bins_of(terms, row_bounds(terms, X[i : i + 1], y[i : i + 1]), EDGES, 1e-6)
        assert alone[0] == bins[i]


def test_the_parts_add_up_to_the_promise():
    for looks in (False, True):
        for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-9), (8.0, 1e-3)):
            split = SplitPromise.of(epsilon, delta, looks, 1e-4)
            spent = split.matrix**2 + split.noise**-2
            assert spent <= split.distance**2 and spent >= 0.999 * split.distance**2
            assert GaussianShift(split.distance).delta(epsilon)[0] <= delta
            assert (2 * looks + 3) * split.each <= 1e-4 * (1 + 1e-12)


# --- the bounds are bounds


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("spread", [1.0, 0.05])
def test_leverages_and_influences_are_bounded_under_the_worst_noise(intercept, spread):
    """Noise of the largest allowed norm, along eigenvectors, against them, and at random; refits by a plain solve."""
    for trial in range(12):
        X, y = table(80, 3, spread)
        X = np.column_stack([X, np.ones((80, int(intercept)))])
        penalties = np.array([1.0, 1.0, 1.0] + [0.0] * intercept)
        p, margin = len(penalties), [0.5, 3.0, 20.0][trial % 3]
        Q = np.linalg.qr(RNG.normal(size=(p, p)))[0]
        E = Q @ np.diag(RNG.choice([-margin, margin], size=p)) @ Q.T
        look = bounded(X.T @ X + E, penalties, margin)
        H = X.T @ X + np.diag(penalties)
        assert look.floor <= np.linalg.eigvalsh(H)[0] * (1 + 1e-9)
        few = PublicTerms("posterior", look, 0.0, True, 1.0, 1.0, 4.0, np.zeros(p), 0.0)
        found, solved = row_bounds(few, X, y), np.linalg.solve(H, X.T)
        assert (found.leverage >= (X.T * solved).sum(0)).all()
        assert (found.influence >= np.linalg.norm(solved, axis=0)).all()
        tight = row_bounds(replace(few, look=bounded(X.T @ X, penalties, 1e-9)), X, y)
        assert tight.leverage == pytest.approx((X.T * solved).sum(0), rel=1e-5)
        assert tight.influence == pytest.approx(np.linalg.norm(solved, axis=0), rel=1e-5)


def test_rows_that_a_look_leaves_out_only_raise_a_leverage(monkeypatch):
    monkeypatch.setattr(loss_bounds, "draw", exact_noise_free)
    X, y = table(60)
    X[:10] *= 5.0
    seen = noisy_gram(ArraySweep(X, y), rows, 3, 0.9, 1.0)
    assert np.linalg.eigvalsh(X.T @ X - seen)[0] >= -1e-12
    look = bounded(seen, np.ones(3), 1e-9)
    found = row_bounds(PublicTerms("posterior", look, 1.0, False, 1.0, 1.0, 4.0, np.zeros(3), 0.0), X, y)
    truth = (X.T * np.linalg.solve(X.T @ X + np.eye(3), X.T)).sum(0)
    assert (found.leverage >= truth).all() and (found.leverage[:10] < 1).all()


def test_bins_are_never_too_low():
    """Against epsilon itself, at leverages and residuals of all sizes."""
    mu = np.exp(RNG.uniform(-22, 6, size=300))
    e = np.exp(RNG.uniform(-6, 4, size=300))
    h = mu / (1 + mu)
    bounds = RowBounds(h, e, np.exp(RNG.uniform(-9, 0, size=300)))
    tops = np.append(EDGES, np.inf)
    terms = terms_for()
    truth = PosteriorSamplePair(h / (1 - h), e / (1 - h)).epsilon(1e-6)
    found = tops[bins_of(terms, bounds, EDGES, 1e-6)]
    assert (found >= truth).all()
    some = (truth > EDGES[0]) & (truth < 5.0)
    assert (found[some] <= truth[some] * 1.8).mean() > 0.9  # and seldom more than a bin too high
    output = terms_for("output")
    truth = GaussianShift(bounds.influence * e / (1 - h) / 0.01).epsilon(1e-6)
    assert (tops[bins_of(output, bounds, EDGES, 1e-6)] >= truth).all()
    nothing = RowBounds(np.array([np.inf, 1.0, np.nan]), np.array([1.0, 1.0, np.nan]), np.array([np.inf, 1.0, np.nan]))
    for one in (terms, output):
        assert (bins_of(one, nothing, EDGES, 1e-6) == len(EDGES)).all()


# --- the whole


RELEASES = [
    pi.PosteriorSample(alpha=20.0, gamma=1.0),
    pi.PosteriorSample(alpha=20.0, gamma=1.0, fit_intercept=True),
    pi.OutputPerturbation(Ridge(alpha=20.0, fit_intercept=False), scale=0.01),
    pi.OutputPerturbation(Ridge(alpha=20.0), scale=0.05, precision=[[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]]),
    pi.NoisyMean(scale=10.0, statistic="sum"),
]


@pytest.mark.parametrize("release", RELEASES, ids=lambda r: r.mechanism().name)
def test_published_losses_are_above_the_truth(release):
    X, y = table(2000, 2)
    arguments = (X, y) if release.mechanism().needs_target else (X,)
    fitted, audit = release.fit(*arguments), pi.audit(release, *arguments)
    told = publish_losses(audit, fitted, *arguments, epsilon=6.0, x_bound=1.0, failure=1e-9)
    assert told.people == pytest.approx(2000, abs=7 * told.noise * math.sqrt(len(told.counts)))
    for share in (0.1, 0.5, 0.9, 0.99):
        read = told.quantile(share)
        assert read.low < read.high and audit.quantile(share) <= read.high
    assert told.quantile(0.5).high <= 10.0 and told.kind == "upper"
    if told.terms is not None:
        assert all(told.own_bound(X[i], y[i]) >= audit.losses[i] for i in range(0, 2000, 97))
    assert told.pairs(3).delta(6.0).max() <= 1e-6
    summary = json.loads(told.to_json())
    assert summary["promise"] == {"epsilon": 6.0, "delta": 1e-6} and len(summary["counts"]) == len(EDGES) + 1


def test_what_is_read_from_counts():
    """Counts without noise: quantiles are those edges; what nothing reaches is infinite."""
    X, y = table(500)
    audit = pi.audit(pi.NoisyMean(scale=10.0, statistic="sum"), X)
    told = publish_losses(
        audit, pi.NoisyMean(scale=10.0, statistic="sum").fit(X), X, epsilon=1.0, edges=[0.1, 1.0, 10.0]
    )
    plain = replace(told, counts=(100.0, 300.0, 100.0, 0.0), noise=1e-9)
    assert [plain.quantile(q).high for q in (0.1, 0.5, 0.79, 0.9)] == [0.1, 1.0, 1.0, 10.0]
    assert replace(plain, counts=(0.0, 0.0, 0.0, 500.0)).quantile(0.5) == pi.disclosure.LossQuantile(
        0.5, 10.0, math.inf
    )
    noisy = replace(plain, noise=20.0)
    assert noisy.quantile(0.5).low <= 1.0 <= noisy.quantile(0.5).high
    for wrong in (0.0, 1.0, "half"):
        with pytest.raises(InvalidInput, match="share"):
            plain.quantile(wrong)


def test_people_are_charged_before_anything_is_drawn(tmp_path, monkeypatch):
    X, y = table(40)
    ids = [f"p{i}" for i in range(40)]
    release = pi.PosteriorSample(alpha=5.0)
    fitted, audit = release.fit(X, y), pi.audit(release, X, y, ids=ids)
    ledger = pi.Ledger(tmp_path / "ledger")
    ask = {"epsilon": 1.0, "x_bound": 1.0, "ledger": ledger}
    told = publish_losses(audit, fitted, X, y, key="losses", **ask)
    charged = ledger.releases()[0]
    assert (charged.key, charged.state, charged.people) == ("losses", "committed", 40)
    assert ledger.person("p3").epsilon == pytest.approx(told.pairs(1).epsilon(1e-6)[0])
    with pytest.raises(LedgerConflict, match="another draw costs again"):
        publish_losses(audit, fitted, X, y, key="losses", **ask)
    for published, people in ((pi.PosteriorSample(alpha=5.0), 40), (fitted, 39), (np.zeros(7), 40)):
        with pytest.raises((InvalidInput, NotFittedError)):  # a refused call leaves no charge behind
            publish_losses(audit, published, X[:people], y[:people], key="refused", **ask)
    with pytest.raises(InvalidInput, match="other people"):  # others would be counted than are charged
        publish_losses(audit, fitted, X, y, key="others", ids=[f"q{i}" for i in range(40)], **ask)
    assert len(ledger.releases()) == 1
    monkeypatch.setattr(published_losses, "draw", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        publish_losses(audit, fitted, X, y, key="broken", **ask)
    assert [one.state for one in ledger.releases()] == ["committed", "reserved"]


def test_what_cannot_be_published_is_refused():
    X, y = table(60)
    binary = (y > 0).astype(int)
    smooth = pi.OutputPerturbation(LogisticRegression(fit_intercept=False), scale=1.0)
    for release, target in ((smooth, binary), (pi.ObjectivePerturbation(RIDGE, scale=1.0), y)):
        audit = SimpleNamespace(release=release, inside=True, n_rows=None)  # refused before anything of it is read
        with pytest.raises(RefusedModel, match="one person can move everybody's"):
            publish_losses(audit, [0.0] * 3, X, target, epsilon=1.0, x_bound=1.0)
    release = pi.PosteriorSample()
    audit, o = pi.audit(release, X, y), [0.0, 0.0, 0.0]
    with pytest.raises(InvalidInput, match="declare x_bound"):
        publish_losses(audit, o, X, y, epsilon=1.0)
    with pytest.raises(InvalidInput, match="outsiders"):
        publish_losses(replace(audit, inside=False), o, X, y, epsilon=1.0, x_bound=1.0)
    for bad in (
        {"epsilon": 0.0},
        {"epsilon": 1.0, "delta": 0.0},
        {"epsilon": 1.0, "failure": 2.0},
        {"epsilon": 1.0, "x_bound": -1},
    ):
        with pytest.raises(InvalidInput):
            publish_losses(audit, o, X, y, **{"x_bound": 1.0, **bad})
    for edges in ([], [1.0, 1.0], [0.0, 1.0], [1.0, np.inf], list(range(1, 200)), ["a"]):
        with pytest.raises(InvalidInput):
            checked_edges(edges)
    output = pi.OutputPerturbation(RIDGE, scale=1.0)
    with pytest.raises(InvalidInput, match="longer than x_bound"):
        publish_losses(pi.audit(output, X, y), o, X, y, epsilon=1.0, x_bound=0.5)


def attack(draws):
    """Tell two neighbours apart by the exact log ratio of everything that is published; its mean under each."""
    near, own = np.full((6, 1), 0.4), np.full((1, 1), 1.0)
    release = pi.PosteriorSample(alpha=1.0)
    o, seen = [0.3], {}
    for world, X in (("without", near), ("with", np.vstack([near, own]))):
        y = np.zeros(len(X))
        audit, values = pi.audit(release, X, y), []
        for _ in range(draws):
            told = publish_losses(audit, o, X, y, epsilon=3.0, delta=0.05, x_bound=1.0, edges=[0.5, 2.0])
            seen_matrix = told.terms.look.matrix[0, 0] - 1.0
            ask = ((0.5, 2.0), audit.delta)
            their = bins_of(told.terms, row_bounds(told.terms, own, np.zeros(1)), *ask)[0]
            base = np.bincount(bins_of(told.terms, row_bounds(told.terms, near, np.zeros(6)), *ask), minlength=3)
            moved = told.split.matrix * (seen_matrix - near.T @ near)[0, 0]
            moved += (told.counts[their] - base[their]) / told.noise**2
            values.append(moved)
        seen[world] = np.array(values)
    return seen


@pytest.mark.usefixtures("fixed_noise")
@pytest.mark.parametrize("draws", [40, pytest.param(1500, marks=pytest.mark.slow)])
def test_the_best_test_of_a_look_and_the_counts_finds_no_more_than_was_paid(draws):
    """Mean and spread of what tells the worlds apart: their gap over the spread is at most the distance paid."""
    seen = attack(draws)
    split = SplitPromise.of(3.0, 0.05, True, 1e-4)
    paid = math.hypot(split.matrix, split.histogram)
    gap = seen["with"].mean() - seen["without"].mean()
    spread = math.sqrt((seen["with"].var() + seen["without"].var()) / 2)
    assert gap / spread <= paid + 4.5 * math.sqrt(2 / draws)
    assert gap / spread >= paid - 4.5 * math.sqrt(2 / draws)  # the noise is no larger than it has to be
