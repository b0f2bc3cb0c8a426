"""A promise in words, for the people in the data; every number in it is rounded against the publisher."""

from __future__ import annotations

import math

from perinstance.releases.base.shown_decimals import declared_text, loss_text

LARGEST = 700.0  # beyond, exp overflows


def promise_sentence(epsilon: float, delta: float, target: str | None = None) -> str:
    """Say what (epsilon, delta) means to one person: ``P(S) <= e^epsilon Q(S) + delta`` for every conclusion S.

    >>> promise_sentence(1.0, 1e-6, "cost")[-112:]
    'This holds for every person, whatever stands in their record (differential privacy, epsilon = 1, delta = 1e-06).'
    """
    factor = loss_text(math.exp(epsilon)) if epsilon < LARGEST else "infinity"
    of = "" if target is None else f" for {target!r}"
    return (
        f"We published a formula{of} that was computed from many people's records, with noise that protects each of "
        "them. Whatever anybody may conclude about you from the formula, they might have concluded without your record "
        f"too: with and without it, the chance of any conclusion differs by a factor of at most {factor}, and a "
        f"remainder of at most {declared_text(delta)}. This holds for every person, whatever stands in their record "
        f"(differential privacy, epsilon = {declared_text(epsilon)}, delta = {declared_text(delta)})."
    )
