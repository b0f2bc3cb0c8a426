"""Realised losses against the slow road: fit twice with 60 digits, write both densities down, divide."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import partial

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.sweep import ArraySweep
from perinstance.releases.adaops.mechanism import plan
from perinstance.releases.adassp import mechanism
from perinstance.releases.descent.clipped_steps import OwnClips, SummedGradients, objective_of
from perinstance.releases.promises.window import asked

mp.mp.dps = 60
A3 = [[2.0, 0.5, 0.0], [0.5, 1.0, 0.25], [0.0, 0.25, 3.0]]
LINEAR = [
    pi.PosteriorSample(alpha=0.5, gamma=0.7, fit_intercept=True),
    pi.PosteriorSample(alpha=0.1, gamma=3.0),
    pi.OutputPerturbation(Ridge(alpha=1.0), scale=0.3),
    pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=0.3, precision=A3),
    pi.ObjectivePerturbation(Ridge(alpha=1.0), scale=2.0),
    pi.StudentPerturbation(Ridge(alpha=1.0), scale=0.3, degrees_of_freedom=3),
]
MEANS = [
    pi.NoisyMean(scale=0.1),
    pi.NoisyMean(scale=0.1, noise="gaussian"),
    pi.NoisyMean(scale=1.5, statistic="sum"),
    pi.NoisyMean(scale=1.5, noise="gaussian", statistic="sum"),
]


def name(release):
    return re.sub(r"\W+", "-", str(release))


def table(n=12, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X.sum(1) + rng.normal(size=n)


def log_normal(values, centers, scales):
    """Minus half the sum of squares, with 60 digits; centers may be rational numbers."""
    exact = [mp.mpf(c.numerator) / c.denominator if isinstance(c, Fraction | int) else c for c in centers]
    return -mp.fsum(
        ((mp.mpf(float(o)) - c) / mp.mpf(s)) ** 2 / 2 for o, c, s in zip(values, exact, scales, strict=True)
    )


def ridge(release):
    """(alpha, fit_intercept) as declared."""
    if isinstance(release, pi.PosteriorSample):
        return release.alpha, release.fit_intercept
    return release.estimator.alpha, release.estimator.fit_intercept


def log_density(release, X, y, o):
    """Write the density of the release down, with 60 digits, from a fit of these rows."""
    alpha, intercept = ridge(release)
    Z = mp.matrix(np.column_stack([X, np.ones(len(X))]) if intercept else X)
    p = Z.cols
    H = Z.T * Z + mp.diag([mp.mpf(alpha)] * X.shape[1] + [mp.mpf(0)] * intercept)
    theta = mp.lu_solve(H, Z.T * mp.matrix(y))
    gap = mp.matrix([mp.mpf(float(v)) for v in o]) - theta
    if isinstance(release, pi.PosteriorSample):
        K = release.gamma * H
    elif isinstance(release, pi.ObjectivePerturbation):
        K = H * H / mp.mpf(release.scale) ** 2
    else:
        A = getattr(release, "precision", None)
        K = (mp.eye(p) if A is None else mp.matrix(A)) / mp.mpf(release.scale) ** 2
    square = (gap.T * K * gap)[0]
    if isinstance(release, pi.StudentPerturbation):
        nu = release.degrees_of_freedom
        return -mp.mpf(nu + p) / 2 * mp.log(1 + square / nu)
    return mp.log(mp.det(K)) / 2 - square / 2


@pytest.mark.parametrize("release", LINEAR, ids=name)
def test_two_refits_and_densities(release):
    X, y = table()
    model = clone(release).fit(X, y)
    found = pi.audit(release, X, y).realised(model, X, y)
    assert found.kind == "exact"
    o = [*model.coef_, model.intercept_][: len(model.coef_) + ridge(release)[1]]
    whole = log_density(release, X, y, o)
    for i in range(len(y)):
        truth = whole - log_density(release, np.delete(X, i, 0), np.delete(y, i), o)
        assert abs(found.losses[i] - truth) <= found.errors[i] <= 1e-6


@pytest.mark.parametrize("release", LINEAR, ids=name)
def test_two_refits_without_all_rows_of_a_person(release):
    X, y = table(20)
    ids = np.array(list("abcadbeaebafbbbbbgah"))  # from one to eight rows
    model = clone(release).fit(X, y)
    found = pi.audit(release, X, y, ids=ids).realised(model, X, y, ids=ids)
    assert found.kind == "exact" and found.ids.to_pylist() == list("abcdefgh")
    o = [*model.coef_, model.intercept_][: len(model.coef_) + ridge(release)[1]]
    whole = log_density(release, X, y, o)
    for i, person in enumerate("abcdefgh"):
        truth = whole - log_density(release, X[ids != person], y[ids != person], o)
        assert abs(found.losses[i] - truth) <= found.errors[i] <= 1e-6


@pytest.mark.parametrize("release", [*LINEAR, *MEANS], ids=name)
def test_outsiders_are_people_inside_of_the_table_they_would_join(release):
    """The same ratio, whoever is asked: from the table without them, and from the table with them."""
    X, y = table()
    joined, target = np.vstack([X, [[0.3, -2.0, 1.0]]]), np.append(y, 4.0)
    needs = release.mechanism().needs_target
    first, second = ((X, y), (joined, target)) if needs else ((X,), (joined,))
    model = clone(release).fit(*first)
    them = (joined[-1:], target[-1:]) if needs else (joined[-1:],)
    found = pi.audit(release, *first, outsiders=them).realised(model, *first, outsiders=them)
    truth = release.log_ratios(ArraySweep(*(second if needs else (joined, np.zeros(13)))), model)
    assert len(found) == 1 and found.kind == "exact"
    assert abs(found.losses[0] - truth.value[-1]) <= found.errors[0] + truth.error[-1]


@pytest.mark.parametrize("release", MEANS, ids=name)
def test_means_and_sums(release):
    X, _ = table()
    model = clone(release).fit(X)
    found = pi.audit(release, X).realised(model, X)

    def log_of(rows):
        total = [mp.fsum(mp.mpf(v) for v in column) for column in rows.T.tolist()]
        centre = [t / len(rows) for t in total] if release.statistic == "mean" else total
        gaps = [(mp.mpf(float(o)) - c) / mp.mpf(release.scale) for o, c in zip(model.value_, centre, strict=True)]
        return -mp.fsum(abs(g) if release.noise == "laplace" else g * g / 2 for g in gaps)

    for i in range(len(X)):
        truth = log_of(X) - log_of(np.delete(X, i, 0))
        assert abs(found.losses[i] - truth) <= found.errors[i] <= 1e-6


ADASSP = [
    pi.AdaSSP(epsilon=2.0, x_bound=4.0, y_bound=5.0, rounds=1, fit_intercept=False),
    pi.AdaSSP(epsilon=2.0, x_bound=4.0, y_bound=5.0, rounds=3),
    pi.AdaSSP(epsilon=2.0, x_bound=[4.0, (-3.5, 4.0), 4.0], y_bound=(-6.0, 6.0), rounds=3),
    pi.AdaSSP(epsilon=9.0, x_bound=[4.0, (-3.5, 4.0), 4.0], y_bound=(-6.0, 6.0), rounds=3, intervals="robust"),
    pi.AdaSSP(epsilon=2.0, x_bound=4.0, y_bound=5.0, rounds=2, n_public=30, intervals="robust"),
]


@pytest.mark.parametrize("release", ADASSP, ids=["classical", "rounds", "box", "robust", "robust ball, public n"])
def test_every_draw_of_adassp(release):
    """Two worlds, with and without the person: the densities of all draws around the sums of each, with 60 digits."""
    X, y = table(30)
    X[0], y[0] = 9.0, -20.0  # beyond the bounds: clipped
    model = clone(release).fit(X, y)
    found = pi.audit(clone(model), X, y).realised(model, X, y)
    assert found.kind == "exact"
    assert len(model._answers()) == 1 + len(model.moments_) + (release.rounds > 1) + (len(model.column_totals_) > 0) + (
        3 * (len(model.score_) > 0)
    )
    assert len(model.score_) or release.intervals is None
    box = model._box(3)
    run = partial(mechanism.run, model._plan(box))

    def log_of(keep):
        drawn = asked(run, box.rows(X[keep], y[keep]), model._answers())
        return mp.fsum(log_normal(values, sums.center, sums.scale) for values, sums in drawn)

    whole = log_of(np.ones(30, dtype=bool))
    for i in (0, 7, 28):
        truth = whole - log_of(np.arange(30) != i)
        assert abs(found.losses[i] - truth) <= found.errors[i] <= 1e-6


ADAOPS = [
    pi.AdaOPS(epsilon=2.0, x_bound=4.0, y_bound=5.0, fit_intercept=False),
    pi.AdaOPS(epsilon=2.0, x_bound=4.0, y_bound=5.0, n_public=1000),
    pi.AdaOPS(epsilon=2.0, x_bound=[4.0, (-3.5, 4.0), 4.0], y_bound=(-6.0, 6.0), kappa=5.0),
]


def adaops_density(model, box, X, y):
    """Write down, with 60 digits, the density of everything that AdaOPS drew, from these rows."""
    units, spent, at = box.rows(X, y), plan(model._request(box)), model._coordinates(box)
    rows = at.rows(units)
    Z, t = mp.matrix(rows.X.tolist()), mp.matrix(rows.y.tolist())
    first = asked(partial(mechanism.run, spent.first), units, model._answers())
    total = mp.fsum(log_normal(values, sums.center, sums.scale) for values, sums in first)
    G = Z.T * Z
    H = G + mp.mpf(model.lambda_) * mp.eye(Z.cols)
    theta = mp.lu_solve(H, Z.T * t)
    size = mp.sqrt(mp.fsum(v * v for v in theta))
    drawn = [(model.eigenvalue_, min(mp.eigsy(G, eigvals_only=True)), spent.eigenvalue_at(at.x_bound).scale)]
    if spent.count is not None:
        drawn.append((model.count_, mp.mpf(len(y)), spent.count.scale))
    if model.log_size_ is not None:
        drawn.append((model.log_size_, mp.log(1 + mp.mpf(at.x_bound) * size), spent.size_at(model._floor).scale))
    gap = mp.matrix([mp.mpf(float(v)) for v in model._drawn]) - theta
    total += mp.log(mp.det(H)) / 2 - mp.mpf(model.gamma_) * (gap.T * H * gap)[0] / 2
    return total + log_normal(*zip(*drawn, strict=True))


@pytest.mark.parametrize("release", ADAOPS, ids=["noisy n", "public n", "box"])
def test_every_draw_of_adaops(release):
    X, y = table(14)
    X[0], y[0] = 9.0, -20.0  # beyond the bounds: clipped
    X[1, 1] = np.nan  # as if they were not there
    model = clone(release).fit(X, y)
    box = model._box(3)
    found = release.log_ratios(ArraySweep(X, y), model)
    whole = adaops_density(model, box, X, y)
    for i in (0, 1, 9):
        truth = whole - adaops_density(model, box, np.delete(X, i, 0), np.delete(y, i))
        assert abs(found.value[i] - truth) <= found.error[i] <= 1e-6
    audit = pi.audit(clone(release), X[2:], y[2:])
    assert audit.realised(clone(release).fit(X[2:], y[2:]), X[2:], y[2:]).kind == "exact"


DESCENTS = [
    pi.NoisyDescent(Ridge(alpha=0.5), steps=4, learning_rate=0.02, clip=1.5, noise=3.0, rate=1.0, publish="all"),
    pi.NoisyDescent(LogisticRegression(), steps=4, learning_rate=0.1, clip=0.8, noise=2.0, rate=1.0, publish="all"),
    pi.NoisyDescent(
        Ridge(alpha=0.5), steps=5, learning_rate=0.02, clip=1.5, noise=3.0, rate=1.0, publish="all", filter=(4.0, 0.5)
    ),
    pi.NoisyDescent(Ridge(alpha=0.5), steps=4, learning_rate=0.02, clip=None, noise=3.0, rate=1.0, publish="all"),
]


@pytest.mark.parametrize("release", DESCENTS, ids=["ridge", "logistic", "filter", "no clip"])
def test_the_path_of_a_descent(release):
    """Replay each step plainly: the sums of clipped gradients with and without, and the noise between them."""
    X, y = table(10)
    y = np.where(y > 0, 1, 0) if isinstance(release.estimator, LogisticRegression) else y
    model = clone(release).fit(X, y)
    found = pi.audit(release, X, y).realised(model, X, y)
    assert found.kind == "exact"
    Z = np.column_stack([X, np.ones(10)])
    clips = OwnClips(SummedGradients(objective_of(release.problem()), X, y), release.declared_steps())
    losses = np.zeros(10)
    for t in range(release.steps):
        theta, then = model.path_[t], model.path_[t + 1]
        eta = Z @ theta
        slope = 1 / (1 + np.exp(-eta)) - y if isinstance(release.estimator, LogisticRegression) else eta - y
        g = slope[:, None] * Z
        if release.clip is not None:
            own = clips.at(t, theta)  # under a filter their own, zero for whoever is spent
            g = g * np.minimum(1.0, own / np.maximum(np.linalg.norm(g, axis=1), 1e-300))[:, None]
        alpha = 1.0 if isinstance(release.estimator, LogisticRegression) else 0.5
        penalty = alpha * np.append(theta[:-1], 0.0)
        drawn = (theta - then) / release.learning_rate - penalty
        whole = ((drawn - g.sum(axis=0)) ** 2).sum()
        for i in range(10):
            losses[i] += (((drawn - g.sum(axis=0) + g[i]) ** 2).sum() - whole) / (2 * release.noise**2)
    assert found.losses == pytest.approx(losses, abs=1e-7)


def test_the_last_iterate_without_a_clip():
    """Two Gaussians written down with 60 digits, step by step."""
    X, y = table(8)
    release = pi.NoisyDescent(Ridge(alpha=0.5), steps=6, learning_rate=0.02, clip=None, noise=3.0, publish="last")
    model = clone(release).fit(X, y)
    found = pi.audit(release, X, y).realised(model, X, y)
    o = mp.matrix([mp.mpf(float(v)) for v in (*model.coef_, model.intercept_)])

    def log_of(keep):
        Z = mp.matrix(np.column_stack([X, np.ones(8)])[keep])
        H, b = Z.T * Z + mp.diag([mp.mpf(0.5)] * 3 + [mp.mpf(0)]), Z.T * mp.matrix(y[keep])
        eta = mp.mpf(0.02)
        mean, cov, M = mp.zeros(4, 1), mp.zeros(4), mp.eye(4) - eta * H
        for _ in range(6):
            mean, cov = M * mean + eta * b, M * cov * M.T + (eta * 3) ** 2 * mp.eye(4)
        gap = o - mean
        return -mp.log(mp.det(cov)) / 2 - (gap.T * mp.lu_solve(cov, gap))[0] / 2

    everybody = np.arange(8)
    whole = log_of(everybody)
    for i in (0, 3, 7):
        truth = whole - log_of(np.delete(everybody, i))
        assert abs(found.losses[i] - truth) <= found.errors[i] <= 1e-6


def test_a_coarse_grid_is_part_of_the_error():
    """The published number is a cell: its two probabilities are integrals, and their ratio lies within the error."""
    X, y = np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 2.5, 2.0])
    release = pi.PosteriorSample(alpha=1.0, gamma=1.0, grid=0.25)
    audit = pi.audit(release, X, y)
    for value in (-0.5, 0.75, 1.5):
        found = audit.realised([value], X, y)
        for i in range(3):
            logs = []
            for keep in (slice(None), np.arange(3) != i):
                H = mp.mpf(float((X[keep] ** 2).sum() + 1))
                m, s = mp.mpf(float(X[keep, 0] @ y[keep])) / H, 1 / mp.sqrt(H)
                logs.append(mp.log(mp.ncdf((value + 0.125 - m) / s) - mp.ncdf((value - 0.125 - m) / s)))
            assert abs(found.losses[i] - (logs[0] - logs[1])) <= found.errors[i]
        assert found.kind == "estimate"  # such a cell is too wide to call anything exact
    assert audit.realised([0.3], X, y).kind == "exact"  # no grid point: the density itself


def test_smooth_models_are_estimates():
    X, y = table(40)
    y = (y > 0).astype(int)
    release = pi.OutputPerturbation(LogisticRegression(C=1.0), scale=0.5)
    model = clone(release).fit(X, y)
    found = pi.audit(release, X, y).realised(model, X, y)
    o = np.array([*model.coef_[0], *model.intercept_])
    fits = [LogisticRegression(C=1.0, tol=1e-12, max_iter=10**4).fit(X[k], y[k]) for k in (slice(None), slice(1, None))]
    gaps = [np.sum((o - np.array([*f.coef_[0], *f.intercept_])) ** 2) / 0.5 for f in fits]
    assert found.losses[0] == pytest.approx((gaps[1] - gaps[0]), abs=1e-5)
    assert found.kind == "estimate"
    penalised = pi.ObjectivePerturbation(LogisticRegression(fit_intercept=False), scale=2.0)
    ours = pi.audit(penalised, X, y).realised([0.1, 0.2, 0.3], X, y)
    assert np.allclose(ours.losses, -penalised.ex_post(X, y, [0.1, 0.2, 0.3])) and ours.kind == "estimate"


def test_releases_add_up():
    X, y = table()
    audits = [pi.audit(r, X, y) for r in LINEAR[:3]]
    parts = [a.realised(clone(a.release).fit(X, y), X, y) for a in audits]
    total = sum(parts)
    assert np.allclose(total.losses, sum(p.losses for p in parts)) and total.releases == 3
    assert (total.errors >= sum(p.errors for p in parts)).all() and total.kind == "exact"
    with pytest.raises(InvalidInput, match="same people"):
        parts[0] + pi.audit(LINEAR[0], X[1:], y[1:]).realised([0.0] * 4, X[1:], y[1:])
    assert np.allclose(parts[0].odds(0.5), np.exp(parts[0].losses))


def test_somebody_who_alone_determines_a_direction():
    X, y = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), np.ones(3)
    release = pi.OutputPerturbation(Ridge(alpha=0.0, fit_intercept=False), scale=1.0)
    found = pi.audit(release, X, y).realised([0.5, 0.5], X, y)
    assert found.losses[2] == np.inf and np.isfinite(found.losses[:2]).all() and found.kind == "exact"
    rows, targets, ids = np.vstack([X, X[2:], X[:1]]), np.ones(5), list("abccd")
    found = pi.audit(release, rows, targets, ids=ids).realised([0.5, 0.5], rows, targets, ids=ids)
    assert found.losses[2] == np.inf and np.isfinite(np.delete(found.losses, 2)).all()
    one = pi.NoisyMean(scale=1.0)
    assert pi.audit(one, X[:1]).realised([0.0, 0.0], X[:1]).losses[0] == np.inf


def test_hostile_columns_keep_their_digits():
    X, y = table(20)
    X[:, 1] = X[:, 0] * (1 + 1e-9) + 1e-7 * X[:, 1]
    X[:, 2] *= 1e6
    release = pi.PosteriorSample(alpha=1e-12, gamma=1.0)
    model = clone(release).fit(X, y)
    found = pi.audit(release, X, y).realised(model, X, y)
    whole = log_density(release, X, y, model.coef_)
    for i in range(0, 20, 6):
        truth = whole - log_density(release, np.delete(X, i, 0), np.delete(y, i), model.coef_)
        assert abs(found.losses[i] - truth) <= found.errors[i] + 1e-20


def test_what_is_refused():
    X, y = table()
    audit = pi.audit(LINEAR[0], X, y)
    outside, other = pi.audit(LINEAR[0], X, y, outsiders=(X[:2], y[:2])), clone(LINEAR[0]).set_params(gamma=0.8)
    for ask, why in (
        (lambda: audit.realised(other.fit(X, y), X, y), "other declared parameters"),
        (lambda: audit.realised([1.0, 2.0], X, y), "4 numbers"),
        (lambda: audit.realised([1.0, np.nan, 0.0, 0.0], X, y), "finite"),
        (lambda: audit.realised([0.0] * 4, X[1:], y[1:]), "audited table"),
        (lambda: outside.realised([0.0] * 4, X, y), "outsiders"),
        (lambda: audit.realised([0.0] * 4, X, y, outsiders=(X[:2], y[:2])), "outsiders"),
        (lambda: pi.audit(ADASSP[0], X, y).realised([0.0] * 3, X, y), "fitted release"),
        (lambda: pi.audit(ADAOPS[1], X, y).realised([0.0] * 3, X, y), "fitted release"),
    ):
        with pytest.raises(InvalidInput, match=why):
            ask()
    ids = [*"aabcdefghijk"]
    several = pi.audit(pi.OutputPerturbation(LogisticRegression()), X, y > 0, ids=ids)
    with pytest.raises(RefusedModel, match="several rows is known of"):
        several.realised([0.0] * 4, X, y > 0, ids=ids)
    with pytest.raises(RefusedModel, match="outsiders"):
        ADAOPS[0].log_ratios(ArraySweep(X, y), None, ArraySweep(X, y))
    for descent, why in (
        (pi.NoisyDescent(Ridge(), steps=3, clip=1.0, noise=2.0, rate=0.5, publish="all"), "mixture"),
        (pi.NoisyDescent(Ridge(), steps=3, clip=1.0, noise=2.0, rate=1.0, publish="last"), "no density"),
    ):
        with pytest.raises(RefusedModel, match=why):
            descent.log_ratios(ArraySweep(X, y), clone(descent).fit(X, y))


def test_a_published_file_is_an_output_and_nothing_shows_in_a_repr(tmp_path):
    X, y = table()
    model = clone(LINEAR[0]).fit(X, y)
    (tmp_path / "model.json").write_text(model.to_json())
    audit = pi.audit(LINEAR[0], pd.DataFrame(X), pd.Series(y))
    found = audit.realised(model, pd.DataFrame(X), pd.Series(y))
    read = pi.load_model(tmp_path / "model.json")
    assert np.array_equal(audit.realised(read, X, y).losses, found.losses)
    assert repr(found) == "Realised(12 people, confidential)"
    frame = found.to_frame()
    assert list(frame) == ["log_ratio", "error", "kind"] and np.array_equal(frame["log_ratio"], found.losses)
