"""What an attacker who knows everything but one bit can conclude about that bit: is the person in the data?

With prior probability pi of "in", an output theta moves the odds by exactly ``q(theta)/p(theta) = e^-L``. The best
guess (the likelihood-ratio test) is right with probability

    1 - pi + pi delta_QP(log((1 - pi)/pi)),

one point of the privacy profile. The paper's fact: where both probabilities of an event S are at least delta/eps,
``|log P(S)/Q(S)| <= 2 eps`` (because ``e^eps + eps <= e^(2 eps)``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance.checked_numbers import is_number, real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.pairs.interface.base import Pairs
from perinstance.pairs.interface.kinds import Kind, weakest
from perinstance.record_tables import ShownAsTable


@dataclass(frozen=True, slots=True)
class Identification(ShownAsTable):
    """How well the best attacker guesses whether each person is in the data. Confidential."""

    prior: Floats
    accuracy: Floats  #: of the best guess, after seeing the release
    guess: Floats  #: of the best guess without the release: max(pi, 1 - pi)
    kind: Kind
    assumptions: tuple[str, ...] = ("the attacker knows everybody else's data and the person's own row",)

    @property
    def advantage(self) -> Floats:
        """By how much the release improves the best guess."""
        return np.maximum(self.accuracy - self.guess, 0.0)


def identification(pairs: Pairs, prior: ArrayLike = 0.5) -> Identification:
    """Return the probability that the best guess about each person's membership is right.

    >>> from perinstance.pairs import Shift
    >>> identification(Shift([0.0, 1.0]), 0.5).accuracy.round(4)
    array([0.5   , 0.6915])
    """
    pi = np.broadcast_to(real_values("prior", prior), (len(pairs),))
    if not ((pi > 0) & (pi < 1)).all():
        raise InvalidInput("prior must lie in (0, 1): the attacker's probability that the person is in the data")
    threshold = np.log1p(-pi) - np.log(pi)
    accuracy = 1 - pi + pi * np.asarray(pairs.delta(threshold, "with"))
    return Identification(pi, np.clip(accuracy, 0.0, 1.0), np.maximum(pi, 1 - pi), pairs.kind)


def posterior_odds(loss: ArrayLike, prior: ArrayLike = 0.5) -> Floats:
    """Return the odds "in : out" after an output whose loss ``L = log p/q`` is given.

    >>> posterior_odds([0.0, np.log(2.0)], 0.5)
    array([1. , 0.5])
    """
    pi, L = real_values("prior", prior), real_values("loss", loss)
    if not ((pi > 0) & (pi < 1)).all():
        raise InvalidInput("prior must lie in (0, 1): the attacker's probability that the person is in the data")
    if np.isnan(L).any():
        raise InvalidInput("the loss log p/q must be a number, got NaN")
    with np.errstate(over="ignore"):
        return np.exp(np.log(pi) - np.log1p(-pi) - L)


@dataclass(frozen=True, slots=True)
class OddsBound(ShownAsTable):
    """How far the release can move the attacker's log odds, except with small probability."""

    log_odds: Floats  #: of each person
    event_probability: Floats  #: the bound holds for events at least as likely as this under both hypotheses
    kind: Kind
    assumptions: tuple[str, ...] = ("any side information: given the data, the draw is fresh",)


def odds_bound(epsilon: ArrayLike, delta: float, kind: Kind = "upper") -> OddsBound:
    """Return the paper's identification fact: ``2 eps`` for events of probability at least ``delta/eps``.

    ``kind`` is that of the losses; numbers alone are taken for losses that hold.
    """
    eps = real_values("epsilon", epsilon)
    if not (eps >= 0).all() or not is_number(delta) or not 0 <= delta <= 1:
        raise InvalidInput("losses must be numbers >= 0 and delta must lie in [0, 1]")
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.minimum(np.where(eps > 0, delta / eps, 1.0), 1.0)
    return OddsBound(2 * eps, least, weakest("upper", kind))


def realised_loss(without: Any, with_: Any, theta: ArrayLike) -> float:
    """Return ``L = log p/q`` at one output, from the two laws of the release (``release.law(fit)`` without and with).

    Its negative is what the attacker's log odds of "in" gain. As confidential as the data.
    """
    theta = real_values("theta", theta)
    return _log_density(without, theta) - _log_density(with_, theta)


def _log_density(law: Any, theta: Floats) -> float:
    if law.noise != "gaussian":
        z = np.linalg.solve(law.root, theta - law.mean)
        return float(-np.abs(z).sum() - np.linalg.slogdet(law.root)[1] - len(z) * np.log(2))
    covariance = law.root @ law.root.T
    lower = np.linalg.cholesky(covariance)
    z = np.linalg.solve(lower, theta - law.mean)
    return float(-0.5 * (z @ z) - np.log(np.diag(lower)).sum() - 0.5 * len(z) * np.log(2 * np.pi))
