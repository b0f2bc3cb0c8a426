"""The best test of whether somebody is in a posterior sample: ``|w| < c``, in plain numpy.

``t = (c - rho)/sqrt(mu)``, ``m = rho sqrt(mu/(1 + mu))``, ``k = sqrt(1 + mu)``: with A the samples below c,

    P(A) = Phi(t) - Phi(-t - 2 m k/mu),    Q(A) = Phi(k t + m) - Phi(-k t - m (2 + mu)/mu),
    epsilon = log q/p at c = (log(1 + mu) - m^2 - 2 m k t - mu t^2)/2,

so that no large numbers cancel. ``Q(A) + e^epsilon (r - P(A))`` is a bound of the power at a false positive rate r
whatever t is, and the power where ``P(A) = r`` (Neyman and Pearson's lemma): an error of t counts by its square.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import PROFILE_ROUNDING, SETTLED_POWER, UNIT

HALVINGS = 60  #: of the bracket of t


def posterior_powers(leverage: Floats, residual: Floats, rate: Floats) -> Floats:
    """Return the power of each pair at its rate, in (0, 1), rounded up; NaN where too many digits cancel."""
    with np.errstate(all="ignore"):
        k, m = np.sqrt(1.0 + leverage), residual * np.sqrt(leverage / (1.0 + leverage))
        beyond, beyond_q = 2.0 * m * k / leverage, m * (2.0 + leverage) / leverage
        low, high = np.maximum(ndtri(rate), -0.5 * beyond), ndtri(0.5 * (1.0 + rate))
        for _ in range(HALVINGS):
            t = 0.5 * (low + high)
            enough = ndtr(t) - ndtr(-t - beyond) >= rate
            low, high = np.where(enough, low, t), np.where(enough, t, high)
        t = high
        ends = np.stack([t, -t - beyond, k * t + m, -k * t - beyond_q])
        sizes = np.stack([np.abs(t), np.abs(t) + beyond, k * np.abs(t) + m, k * np.abs(t) + beyond_q])
        tails = ndtr(ends)
        lost = tails * (PROFILE_ROUNDING * (5.0 + ends**2) + 8.0 * UNIT * sizes * (1.0 + np.abs(ends)))
        terms = np.stack([np.log1p(leverage), m**2, 2.0 * m * k * np.abs(t), leverage * t**2])
        factor = np.exp(0.5 * (terms[0] - terms[1] - np.copysign(terms[2], t) - terms[3]))
        rest = rate - (tails[0] - tails[1])
        charge = (
            lost[2] + lost[3] + factor * (lost[0] + lost[1] + 8.0 * UNIT * np.abs(rest) * (1.0 + terms.sum(axis=0)))
        )
        power = tails[2] - tails[3] + factor * rest + charge
        return np.where(charge <= SETTLED_POWER * power, power * (1.0 + 4.0 * UNIT), np.nan)
