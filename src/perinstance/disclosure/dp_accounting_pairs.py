"""Pairs to and from Google's ``dp_accounting`` (optional): events for what they can express, PLDs for everything.

A privacy-loss distribution is made from the exact profile by "connect the dots" (Doroshenko et al. 2022, arXiv
2207.04380): at multiples of the interval its delta is the pair's own (raised by a billionth for rounding), between
them it is above, by less than the profile falls from one multiple to the next. It never says less than the pair.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from perinstance.checked_numbers import positive
from perinstance.disclosure.privacy_profiles import from_profile
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP, PROFILE_UP
from perinstance.pairs import Laplace, Pairs, Shift
from perinstance.pairs.arguments import Direction
from perinstance.pairs.composition import compose
from perinstance.pairs.kinds import is_bound

LARGEST_SUPPORT = 1_000_000  # multiples of the interval in one PLD
LEFT_OUT = 2.0**-60  # delta that is charged as an infinite loss beyond the support


def to_dp_event(pairs: Pairs) -> Any:
    """Return the release of one person as a ``DpEvent``: Gaussian and Laplace shifts, and sums of them.

    The noise multiplier is the largest float that is not above the inverse of the distance.

    >>> to_dp_event(Shift([0.5])).noise_multiplier
    2.0
    """
    accounting = _accounting()
    _one(pairs)
    _refuse_estimate(pairs, "an event")
    if len(pairs.parts) > 1:
        return accounting.ComposedDpEvent([to_dp_event(part) for part in pairs.parts])
    if not isinstance(pairs, Shift | Laplace):
        raise InvalidInput(
            f"dp_accounting has no event for {type(pairs).__name__} pairs; to_pld gives their privacy-loss distribution"
        )
    distance = float(np.ravel(pairs.to_columns()["distance"])[0])
    if distance == 0:
        return accounting.NoOpDpEvent()
    if not distance < np.inf:
        return accounting.NonPrivateDpEvent()
    event = accounting.GaussianDpEvent if isinstance(pairs, Shift) else accounting.LaplaceDpEvent
    multiplier = 1.0 / distance
    exact = Fraction(multiplier) * Fraction(distance) if np.isfinite(multiplier) else np.inf
    return event(multiplier if exact <= 1 else float(np.nextafter(multiplier, 0.0)))


def from_dp_event(event: Any) -> Pairs:
    """Return the pairs of one person from an event that is a Gaussian, a Laplace release, or composed of such.

    They are labelled ``upper``: an event does not say whether its noise is that of the release or a bound on it.
    """
    accounting = _accounting()
    if isinstance(event, accounting.NoOpDpEvent):
        return Shift([0.0])
    if isinstance(event, accounting.NonPrivateDpEvent):
        return Shift([np.inf], "upper")
    if isinstance(event, accounting.GaussianDpEvent | accounting.LaplaceDpEvent):
        kind = Shift if isinstance(event, accounting.GaussianDpEvent) else Laplace
        with np.errstate(divide="ignore"):
            return kind([np.float64(1.0) / event.noise_multiplier * NORM_UP], "upper")
    if isinstance(event, accounting.ComposedDpEvent) and event.events:
        return compose([from_dp_event(one) for one in event.events])
    if isinstance(event, accounting.SelfComposedDpEvent) and event.count:
        one = from_dp_event(event.event)
        if isinstance(one, Shift):  # distances add in quadrature
            return Shift(np.ravel(one.to_columns()["distance"]) * (np.sqrt(event.count) * NORM_UP), one.kind)
        return compose([one] * event.count)
    raise InvalidInput(f"{type(event).__name__} is no pair of one person here; Gaussian, Laplace and sums of them are")


def to_pld(pairs: Pairs, interval: float = 1e-3) -> Any:
    """Return the privacy-loss distribution of one person, pessimistic; it composes with others of dp_accounting."""
    _accounting()
    from dp_accounting.pld import pld_pmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    _one(pairs)
    interval = positive("interval", interval)
    _refuse_estimate(pairs, "a PLD")

    def pmf(direction: Direction) -> Any:
        most = _support(pairs, interval, direction)
        steps: Any = np.arange(-most, most + 1)
        deltas = np.minimum.accumulate(np.clip(_profile(pairs, steps * interval, direction) * PROFILE_UP, 0.0, 1.0))
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


def _support(pairs: Pairs, interval: float, direction: Direction) -> int:
    """Return how many multiples it takes until delta is next to nothing."""
    most = 16
    while float(_profile(pairs, np.array([most * interval]), direction)[0]) > LEFT_OUT:
        most *= 2
        if most > LARGEST_SUPPORT:
            raise InvalidInput("the losses are too large for this interval; pass a larger one, such as a hundredth")
    return most


def _profile(pairs: Pairs, epsilons: Floats, direction: Direction) -> Floats:
    many = type(pairs).concatenate([pairs] * len(epsilons))
    return np.asarray(many.delta(epsilons, direction))


def _one(pairs: Pairs) -> None:
    if len(pairs) != 1:
        raise InvalidInput(f"one person at a time, got {len(pairs)}; take pairs[i]")


def _refuse_estimate(pairs: Pairs, where: str) -> None:
    if not is_bound(pairs.kind):
        raise InvalidInput(
            f"an estimate is no bound, and {where} would not say so; audit with method='upper' or 'exact'"
        )


def _accounting() -> Any:
    try:
        import dp_accounting
    except ImportError:
        raise InvalidInput("this needs dp_accounting; install it with: pip install perinstance[interchange]") from None
    return dp_accounting
