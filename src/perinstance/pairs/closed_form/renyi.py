"""Renyi divergences of Laplace losses and of sums of Gaussian coordinates, without cancellation, rounded up.

With ``m(x) = log1p(x) - x`` and ``a = alpha - 1``, that of Laplace noise is, with
``k = a/(2a + 1)`` and ``y = (2a + 1) D``, ``(e^-y - 1 + y)/(2a + 1) + m(k (e^-y - 1))/a``.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.compilation import kernel
from perinstance.numerics.double_double import one_less_product, two_sum
from perinstance.numerics.normal_tails import excess_of_log, expm1px, log1pmx
from perinstance.numerics.rounding import DIVERGENCE_UP, UNIT
from perinstance.pairs.sums.saddlepoint import Losses, largest_loss

#: Below this m is its series: the square would underflow before it is divided.
SHORT = 2.0**-30


@kernel
def laplace_renyi(D, alpha, out):
    """Fill ``out`` with the Renyi divergence of every Laplace pair."""
    for i in range(D.size):
        a = alpha[i] - 1.0
        if D[i] == math.inf or a == math.inf:
            out[i] = D[i]  # the largest loss, of which nothing was lost
        elif a == 0.0:
            out[i] = min(expm1px(D[i]) * DIVERGENCE_UP, D[i])
        else:
            y = (2.0 * a + 1.0) * D[i]
            share = -math.expm1(-y) / (2.0 * a + 1.0)
            x = a * share
            less = -0.5 * x * share * (1.0 + 2.0 / 3.0 * x) if x < SHORT else log1pmx(-x) / a
            out[i] = min((expm1px(y) / (2.0 * a + 1.0) + less) * DIVERGENCE_UP, D[i])


@kernel
def renyis(alpha, losses, nu_low, out):
    """Fill in ``K(t)/t`` at ``t = alpha - 1``, the KL divergence at t = 0 and the largest loss at t = infinity.

    Of the Gaussian coordinates alone:
    ``K(t)/t = sum m^2/2 + t v m^2/(2a) + (nu - log v)/2 + (x - log(1 + x))/(2t)``, ``x = -t nu``, ``a = 1 + x > 0``.
    ``nu_low`` is what nu was rounded by: next to the order from which all is infinite, a is a small difference.
    """
    nu, v, m2, levels, _lap, _count = losses
    none = np.empty(0)
    for i in range(out.size):
        t = alpha[i] - 1.0
        if t == np.inf:
            out[i] = largest_loss(Losses(nu[i], v[i], m2[i], levels[i], none, none))
            continue
        total = 0.0
        for j in range(nu.shape[1]):
            n, m = nu[i, j], m2[i, j]
            if n == 0.0:
                total += 0.5 * m * alpha[i]
                continue
            a = one_less_product(*two_sum(alpha[i], -1.0), n, nu_low[i, j]) if n > 0.0 else 1.0 - t * n
            if not a > 0.0:
                total = np.inf
                break
            total += 0.5 * m + 0.5 * t * v[i, j] * m / a + 0.5 * excess_of_log(n, v[i, j])
            if t > 0.0:
                total += 0.5 * excess_of_log(-t * n, a) / t
        total *= DIVERGENCE_UP + UNIT * nu.shape[1]
        out[i] = max(total, 0.0) if math.isfinite(total) else np.inf
