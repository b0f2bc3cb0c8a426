"""Pairs in other tools, and the regulator's summary: the numbers are the same there, within what is stated."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import perinstance as pi
from perinstance.disclosure import (
    from_dp_event,
    from_pld,
    from_profile,
    profile,
    regulator_summary,
    summary_schema,
    to_dp_event,
    to_pld,
)
from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift, LaplaceShift, ObjectivePair, PosteriorSamplePair

accounting = pytest.importorskip("dp_accounting")

PAIRS = [
    GaussianShift([0.7]),
    LaplaceShift([0.4]),
    PosteriorSamplePair([0.1], [1.5]),
    GaussianShift([0.3]) + LaplaceShift([0.5]) + PosteriorSamplePair([0.05], [0.4]),
]


@pytest.mark.parametrize("pairs", PAIRS, ids=lambda p: type(p).__name__)
def test_a_pld_is_pessimistic_and_tight(pairs):
    interval = 1e-2
    pld = to_pld(pairs, interval)
    for epsilon in (0.0, 0.5, 1.0, 1.503, 2.0):
        truth, there = float(pairs.delta(epsilon)[0]), pld.get_delta_for_epsilon(epsilon)
        step = float(pairs.delta(epsilon - interval)[0]) - float(pairs.delta(epsilon + interval)[0])
        assert truth * (1 - 1e-9) - 1e-14 <= there <= truth + step + 1e-12
        if epsilon in (0.5, 1.0, 2.0):  # a multiple of the interval: the same number
            assert there == pytest.approx(truth, rel=1e-6, abs=1e-12)
    assert pld.get_epsilon_for_delta(1e-5) == pytest.approx(float(pairs.epsilon(1e-5)[0]), abs=2 * interval)


def test_events_there_and_back():
    pairs = GaussianShift([0.3]) + LaplaceShift([0.5])
    back = from_dp_event(to_dp_event(pairs))
    a, b = float(pairs.epsilon(1e-6)[0]), float(back.epsilon(1e-6)[0])
    assert a <= b * (1 + 1e-12) and b == pytest.approx(a, rel=1e-9)
    many = accounting.SelfComposedDpEvent(accounting.GaussianDpEvent(10.0), 25)
    assert from_dp_event(many).epsilon(1e-6)[0] == pytest.approx(GaussianShift([0.5]).epsilon(1e-6)[0], rel=1e-9)
    assert isinstance(to_dp_event(GaussianShift([0.0])), accounting.NoOpDpEvent)
    assert isinstance(to_dp_event(GaussianShift([np.inf])), accounting.NonPrivateDpEvent)
    assert from_dp_event(accounting.NonPrivateDpEvent()).epsilon(1e-6)[0] == np.inf


def test_a_noise_multiplier_is_never_above_the_inverse_distance():
    for distance in np.random.default_rng(0).uniform(0.01, 30.0, size=500).tolist():
        event = to_dp_event(GaussianShift([distance]))
        assert Fraction(event.noise_multiplier) * Fraction(distance) <= 1
        assert Fraction(float(np.nextafter(event.noise_multiplier, np.inf))) * Fraction(distance) > 1
        assert from_dp_event(event).distance[0] >= distance


def test_an_event_has_no_label():
    both = GaussianShift([0.3]) + LaplaceShift([0.5])
    for estimate in (
        GaussianShift([0.5], "estimate"),
        LaplaceShift([0.5], "estimate"),
        both + GaussianShift([0.1], "estimate"),
    ):
        with pytest.raises(InvalidInput, match="estimate"):
            to_dp_event(estimate)
    for pairs in (GaussianShift([0.5], "upper"), LaplaceShift([0.5], "upper"), both):
        event = to_dp_event(pairs)
        assert from_dp_event(event).kind == "upper"
        assert from_dp_event(accounting.SelfComposedDpEvent(event, 3)).kind == "upper"
    assert from_dp_event(accounting.NonPrivateDpEvent()).kind == "upper"
    assert from_dp_event(accounting.NoOpDpEvent()).kind == "exact"  # nothing at all is told


def test_what_cannot_be_expressed_is_refused():
    for wrong in (PAIRS[2], ObjectivePair([0.1], [1.0], [1.0], [0.1])):
        with pytest.raises(InvalidInput, match="no event"):
            to_dp_event(wrong)
    for event in (
        accounting.PoissonSampledDpEvent(0.1, accounting.GaussianDpEvent(1.0)),
        accounting.UnsupportedDpEvent(),
    ):
        with pytest.raises(InvalidInput, match="no pair"):
            from_dp_event(event)
    for ask in (to_pld, profile):
        with pytest.raises(InvalidInput, match="estimate"):
            ask(GaussianShift([0.5], "estimate"))
        with pytest.raises(InvalidInput, match="one person"):
            ask(GaussianShift([0.5, 0.6]))
    with pytest.raises(InvalidInput, match="too large"):
        to_pld(GaussianShift([1e4]), 1e-3)


@pytest.mark.parametrize("pairs", PAIRS[:3], ids=lambda p: type(p).__name__)
def test_profiles_there_and_back(pairs):
    """What comes back is above at every epsilon, near where it is Gaussian, and above in composition too."""
    back = from_profile(profile(pairs))
    at = np.concatenate([np.linspace(-3, 3, 61), [5.0, 9.0]])
    truth, found = (np.array([float(p.delta(e)[0]) for e in at]) for p in (pairs, back))
    assert (found >= truth * (1 - 1e-9)).all() and back.kind == "upper"
    twice, here = float((back + back).epsilon(1e-5)[0]), float((pairs + pairs).epsilon(1e-5)[0])
    assert here <= twice <= here * (1.01 if isinstance(pairs, GaussianShift) else 1.3)


def test_distributions_of_dp_accounting_come_back():
    from dp_accounting.pld import privacy_loss_distribution as theirs

    pld = theirs.from_gaussian_mechanism(2.0, value_discretization_interval=1e-2)
    assert pld.get_epsilon_for_delta(1e-5) == pytest.approx(float(GaussianShift([0.5]).epsilon(1e-5)[0]), abs=2e-2)
    both = to_pld(PAIRS[0], 1e-2).compose(pld)  # composed there and here
    here = float((PAIRS[0] + GaussianShift([0.5])).epsilon(1e-5)[0])
    assert here <= both.get_epsilon_for_delta(1e-5) <= here + 0.05
    found = from_pld(pld)
    there = pld.get_epsilon_for_delta(1e-6)
    assert float(GaussianShift([0.5]).epsilon(1e-6)[0]) <= float(found.epsilon(1e-6)[0]) <= there * 1.01
    sampled = theirs.from_gaussian_mechanism(1.0, sampling_prob=0.1, value_discretization_interval=1e-2)
    back = from_pld(sampled)
    for epsilon in (0.0, 0.1, 0.5, 2.0):
        assert float(back.delta(epsilon)[0]) >= sampled.get_delta_for_epsilon(epsilon)
    pure = from_pld(theirs.from_laplace_mechanism(2.0, value_discretization_interval=1e-2))
    assert 0.5 <= float(pure.epsilon(1e-9)[0]) < 0.6
    hopeful = theirs.from_gaussian_mechanism(2.0, pessimistic_estimate=False, use_connect_dots=False)
    with pytest.raises(InvalidInput, match="optimistic"):
        from_pld(hopeful)
    with pytest.raises(InvalidInput, match="PrivacyLossDistribution"):
        from_pld(GaussianShift([1.0]))


def test_profiles_that_are_none_are_refused_or_infinite():
    assert from_profile(lambda epsilon: 1.0).epsilon(1e-6)[0] == np.inf
    approximate = from_profile(lambda epsilon: 1.0 if epsilon < 0.5 else 1e-8)
    assert approximate.epsilon(1e-6)[0] >= 0.5 and approximate.delta(0.6)[0] >= 1e-8
    for wrong in (lambda epsilon: 2.0, lambda epsilon: float("nan"), lambda epsilon: "much"):
        with pytest.raises(InvalidInput, match="profile"):
            from_profile(wrong)
    with pytest.raises(InvalidInput, match="NaN"):
        profile(PAIRS[0])(float("nan"))


def test_opendp_takes_and_gives_profiles():
    dp = pytest.importorskip("opendp.prelude", reason="opendp is not installed: profiles are not compared with it")
    dp.enable_features("contrib", "honest-but-curious")
    for pairs in PAIRS[:3]:
        there = dp.new_privacy_profile(profile(pairs))
        for epsilon in (0.0, 0.5, 2.0):
            assert there.delta(epsilon) == pytest.approx(float(pairs.delta(epsilon)[0]), rel=1e-9)
        for delta in (1e-3, 1e-6):
            assert there.epsilon(delta) == pytest.approx(float(pairs.epsilon(delta)[0]), rel=1e-6)
    assert float(from_profile(there.delta).epsilon(1e-6)[0]) >= there.epsilon(1e-6)
    # their own Gaussian mechanism, converted from zCDP by them: above the exact loss, and so is what comes back
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    theirs = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=2.0)).map(1.0)
    found = from_profile(theirs.delta)
    assert (
        float(GaussianShift([0.5]).epsilon(1e-6)[0])
        <= theirs.epsilon(1e-6)
        <= float(found.epsilon(1e-6)[0]) * (1 + 1e-9)
    )


def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, size=(60, 3))
    return X, np.clip(X.sum(1), -1, 1)


def test_summaries_keep_their_schema_and_tell_nothing_of_the_table(tmp_path):
    from jsonschema import Draft202012Validator

    X, y = table()
    check = Draft202012Validator(summary_schema())
    Draft202012Validator.check_schema(summary_schema())
    fitted = [
        pi.AdaSSP(x_bound=1.0, y_bound=1.0).fit(X, y),
        pi.AdaSSP(x_bound=[1.0, (0.0, 2.0), 1.0], y_bound=(0.0, 3.0)).fit(X, y),
        pi.PosteriorSample(alpha=1.0).fit(X, y),
        pi.OutputPerturbation(Ridge(), scale=1.0).fit(X, y),
        pi.NoisyMean(scale=1.0).fit(X),
        pi.SlowScalingSum(scale=1.0).fit(np.abs(X)),
    ]
    for model in fitted:
        told = regulator_summary(model)
        check.validate(json.loads(json.dumps(told, allow_nan=False)))
        (tmp_path / "m.json").write_text(model.to_json())
        assert regulator_summary(pi.load_model(tmp_path / "m.json")) == told
    assert regulator_summary(fitted[0])["promise"] == {"epsilon": 1.0, "delta": 1e-6}
    assert regulator_summary(fitted[2])["promise"] is None
    other = pi.PosteriorSample(alpha=1.0).fit(np.vstack([X, X]), np.append(y, y))  # twice the people
    assert regulator_summary(other) == regulator_summary(fitted[2])
    told = pi.disclosure.publish_losses(pi.audit(fitted[2], X, y), fitted[2], X, y, epsilon=1.0, x_bound=1.0)
    with_losses = regulator_summary(fitted[2], told)
    check.validate(json.loads(json.dumps(with_losses, allow_nan=False)))
    assert with_losses["losses_published"]["promise"] == {"epsilon": 1.0, "delta": 1e-6}
    for wrong in (fitted[2], fitted[0]):
        with pytest.raises(InvalidInput, match="losses"):
            regulator_summary(fitted[0], wrong if wrong is fitted[2] else told)
    wrong = {**regulator_summary(fitted[0]), "people": 60}
    assert list(check.iter_errors(wrong))
    with pytest.raises(InvalidInput, match="confidential"):
        regulator_summary(pi.audit(fitted[2], X, y))
