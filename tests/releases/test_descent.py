"""Noisy gradient descent: every number by a second, slow road."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.pairs import GaussianShift, SampledGaussian
from perinstance.releases.descent import step_losses
from perinstance.releases.descent.clipped_steps import clipped, poisson_sample
from perinstance.releases.descent.step_losses import LEVELS, counted, counted_steps, levels_of
from perinstance.sampling import ExactDescent, ExactGram
from perinstance.sampling.random_bits import SystemBits, variate

from .catalogue import CLASSES, X, Y

PLAIN = Ridge(alpha=1.0, fit_intercept=False)


# The promise


def test_two_sampled_steps_by_quadrature():
    """A sum over a million cells of the two steps' noise, each as it is at its middle."""
    q, m, epsilon, cells = 0.3, 0.7, 0.5, 1000
    x = -7.0 + 14.0 / cells * (np.arange(cells) + 0.5)
    mass = stats.norm.pdf(x) * 14.0 / cells
    ratio = 1 - q + q * np.exp(m * x - m * m / 2)
    both = np.outer(ratio, ratio)
    with_over_without = mass @ np.maximum(both - math.exp(epsilon), 0.0) @ mass
    without_over_with = mass @ np.maximum(1 - math.exp(epsilon) * both, 0.0) @ mass
    promise = pi.NoisyDescent(steps=2, clip=m, noise=1.0, rate=q).promise()
    assert promise.delta(epsilon) == pytest.approx(max(with_over_without, without_over_with), rel=1e-4)


@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_noise_is_the_smallest_that_keeps_the_promise(rate):
    release = pi.NoisyDescent(steps=60, clip=3.0, rate=rate, epsilon=1.5, delta=1e-5)
    noise = release.mechanism().scale
    assert release.promise().epsilon(1e-5) <= 1.5
    assert pi.NoisyDescent(steps=60, clip=3.0, rate=rate, noise=noise * (1 - 1e-6)).promise().epsilon(1e-5) > 1.5


LOSSES = {
    "bent": lambda m: math.expm1(5.0 * m),
    "far": lambda m: 1e-3 * m,
    "a jump to infinity": lambda m: 0.0 if m < 0.31 else math.inf,
    "no number": lambda m: 0.0 if m < 0.31 else math.nan,
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_search_for_the_noise_ends_where_bisection_would(name, monkeypatch):
    loss, asked = LOSSES[name], []

    def one_person(rate, distance, steps):
        asked.append(distance)
        return SimpleNamespace(epsilon=lambda delta: np.array([loss(distance)]))

    monkeypatch.setattr(step_losses, "equal_steps", one_person)
    found = step_losses.largest_distance.__wrapped__(0.5, 8, 2.0, 1e-6)
    assert loss(found) <= 2.0 and not loss(found * (1 + 2.1 * step_losses.NOISE_STEP)) <= 2.0
    bracketing = 2 + abs(math.log2(found))
    assert len(asked) <= bracketing + 70
    assert name != "bent" or len(asked) < 14  # each may take seconds


@pytest.mark.parametrize(("steps", "epsilon", "delta"), [(1, 0.1, 0.3), (7, 40.0, 1e-12)])
def test_the_noise_is_the_largest_distance_at_rate_one(steps, epsilon, delta):
    found = step_losses.largest_distance(1.0, steps, epsilon, delta) * math.sqrt(steps)
    assert GaussianShift(found).epsilon(delta)[0] <= epsilon < GaussianShift(found * (1 + 4e-9)).epsilon(delta)[0]


# Steps


WILD = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.floats(-2, 2))


@given(st.lists(st.lists(WILD, min_size=3, max_size=3), min_size=1, max_size=4), st.floats(1e-3, 1e3))
@settings(max_examples=60)
def test_no_clipped_gradient_is_longer_than_the_clip(rows, clip):
    for row in clipped(np.array(rows), clip):
        assert sum(Fraction(v) ** 2 for v in row.tolist()) <= Fraction(clip) ** 2


def slow_descent(X, y, slope, clip, eta, alpha, steps):
    theta = np.zeros(X.shape[1])
    for _ in range(steps):
        total = np.zeros(X.shape[1])
        for x, t in zip(X, y, strict=True):
            g = slope(t, x @ theta) * x
            total += g * min(1.0, clip / max(np.linalg.norm(g), 1e-30))
        theta = theta - eta * (total + alpha * theta)
    return theta


def test_with_hardly_any_noise_it_is_clipped_gradient_descent():
    release = pi.NoisyDescent(PLAIN, steps=12, learning_rate=0.05, clip=0.1, noise=2.0**-36)
    slow = slow_descent(X, Y, lambda y, eta: eta - y, 0.1, 0.05, 1.0, 12)
    assert release.fit(X, Y).coef_ == pytest.approx(slow, abs=1e-8)
    release = pi.NoisyDescent(LogisticRegression(fit_intercept=False), steps=12, clip=0.1, noise=2.0**-36)
    slow = slow_descent(X, CLASSES, lambda y, eta: 1 / (1 + np.exp(-eta)) - y, 0.1, 0.01, 1.0, 12)
    assert release.fit(X, CLASSES).coef_[0] == pytest.approx(slow, abs=1e-8)


def test_samples_are_poisson():
    picked = poisson_sample(200_000, 0.25)
    assert abs(picked.mean() - 0.25) < 6 * math.sqrt(0.25 * 0.75 / 200_000)
    assert poisson_sample(5, 1.0).all()


def test_missing_rows_do_not_stop_a_promised_release():
    wild = np.array([[np.nan, 1.0, 2.0], [np.inf, 0.0, 1.0], [1e308, 1e308, -1e308]])
    release = pi.NoisyDescent(steps=3, noise=1.0)
    fitted = release.fit(np.concatenate([X, wild]), np.concatenate([Y, [1.0, 1.0, np.nan]]))
    assert np.isfinite(fitted.coef_).all() and fitted.privacy_ == release.promise()
    assert np.isfinite(clone(release).fit(np.empty((0, 3)), np.empty(0)).coef_).all()


def test_the_path_is_published_if_asked_for_only():
    release = pi.NoisyDescent(steps=4, noise=1.0, publish="all").fit(X, Y)
    assert release.path_.shape == (5, 4)
    assert np.append(release.coef_, release.intercept_) == pytest.approx(release.path_[-1], abs=2.0**-40)
    assert not hasattr(release.set_params(publish="last").fit(X, Y), "path_")


# Own rows and readings


def test_own_row_bounds_hold_at_any_theta_and_in_any_table():
    release = pi.NoisyDescent(LogisticRegression(), steps=9, clip=1.1, noise=2.0)
    rows = np.concatenate([X, 4 * X])
    audit = pi.audit(release, rows, np.tile(CLASSES, 2))
    assert set(audit.kind) == {"upper"}
    length = np.minimum(np.sqrt((rows**2).sum(axis=1) + 1), 1.1)
    assert audit.losses == pytest.approx(GaussianShift(length / 2.0 * 3.0).epsilon(1e-6), rel=1e-9)
    assert (audit.losses >= GaussianShift(length / 2.0 * 3.0).epsilon(1e-6)).all()
    alone = pi.audit(release, rows[:7], np.tile(CLASSES, 2)[:7])  # the others do not matter
    assert (alone.losses == audit.losses[:7]).all()


def test_a_reading_is_the_composition_of_the_lengths_along_the_path():
    release = pi.NoisyDescent(LogisticRegression(), steps=6, clip=0.6, noise=2.0, publish="all").fit(X, CLASSES)
    audit = pi.audit(release, X, CLASSES, method="estimate")
    square = np.zeros(len(X))
    for theta in release.path_[:-1]:
        p = 1 / (1 + np.exp(-(X @ theta[:3] + theta[3])))
        length = np.abs(p - CLASSES) * np.sqrt((X**2).sum(axis=1) + 1)
        square += (np.minimum(length, 0.6) / 2.0) ** 2
    assert set(audit.kind) == {"estimate"}
    assert audit.losses == pytest.approx(GaussianShift(np.sqrt(square)).epsilon(1e-6), rel=1e-6)
    assert (audit.losses <= pi.audit(release, X, CLASSES).losses).all()


def test_levels_round_up_and_by_little():
    rng = np.random.default_rng(1)
    lengths = rng.uniform(0, 1.3, size=(2, 3))
    counts = np.zeros((2, LEVELS + 1))
    for t in range(3):
        counts[np.arange(2), counted(lengths[:, t], 1.0)] += 1
    levels = levels_of(1.0)
    assert (levels[counted(lengths, 1.0)] >= np.minimum(lengths, 1.0)).all()
    for rate in (1.0, 0.5):
        reading = counted_steps(rate, 2.0, 1.0, counts).epsilon(1e-6)
        true, above = (
            SampledGaussian(rate, np.minimum(s, 1.0) / 2.0).epsilon(1e-6) for s in (lengths, lengths + 1 / 128)
        )
        assert (reading >= true).all() and (reading <= above).all()


# Ridge regression without clipping


def exact_law(H, b, eta, sigma, steps):
    """Mean and covariance of the last iterate by the recursion itself, in 60 digits."""
    p = len(b)
    M = mp.eye(p) - eta * H
    mean, cov = mp.zeros(p, 1), mp.zeros(p)
    for _ in range(steps):
        mean, cov = M * mean + eta * b, M * cov * M.T + (eta * sigma) ** 2 * mp.eye(p)
    return mean, cov


def test_the_last_iterate_has_the_moments_of_the_recursion():
    """In 60 digits: what is stated is above, by the little that the charges take."""
    steps, eta, sigma, i = 9, 0.1, 2.0, 4
    audit = pi.audit(pi.NoisyDescent(PLAIN, steps, eta, None, sigma), X, Y)
    assert set(audit.kind) == {"exact"} and (audit.pairs.excess[:, -1] == 0).all()  # the last coordinate is a charge
    with mp.workdps(60):
        laws = []
        for keep in (np.arange(60) != i, np.ones(60, bool)):
            rows, targets = mp.matrix(X[keep].tolist()), mp.matrix(Y[keep].tolist())
            H, b = rows.T * rows + mp.eye(3), rows.T * targets
            laws += exact_law(H, b, mp.mpf(eta), mp.mpf(sigma), steps)
        mean_p, cov_p, mean_q, cov_q = laws
        W = mp.inverse(mp.cholesky(cov_q))
        ratios, V = mp.eigsy(W * (cov_p - cov_q) * W.T)
        shift = V.T * (W * (mean_p - mean_q))
        for nu, m in zip(ratios, shift, strict=True):
            j = int(np.argmin(np.abs(audit.pairs.excess[i] - float(nu))))
            assert abs(nu) <= abs(audit.pairs.excess[i, j]) <= abs(nu) * (1 + mp.mpf("1e-9"))
            assert abs(m) <= audit.pairs.shift[i, j] <= abs(m) * (1 + mp.mpf("1e-9")) + mp.mpf("1e-15")


def test_one_step_is_a_shift_whether_last_or_all():
    for publish in ("last", "all"):
        audit = pi.audit(pi.NoisyDescent(PLAIN, 1, 0.1, None, 2.0, publish=publish), X, Y)
        assert audit.losses == pytest.approx(
            GaussianShift(np.linalg.norm(X, axis=1) * np.abs(Y) / 2).epsilon(1e-6), rel=1e-8
        )


def test_two_steps_on_a_line_are_all_iterates_by_quadrature():
    x, y, eta, sigma, i, epsilon = X[:10, :1], Y[:10], 0.5, 0.4, 3, 0.15
    pair = pi.audit(pi.NoisyDescent(PLAIN, 2, eta, None, sigma, publish="all"), x, y).pairs[i]
    keep = np.arange(10) != i

    def log_density(first, second, who):
        H, b = (x[who, 0] ** 2).sum() + 1, (x[who, 0] * y[who]).sum()
        one = stats.norm.logpdf(first, eta * b, eta * sigma)
        return one + stats.norm.logpdf(second, first - eta * (H * first - b), eta * sigma)

    everybody = np.ones(10, bool)
    grid = np.linspace(-3, 3, 1201)
    first, second = np.meshgrid(grid, grid)
    p, q = np.exp(log_density(first, second, keep)), np.exp(log_density(first, second, everybody))
    cell = (grid[1] - grid[0]) ** 2
    slow = [np.maximum(a - math.exp(epsilon) * b, 0).sum() * cell for a, b in ((p, q), (q, p))]
    assert pair.delta(epsilon, "without")[0] == pytest.approx(slow[0], rel=1e-4)
    assert pair.delta(epsilon, "with")[0] == pytest.approx(slow[1], rel=1e-4)


def test_small_steps_end_in_a_posterior_sample():
    eta, sigma = 1e-5, 300.0
    release = pi.NoisyDescent(PLAIN, 10**6, eta, None, sigma)
    limit = pi.PosteriorSample(alpha=1.0, gamma=2 / (eta * sigma**2))
    assert pi.audit(release, X, Y).losses == pytest.approx(pi.audit(limit, X, Y).losses, rel=1e-3)


@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("inside", [True, False])
def test_balls_and_floats_agree(every, inside):
    from perinstance.folds.sweep import ArraySweep
    from perinstance.releases.descent import ridge_iterates

    declared = ridge_iterates.RidgeDescent.of(ArraySweep(X, Y), (4, 0.05, 2.0, every), 1.0, True)
    rows, targets = X[:5] * 2, Y[:5]
    enclosed, floats = declared.enclosed(rows, targets, inside), declared.in_floats(rows, targets, inside)
    assert set(enclosed.kinds) == {"exact"} and set(floats.kinds) == {"estimate"}
    assert enclosed.epsilon(1e-6) == pytest.approx(floats.epsilon(1e-6), rel=1e-8)
    assert np.sort(enclosed.excess[:, :-1]) == pytest.approx(np.sort(floats.excess), abs=1e-10)


def test_a_row_of_zeros_loses_nothing_and_a_tiny_row_is_bounded():
    rows = np.vstack([X[:6], np.zeros((1, 3)), np.full((1, 3), 1e-14)])
    audit = pi.audit(pi.NoisyDescent(PLAIN, 5, 0.1, None, 1.0), rows, np.append(Y[:7], 1.0))
    assert audit.losses[6] == 0 and audit.kind[6] == "exact"
    assert audit.losses[7] < 1e-9 and audit.kind[7] == "upper"


def test_a_descent_that_diverges_is_exact_or_says_what_is_wrong():
    audit = pi.audit(pi.NoisyDescent(Ridge(), 20, 0.05, None, 1.0), X[:8], Y[:8])
    assert set(audit.kind) == {"exact"}
    wide = np.random.default_rng(0).normal(size=(40, 20))
    audit = pi.audit(pi.NoisyDescent(PLAIN, 20, 0.01, None, 1.0), wide, Y[:40])
    assert set(audit.kind) == {"estimate"}  # more coefficients than are enclosed
    with pytest.raises(NumericalTrouble, match="learning_rate"):
        pi.audit(pi.NoisyDescent(PLAIN, 60, 1.0, None, 1.0), wide, Y[:40])


@pytest.mark.parametrize("every", [False, True])
def test_the_exact_draw_is_the_recursion_of_its_strings(every):
    gram = ExactGram.of(X[:5], Y[:5])
    ideal = ExactDescent(gram.normal_equations(1.0), 0.25, 1.5, 4, every)
    strings = [SystemBits() for _ in range(ideal.d)]
    with working_precision(128):
        balls = [float(ball.mid()) for ball in ideal.enclose(strings, 128)]
        z = np.array([float(variate("gaussian", bits, 128).mid()) for bits in strings]).reshape(4, 3)
    H, b, theta, path = X[:5].T @ X[:5] + np.eye(3), X[:5].T @ Y[:5], np.zeros(3), []
    for noise in z:
        theta = theta - 0.25 * (H @ theta - b) + 0.25 * 1.5 * noise
        path.append(theta)
    assert balls == pytest.approx(np.concatenate(path) if every else theta, abs=1e-12)


# What is refused


NOISE, CLIP, TERMS = {"noise": None}, {"clip": None}, {"filter": (8, 1.0)}
WRONG = [
    *({"steps": 1.5}, {"learning_rate": 0.0}, {"epsilon": 1.0}, {"rate": 1.1}),
    *({"grid": 0.3}, {"filter": 1.0}, {"filter": (1.0, 1.0)}, {"filter": (8, 0)}, NOISE),
    *({**CLIP, "rate": 0.5}, {**CLIP, "estimator": LogisticRegression()}, {**CLIP, **TERMS}, {**TERMS, "refresh": 0}),
    *({**NOISE, "epsilon": 1.0}, {**NOISE, **CLIP, "epsilon": 1.0, "delta": 1e-6}),
    {**TERMS, **NOISE, "epsilon": 1.0, "delta": 1e-6},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_bad_parameters(wrong):
    with pytest.raises(InvalidInput):
        pi.NoisyDescent(**{"noise": 1.0, **wrong}).fit(X, Y)


def test_models_that_cannot_be_descended_are_refused():
    with pytest.raises(InvalidInput, match="nothing is promised"):
        pi.NoisyDescent(PLAIN, clip=None, noise=1.0).promise()
    assert not pi.NoisyDescent(PLAIN, clip=None, noise=1.0).mechanism().promises
    with pytest.raises(RefusedModel, match="number of people"):
        pi.NoisyDescent(PoissonRegressor(), noise=1.0).mechanism()
    with pytest.raises(NumericalTrouble, match="learning_rate"):
        pi.NoisyDescent(steps=200, learning_rate=1e9, noise=1.0).fit(X, Y)
    with pytest.raises(InvalidInput, match="steps times parameters"):
        pi.audit(pi.NoisyDescent(PLAIN, 500, 0.01, None, 1.0, publish="all"), X, Y)


def test_text_labels_are_classes():
    labels = np.where(CLASSES > 0, "yes", "no")
    declared = pi.NoisyDescent(LogisticRegression(), steps=5, noise=1.0, classes=("no", "yes"))
    model = declared.fit(X, labels)
    assert set(model.predict(X)) <= {"yes", "no"} and model.predict_proba(X).shape == (60, 2)
    with pytest.raises(InvalidInput, match="classes must be declared"):
        pi.NoisyDescent(LogisticRegression(), noise=1.0).fit(X, labels.astype(object))
    with pytest.raises(InvalidInput, match="every row would count as missing"):
        declared.fit(X, CLASSES)
    audit = pi.audit(declared, X, labels, delta=1e-6)
    numbers = pi.audit(pi.NoisyDescent(LogisticRegression(), steps=5, noise=1.0), X, CLASSES, delta=1e-6)
    assert (audit.losses == numbers.losses).all()


def test_readings_and_realised_losses_take_classes_in_their_declared_order():
    """The same gradients as with numbers: the second class is the one that is modelled, whatever the alphabet says."""
    steps = {"steps": 4, "clip": 0.6, "noise": 2.0, "publish": "all"}
    words, codes = np.where(CLASSES > 0, "yes", "no"), 1.0 - CLASSES
    declared = pi.NoisyDescent(LogisticRegression(), classes=("yes", "no"), **steps).fit(X, words)
    numbers = pi.NoisyDescent(LogisticRegression(), **steps).fit(X, codes)
    numbers.path_ = declared.path_
    for method in ("exact", "estimate"):
        ours, theirs = pi.audit(declared, X, words, method=method), pi.audit(numbers, X, codes, method=method)
        np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-12)
    ours = pi.audit(declared, X, words).realised(declared, X, words)
    theirs = pi.audit(numbers, X, codes).realised(numbers, X, codes)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-9)


def test_labels_of_no_declared_class_are_absent():
    """Nothing that labels hold is refused: one class, three classes, none; a third one counts as no gradient."""
    release = pi.NoisyDescent(LogisticRegression(), steps=3, clip=1.0, noise=2.0**-36)
    for labels in (np.zeros(60), np.arange(60) % 3, np.full(60, np.nan), np.full(60, 7.0)):
        assert np.isfinite(release.fit(X, labels).coef_).all()
    third = np.arange(60) % 3
    with_them, without = release.fit(X, third).coef_, release.fit(X[third < 2], third[third < 2]).coef_
    np.testing.assert_allclose(with_them, without, atol=1e-9)


@pytest.mark.parametrize(("one", "intercept"), [(0, True), (1, False)])
def test_a_table_of_one_class_is_audited_as_it_is_published(one, intercept):
    """Whose label is the only one of its kind must not decide whether there is an answer."""
    estimator = LogisticRegression(fit_intercept=intercept)
    steps = {"steps": 4, "clip": 0.6, "noise": 2.0, "publish": "all"}
    labels = np.full(len(X), float(one))
    release = pi.NoisyDescent(estimator, **steps).fit(X, labels)
    bound = pi.audit(release, X, labels, delta=1e-6)
    assert bound.pairs.kind == "upper" and (bound.losses == pi.audit(release, X, CLASSES, delta=1e-6).losses).all()
    assert np.isfinite(bound.leverage).all() and np.isfinite(bound.residual).all()
    read = pi.audit(release, X, labels, delta=1e-6, method="estimate")
    rows = np.hstack([X, np.ones((len(X), int(intercept)))])
    slopes = [1.0 / (1.0 + np.exp(-rows @ theta)) - labels for theta in release.path_[:-1]]
    lengths = np.minimum(np.abs(slopes) * np.linalg.norm(rows, axis=1), 0.6)
    distance = np.sqrt(np.square(lengths).sum(axis=0)) / 2.0
    np.testing.assert_allclose(read.losses, pi.pairs.GaussianShift(distance).epsilon(1e-6), rtol=1e-9)
    told = bound.realised(release, X, labels)
    assert np.isfinite(told.losses).all()
    words = pi.NoisyDescent(estimator, classes=("no", "yes"), **steps)
    answers = np.array(["no", "yes"])[labels.astype(int)]
    assert (pi.audit(words, X, answers, delta=1e-6).losses == bound.losses).all()
