"""Pairs to and from other tools: privacy profiles, as OpenDP states them, and Google's ``dp_accounting`` (optional).

A pair that is handed out keeps its profile, delta as a function of epsilon. A profile that comes in says less than a
pair: the answer is the smallest Gaussian shift that, with a probability of anything at all, is nowhere below it. If
``delta(e) <= T(e) + tail`` for all ``e >= 0`` in both directions, T the shift's profile, then at ``-e``
``1 - exp(-e) (1 - delta(e)) <= T(-e) + tail``: it holds at every real number, which is what composition needs
(``pairs.bounded``). So it is a pair like any other.

A privacy-loss distribution of dp_accounting is made from the profile by "connect the dots" (Doroshenko et al. 2022,
arXiv 2207.04380): at multiples of the interval its delta is the pair's own (raised for rounding), between them it is
above, by less than the profile falls from one to the next. It never says less than the pair.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from perinstance.checked_numbers import positive, probability
from perinstance.errors import InvalidInput
from perinstance.numerics.rounding import BOUND_UP, NORM_UP, PROFILE_UP
from perinstance.pairs import GaussianShift, LaplaceShift, Pairs
from perinstance.pairs.arguments import Direction
from perinstance.pairs.bounded import Dominated
from perinstance.pairs.composition import compose, pairs_of_promise
from perinstance.pairs.kinds import is_bound

POINTS = 1500  # at which an incoming profile is looked at; the pair is above it by at most one step of epsilon
FIRST_STEP = 2.0**-12  # of the whole range; then each is half a percent longer than the one before
LARGEST_EPSILON = 512.0
LEFT_OUT = 2.0**-13  # of the delta that is asked for: charged as a probability of anything at all, for the far tail
HALVINGS = 50
LARGEST_DISTANCE = 64.0
LARGEST_SUPPORT = 1_000_000  # multiples of the interval in one PLD
BEYOND_SUPPORT = 2.0**-60  # delta that is charged as an infinite loss beyond the support


def profile(pairs: Pairs) -> Callable[[float], float]:
    """Return delta as a function of epsilon, both directions, of one person: what OpenDP's privacy profiles take.

    With OpenDP: ``opendp.measures.new_privacy_profile(profile(pairs[i]))``.
    """
    _refuse_unfit(pairs, "a profile")

    def delta(epsilon: float) -> float:
        if math.isnan(epsilon):
            raise InvalidInput("epsilon must be a number, got NaN")
        return min(1.0, max(0.0, float(pairs.delta(epsilon)[0])))

    return delta


def from_profile(delta: Callable[[Any], Any], at: float = 1e-6) -> Pairs:
    """Return pairs of one person, labelled ``upper``, that lose at least what a profile of another tool states.

    ``delta`` is a falling function of ``epsilon >= 0`` that holds in both directions, such as OpenDP's
    ``PrivacyProfile.delta``. On each step of epsilon the profile at its beginning is below the pair's at its end. Where
    the profile ends (pure or approximate differential privacy), the pair of that promise is taken if it loses less at
    the delta ``at``; a share of that, a ten-thousandth, is charged for the profile's tail.

    >>> pairs = from_profile(profile(GaussianShift([0.5])))
    >>> bool(0.5 < pairs.distance[0] < 0.504), pairs.kind
    (True, 'upper')
    """
    tail = probability("at", at) * LEFT_OUT
    last = 1.0  # an epsilon beyond which the profile is next to nothing, or does not fall any more
    while last < LARGEST_EPSILON:
        here = _stated(delta, last)
        if here <= tail or here == _stated(delta, 2.0 * last) == _stated(delta, LARGEST_EPSILON):
            break
        last *= 2.0
    remainder = max(_stated(delta, last), tail)
    if remainder >= 1.0:
        return GaussianShift([np.inf], "upper")
    edges = np.concatenate([[0.0], np.geomspace(last * FIRST_STEP, last, POINTS)])
    wanted = np.maximum([_stated(delta, e) - remainder for e in edges[:-1].tolist()], 0.0) * BOUND_UP
    ended = np.append(wanted, 0.0) == 0.0  # from there on a promise holds: nothing but the remainder is left
    promise = pairs_of_promise(float(edges[int(np.argmax(ended))]), remainder, 1)
    epsilons, low, high = edges[1:], np.zeros(len(wanted)), np.full(len(wanted), LARGEST_DISTANCE)
    if not (GaussianShift(high).delta(epsilons) >= wanted * PROFILE_UP).all():
        return promise
    for _ in range(HALVINGS):  # the smallest distance, rounded up, whose profile is as high as wanted everywhere
        middle = 0.5 * (low + high)
        enough = GaussianShift(middle).delta(epsilons) >= wanted * PROFILE_UP
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    shift = float(np.where(wanted > 0.0, high, 0.0).max())
    found = Dominated([shift], [0.0], [remainder])
    return min((found, promise), key=lambda pairs: float(pairs.epsilon(at)[0]))


def _stated(delta: Callable[[float], float], epsilon: float) -> float:
    try:
        value: Any = float(delta(epsilon))
    except (TypeError, ValueError):
        raise InvalidInput("a profile must return a number for every epsilon >= 0") from None
    if not 0.0 <= value <= 1.0:
        raise InvalidInput("a profile must return delta in [0, 1]")
    return float(value)


def to_dp_event(pairs: Pairs) -> Any:
    """Return the release of one person as a ``DpEvent``: Gaussian and Laplace shifts, and sums of them.

    The noise multiplier is the largest float that is not above the inverse of the distance.

    >>> to_dp_event(GaussianShift([0.5])).noise_multiplier
    2.0
    """
    accounting = _accounting()
    _refuse_unfit(pairs, "an event")
    if len(pairs.parts) > 1:
        return accounting.ComposedDpEvent([to_dp_event(part) for part in pairs.parts])
    if not isinstance(pairs, GaussianShift | LaplaceShift):
        raise InvalidInput(
            f"dp_accounting has no event for {type(pairs).__name__} pairs; to_pld gives their privacy-loss distribution"
        )
    distance = float(np.ravel(pairs.to_columns()["distance"])[0])
    if distance == 0:
        return accounting.NoOpDpEvent()
    if not distance < np.inf:
        return accounting.NonPrivateDpEvent()
    event = accounting.GaussianDpEvent if isinstance(pairs, GaussianShift) else accounting.LaplaceDpEvent
    multiplier = 1.0 / distance
    exact = Fraction(multiplier) * Fraction(distance) if np.isfinite(multiplier) else np.inf
    return event(multiplier if exact <= 1 else float(np.nextafter(multiplier, 0.0)))


def from_dp_event(event: Any) -> Pairs:
    """Return the pairs of one person from an event that is a Gaussian, a Laplace release, or composed of such.

    They are labelled ``upper``: an event does not say whether its noise is that of the release or a bound on it.
    """
    accounting = _accounting()
    if isinstance(event, accounting.NoOpDpEvent):
        return GaussianShift([0.0])
    if isinstance(event, accounting.NonPrivateDpEvent):
        return GaussianShift([np.inf], "upper")
    if isinstance(event, accounting.GaussianDpEvent | accounting.LaplaceDpEvent):
        kind = GaussianShift if isinstance(event, accounting.GaussianDpEvent) else LaplaceShift
        with np.errstate(divide="ignore"):
            return kind([np.float64(1.0) / event.noise_multiplier * NORM_UP], "upper")
    if isinstance(event, accounting.ComposedDpEvent) and event.events:
        return compose([from_dp_event(one) for one in event.events])
    if isinstance(event, accounting.SelfComposedDpEvent) and event.count:
        one = from_dp_event(event.event)
        if isinstance(one, GaussianShift):  # distances add in quadrature
            return GaussianShift(np.ravel(one.to_columns()["distance"]) * (np.sqrt(event.count) * NORM_UP), one.kind)
        return compose([one] * event.count)
    raise InvalidInput(f"{type(event).__name__} is no pair of one person here; Gaussian, Laplace and sums of them are")


def to_pld(pairs: Pairs, interval: float = 1e-3) -> Any:
    """Return the privacy-loss distribution of one person, pessimistic; it composes with others of dp_accounting."""
    _accounting()
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    interval = positive("interval", interval)
    _refuse_unfit(pairs, "a PLD")

    def pmf(direction: Direction) -> Any:
        most = 16  # multiples, until delta is next to nothing
        while float(pairs.delta(most * interval, direction)[0]) > BEYOND_SUPPORT:
            most *= 2
            if most > LARGEST_SUPPORT:
                raise InvalidInput("the losses are too large for this interval; pass a larger one, such as a hundredth")
        steps: Any = np.arange(-most, most + 1)
        many = type(pairs).concatenate([pairs] * len(steps))
        deltas = np.clip(np.asarray(many.delta(steps * interval, direction)) * PROFILE_UP, 0.0, 1.0)
        deltas = np.minimum.accumulate(deltas)
        return pld_pmf.create_pmf_pessimistic_connect_dots(interval, steps, deltas)

    return PrivacyLossDistribution(pmf("with"), pmf("without"))


def from_pld(pld: Any, at: float = 1e-6) -> Pairs:
    """Return pairs of one person, labelled ``upper``, that lose at least what a privacy-loss distribution states.

    See ``from_profile`` for how much more that can be; an optimistic distribution is refused.
    """
    if not hasattr(pld, "get_delta_for_epsilon"):
        raise InvalidInput(f"from_pld takes dp_accounting's PrivacyLossDistribution, got {type(pld).__name__}")
    masses = [getattr(pld, name, None) for name in ("_pmf_remove", "_pmf_add")]
    if not all(getattr(pmf, "_pessimistic_estimate", True) for pmf in masses):
        raise InvalidInput("an optimistic distribution may say too little; build it with pessimistic_estimate=True")

    def stated(epsilon: float) -> float:
        return min(max(float(pld.get_delta_for_epsilon(epsilon)), 0.0), 1.0)  # sums of theirs may round beyond

    return from_profile(stated, at)


def _refuse_unfit(pairs: Pairs, where: str) -> None:
    if len(pairs) != 1:
        raise InvalidInput(f"one person at a time, got {len(pairs)}; take pairs[i]")
    if not is_bound(pairs.kind):
        raise InvalidInput(f"an estimate is no bound, and {where} would not say so; audit with method='upper'")


def _accounting() -> Any:
    try:
        import dp_accounting
    except ImportError:
        raise InvalidInput("this needs dp_accounting; install it with: pip install perinstance[interchange]") from None
    return dp_accounting
