"""What one posterior sample costs a person, bounded from their own row, the published draw and public facts.

Let ``|y_j| <= B`` for at most n people and ``H = X'X + alpha I`` without the person. Singular values s of X give
``||theta|| <= max_s s/(s^2 + alpha) ||y|| <= B sqrt(n)/(2 sqrt(alpha))``, so

    mu = x'H^-1x <= M = x'x/alpha,      |r| = |y - x'theta| <= R = |y| + ||x|| B sqrt(n)/(2 sqrt(alpha)).

In deviations of Q the pair is ``Q: N(0, 1)``, ``P: N(m, 1 + mu)`` with ``m^2 = mu rho^2/(1 + mu)``. For
``a^2 = mu/M <= 1`` the map ``z -> a z + sqrt(1 - a^2) noise`` keeps Q, and takes ``N(m', 1 + M)`` to
``N(a m', 1 + mu)``; ``a m' >= m`` when ``rho'^2/(1 + M) >= rho^2/(1 + mu)``, and a loss never falls with m. So the pair
of ``(M, rho')`` with ``rho' = sqrt(gamma (1 + M)) R`` tells no less than the person's own, whatever the other rows are.

At the draw o, with ``w^2 = gamma (y - x'o)^2``, the realised ``log q/p = log(1 + mu)/2 + rho^2/(2 (1 + mu)) - w^2/2``
is between ``-w^2/2`` and ``log(1 + M)/2 + gamma R^2/2 - w^2/2``. (Compare Redberg and Wang 2021, who
publish such losses of objective perturbation.)
"""

from __future__ import annotations

from dataclasses import replace

from flint import arb

from perinstance.checked_numbers import positive, whole_number
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.pairs import Posterior
from perinstance.releases.base.own_row import OwnRowLoss, PublicFacts, one_pair, one_row
from perinstance.releases.base.realised.log_ratios import Output
from perinstance.sampling.ball_arithmetic import Ball

MOST_PEOPLE = 10**15  # a bound beyond is a typing error


def posterior_own_row(
    ridge: tuple[float, float], row: Floats, y: float, published: Output | None, delta: float, facts: PublicFacts
) -> OwnRowLoss:
    """Return the loss of a person under ``ridge = (alpha, gamma)``; without a draw its log odds are left out."""
    if facts.y_bound is None or facts.people is None:
        raise InvalidInput("a posterior sample needs public facts: declare y_bound and people, an upper bound of each")
    B, n = positive("y_bound", facts.y_bound), whole_number("people", facts.people, 1, MOST_PEOPLE, 1000)
    with working_precision(256):
        x, (alpha, gamma) = [arb(v) for v in one_row(row)[0].tolist()], (arb(v) for v in ridge)
        square = sum((v * v for v in x), arb(0))
        M = square / alpha
        R = abs(arb(float(y))) + square.sqrt() * arb(B) * arb(n).sqrt() / (2 * alpha.sqrt())
        pairs = Posterior([_above(M)], [_above((gamma * (1 + M)).sqrt() * R)], "upper")
        found = one_pair(pairs, delta, ("targets_bounded", "people_bounded"))
        if published is None:
            return found
        miss = arb(float(y)) - sum((v * o for v, o in zip(x, published.balls(), strict=True)), arb(0))
        evidence = gamma * miss * miss / 2
        most = (1 + M).log() / 2 + gamma * R * R / 2 - evidence
        return replace(found, log_odds=(-_above(evidence), _above(most)))


def _above(ball: Ball) -> float:
    """Return a float that is no less: the conversion may round by one unit in the last place."""
    value = float(ball.upper())
    return value + abs(value) * 2.0**-50
