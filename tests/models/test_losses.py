"""Every property over every loss of the catalogue; extremes against mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from scipy.stats import nbinom

from perinstance.errors import InvalidInput
from perinstance.models.losses.catalogue import CATALOGUE, Huber, Logistic, NegativeBinomial, Poisson, SmoothHinge
from perinstance.models.softmax import probability_change

from .dumb import FORMULAS

SMOOTH = [name for name, loss in CATALOGUE.items() if np.isfinite(loss.concordance)]
KINKED = [name for name in CATALOGUE if name not in SMOOTH]
everyone = pytest.mark.parametrize("name", CATALOGUE)


def target(name: str, u: float) -> float:
    """A target in the loss's domain from a number in (0, 1)."""
    domain = CATALOGUE[name].targets
    if domain.binary:
        return float(u > 0.5)
    if domain.lowest == 0:
        return 5 * u + 1e-3 if domain.open else float(int(8 * u))
    return 6 * u - 3


def points(test):
    """An argument, a place in the domain of targets and a radius: fifty for each loss."""
    return settings(max_examples=50)(given(st.floats(-6, 6), st.floats(0.001, 0.999), st.floats(1e-3, 3))(test))


def test_catalogue_is_covered_by_the_dumb_formulas():
    assert set(FORMULAS) == set(CATALOGUE)


@everyone
@points
def test_value_slope_curvature_agree_with_the_formulas(name, eta, u, t):
    y, e = np.array([target(name, u)]), np.array([eta])
    value, slope, curvature = FORMULAS[name](y, e)
    loss = CATALOGUE[name]
    assert loss.value(y, e) == pytest.approx(value, rel=1e-11, abs=1e-13)
    assert loss.slope(y, e) == pytest.approx(slope, rel=1e-12, abs=1e-14)
    assert loss.curvature(y, e) == pytest.approx(curvature, rel=1e-12, abs=1e-14)


@everyone
@points
def test_slope_change_is_a_difference_of_slopes(name, eta, u, t):
    loss, y, e = CATALOGUE[name], np.array([target(name, u)]), np.array([eta])
    for step in (t, -t):
        expected = loss.slope(y, e + step) - loss.slope(y, e)
        scale = 1e-13 * (1 + abs(loss.slope(y, e))[0] + abs(loss.slope(y, e + step))[0])
        assert loss.slope_change(y, e, np.array([step])) == pytest.approx(expected, rel=1e-10, abs=scale)


@given(st.floats(-800, 800), st.floats(-1600, 1600))
def test_slope_change_of_a_row_that_is_far_out_keeps_its_digits(eta, step):
    for eta_, step_ in ((eta, step), (eta / 20, step / 20)):
        with mpmath.workdps(800):
            there, here = (1 / (1 + mpmath.exp(-v)) for v in (mpmath.mpf(eta_) + mpmath.mpf(step_), mpmath.mpf(eta_)))
            expected = float(there - here)
        for other in (0.0, 3000.0):  # what else is in the batch decides which formula is taken
            found = Logistic().slope_change(np.ones(2), np.array([eta_, 0.0]), np.array([step_, other]))[0]
            assert found == pytest.approx(expected, rel=1e-12 * (1 + abs(eta_) + abs(step_)), abs=1e-280)


@given(st.lists(st.floats(-60, 60), min_size=6, max_size=6))
def test_probabilities_that_change_places_keep_their_digits(numbers):
    eta, step = np.array(numbers[:3]), np.array(numbers[3:])
    found = probability_change(softmax(eta), step)
    with mpmath.workdps(200):
        here, there = (
            [mpmath.exp(mpmath.mpf(v)) for v in eta],
            [mpmath.exp(mpmath.mpf(v) + w) for v, w in zip(eta, step, strict=True)],
        )
        expected = [float(b / sum(there) - a / sum(here)) for a, b in zip(here, there, strict=True)]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("name", SMOOTH)
@points
def test_third_derivative_is_bounded_by_concordance_and_twist(name, eta, u, t):
    loss, y = CATALOGUE[name], np.array([target(name, u)])
    at = np.linspace(eta - t, eta + t, 41)
    h = 1e-6
    third = (loss.curvature(y, at + h) - loss.curvature(y, at - h)) / (2 * h)
    curvature = loss.curvature(y, at)
    noise = 1e-8 * (1 + curvature)
    assert (abs(third) <= loss.concordance * curvature * (1 + 1e-5) + noise).all()
    assert (abs(third) <= loss.largest_third(y, np.array([eta]), np.array([t])) * (1 + 1e-5) + noise).all()


@everyone
@points
def test_largest_slope_and_curvature_within_a_radius(name, eta, u, t):
    loss, y, e, r = CATALOGUE[name], np.array([target(name, u)]), np.array([eta]), np.array([t])
    slope, curvature = loss.derivatives(y, np.linspace(eta - t, eta + t, 201))
    assert np.abs(slope).max() == pytest.approx(loss.largest_slope(y, e, r)[0], rel=1e-12)
    assert (curvature <= loss.largest_curvature(y, e, r) * (1 + 1e-12)).all()
    last_digit = 1 + 1e-15  # p (1 - p) next to p = 1/2 may be rounded above 1/4
    assert (np.abs(slope) <= loss.slope_supremum * last_digit).all()
    assert (curvature <= loss.curvature_supremum * last_digit).all()
    far = np.array([np.inf])
    assert loss.largest_slope(y, e, far)[0] == loss.slope_supremum
    assert curvature.max() <= loss.largest_curvature(y, e, far)[0] * last_digit
    assert loss.largest_curvature(y, e, far)[0] <= loss.curvature_supremum
    if loss.slope_keeps_sign:
        assert (slope >= 0).all() or (slope <= 0).all()
    if loss.predicts_probabilities:
        mean = loss.mean(e)
        assert 0 <= mean[0] <= 1 and loss.slope(y, e) == pytest.approx(mean - y, abs=1e-15)


@everyone
def test_suprema_are_no_larger_than_they_must_be(name):
    loss, y = CATALOGUE[name], np.array([target(name, 0.7)])
    slope, curvature = loss.derivatives(y, np.linspace(-60.0, 60.0, 120_001))
    if np.isfinite(loss.slope_supremum):
        assert np.abs(slope).max() == pytest.approx(loss.slope_supremum, rel=1e-3)
    if np.isfinite(loss.curvature_supremum):
        assert curvature.max() == pytest.approx(loss.curvature_supremum, rel=1e-3)


@everyone
def test_the_domain_is_checked(name):
    loss = CATALOGUE[name]
    loss.check(np.array([target(name, u) for u in (0.01, 0.4, 0.99)]))
    outside = [np.nan, np.inf, -np.inf]
    if loss.targets.lowest > -np.inf:
        outside.append(loss.targets.lowest - 1.0)
    for bad in outside:
        with pytest.raises(InvalidInput, match="row 1 of the block"):
            loss.check(np.array([target(name, 0.99), bad]))


@everyone
@points
def test_mean_curvature_stays_between_drop_and_rise(name, eta, u, t):
    loss, y, e = CATALOGUE[name], np.array([target(name, u)]), np.array([eta])
    drop = float(loss.curvature_drop(y, e, np.array([t]))[0])
    rise = float(loss.curvature_rise(y, e, np.array([t]))[0])
    here = float(loss.curvature(y, e)[0])
    for share in (-1.0, -0.3, 0.5, 1.0):
        mean = float(loss.slope_change(y, e, np.array([share * t]))[0]) / (share * t)  # the mean of l'' on the way
        assert here - drop <= mean + 1e-9 * (1 + here)
        assert mean <= here + rise + 1e-9 * (1 + here + rise)


@pytest.mark.parametrize("name", KINKED)
@points
def test_the_curvature_jumps_at_the_knot_and_not_before(name, eta, u, t):
    loss, y = CATALOGUE[name], np.array([target(name, u)])
    distance, here = loss.knot_distance(y, np.array([eta])), loss.curvature(y, np.array([eta]))
    jumps = []
    for sign in (-1, 1):
        assert loss.curvature(y, eta + sign * (1 - 1e-9) * distance - sign * 1e-12) == here or distance < 1e-9
        jumps.append(float(loss.curvature(y, eta + sign * (distance + 1e-9))[0] - here[0]))
    assert max(map(abs, jumps)) == 1.0


# mp.dps = 40; l' = -1/(1+e^m) and l'' = p(1-p) at eta, y = 1; l = log(1 + e^-eta)
@pytest.mark.parametrize("eta", [-745.0, -40.0, -1e-8, 0.0, 1e-8, 36.8, 300.0, 700.0])
def test_logistic_extremes(eta):
    with mpmath.workdps(60):
        e = mpmath.mpf(eta)
        value, slope = mpmath.log1p(mpmath.exp(-e)), -1 / (1 + mpmath.exp(e))
        curvature = mpmath.exp(e) / (1 + mpmath.exp(e)) ** 2
    loss, y, at = Logistic(), np.array([1.0]), np.array([eta])
    assert float(loss.slope(y, at)[0]) == pytest.approx(float(slope), rel=1e-14, abs=1e-320)
    assert float(loss.curvature(y, at)[0]) == pytest.approx(float(curvature), rel=1e-14, abs=1e-320)
    assert float(loss.value(y, at)[0]) == pytest.approx(float(value), rel=1e-13, abs=1e-15)
    change = float(loss.slope_change(y, at, np.array([1e-9]))[0])
    with mpmath.workdps(60):
        moved = -1 / (1 + mpmath.exp(e + mpmath.mpf(1e-9))) + 1 / (1 + mpmath.exp(e))
    assert change == pytest.approx(float(moved), rel=1e-12, abs=1e-320)


@pytest.mark.parametrize("u", [-600.0, -30.0, -5.0, -1e-3, 0.0, 1e-3, 5.0, 30.0, 600.0])
def test_smooth_hinge_extremes(u):
    loss = SmoothHinge(0.25)
    with mpmath.workdps(40):
        expected = mpmath.mpf(0.25) ** 2 * -mpmath.polylog(2, -mpmath.exp(mpmath.mpf(u)))
    found = float(loss.value(np.array([1.0]), np.array([1 - 0.25 * u]))[0])
    assert found == pytest.approx(float(mpmath.re(expected)), rel=1e-12, abs=1e-280)


@pytest.mark.parametrize("dispersion", [1e-6, 0.6, 50.0])
@pytest.mark.parametrize("eta", [-745.0, -40.0, -1e-8, 0.0, 1e-8, 36.8, 300.0, 800.0])
def test_negative_binomial_extremes(dispersion, eta):
    loss = NegativeBinomial(dispersion)
    for y in (0.0, 1.0, 7.0):
        with mpmath.workdps(800):
            mu, a = mpmath.exp(mpmath.mpf(eta)), mpmath.mpf(dispersion)
            slope, curvature = (mu - y) / (1 + a * mu), mu * (1 + a * y) / (1 + a * mu) ** 2
        l1, l2 = loss.derivatives(np.array([y]), np.array([eta]))
        assert l1[0] == pytest.approx(float(slope), rel=1e-14, abs=1e-15 * y)
        assert l2[0] == pytest.approx(float(curvature), rel=1e-13, abs=1e-310)


def test_the_negative_binomial_value_is_the_negative_log_likelihood_up_to_a_constant():
    y, eta = np.array([3.0, 3.0, 3.0]), np.array([-1.0, 0.5, 2.0])
    p = 1 / (1 + 0.6 * np.exp(eta))
    difference = NegativeBinomial(0.6).value(y, eta) + nbinom.logpmf(y, 1 / 0.6, p)
    assert difference == pytest.approx(np.full(3, difference[0]), abs=1e-12)


def test_targets_outside_the_domain_are_refused():
    with pytest.raises(InvalidInput, match="0 or 1"):
        Logistic().check(np.array([0.0, 2.0]))
    with pytest.raises(InvalidInput, match="row 1"):
        Poisson().check(np.array([0.0, -1.0]))
    with pytest.raises(InvalidInput, match="> 0"):
        CATALOGUE["gamma"].check(np.array([0.0]))
    with pytest.raises(InvalidInput, match="finite"):
        CATALOGUE["squared"].check(np.array([np.nan]))
    with pytest.raises(InvalidInput, match="width"):
        Huber(0.0)
    with pytest.raises(InvalidInput, match="dispersion"):
        NegativeBinomial(0.0)
