"""What a number means: the best attack against the Gaussian mechanism of that loss, and against any mechanism."""

from __future__ import annotations

import math

from perinstance.checked_numbers import probability
from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift

#: Beliefs that somebody may have had before, and the false alarms of the test that they run.
PRIORS = (0.001, 0.01, 0.1, 0.5)
ODDS_RATE = 0.01
#: Up to how many times an alarm raises the odds a word is used. The words are ours; the numbers beside them say more.
SIZES = ((1.2, "very small"), (1.75, "small"), (5.0, "moderate"), (20.0, "large"), (math.inf, "very large"))


def size_in_words(power: float, false_positive_rate: float = ODDS_RATE) -> str:
    """Say whether a loss is small or large, by the power of the best test: an alarm multiplies odds by power over rate.

    >>> size_in_words(0.017), size_in_words(1.0)
    ('small', 'very large')
    """
    return next(word for limit, word in SIZES if power <= limit * false_positive_rate)


def belief_after_alarm(prior: float, power: float, false_positive_rate: float = ODDS_RATE) -> float:
    """Return the probability that the person is in the data once a test of that power has said so (Bayes' rule).

    >>> round(belief_after_alarm(0.5, 0.09), 3)
    0.9
    """
    return prior * power / (prior * power + (1.0 - prior) * false_positive_rate)


def shift_of_loss(epsilon: float, delta: float) -> GaussianShift:
    """Return the Gaussian mechanism whose loss at ``delta`` is ``epsilon`` (the largest distance not above it).

    >>> shift = shift_of_loss(1.0, 1e-6)
    >>> bool(abs(shift.epsilon(1e-6)[0] - 1.0) < 1e-6)
    True
    """
    probability("delta", delta)
    low, high = 0.0, 1.0
    while float(GaussianShift([high]).epsilon(delta)[0]) <= epsilon:
        low, high = high, 2 * high
        if high > 1e6:
            raise InvalidInput(f"a loss of {epsilon:g} is beyond what can be explained; try one below 1000")
    for _ in range(100):
        middle = (low + high) / 2
        if float(GaussianShift([middle]).epsilon(delta)[0]) <= epsilon:
            low = middle
        else:
            high = middle
    return GaussianShift([low])


def most_attack_power(epsilon: float, delta: float, false_positive_rate: float) -> float:
    """Return the largest power any test can have against any (epsilon, delta) pair.

    ``min(1, e^eps a + delta, 1 - e^-eps (1 - delta - a))`` (Wasserman and Zhou; Kairouz, Oh and Viswanath).

    >>> most_attack_power(0.0, 0.0, 0.05)
    0.05
    """
    a = false_positive_rate
    grown = math.exp(epsilon) * a + delta if epsilon < 700 else math.inf
    return min(1.0, grown, 1.0 - math.exp(-epsilon) * (1.0 - delta - a))
