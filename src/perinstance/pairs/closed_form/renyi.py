"""Renyi divergences of a posterior sample and of Laplace noise, in closed form and without cancellation.

With ``m(x) = log1p(x) - x``, ``a = alpha - 1`` and ``v = mu/(1 + mu)`` the logarithms of a posterior sample become

* P over Q: ``-m(-a mu)/a - m(mu)``  (two positive terms; infinite from ``a mu = 1`` on),
* Q over P: ``log1p(mu) - v - m(a v)/a``, the first two being ``m(mu) + mu v`` for small mu.

For Laplace noise, with ``k = a/(2a + 1)`` and ``y = (2a + 1) D``: ``[k (e^-y - 1 + y) + m(k (e^-y - 1))]/a``.
"""

from __future__ import annotations

import math

from perinstance.numerics.normal_tails import expm1px, log1pmx
from perinstance.numerics.numba_compile import kernel
from perinstance.pairs.closed_form.profile import HUGE


@kernel
def _without(mu, rho, alpha):
    a = alpha - 1.0
    if a * mu >= 1.0:
        return math.inf
    q2 = rho * rho / (1.0 + mu)
    logs = -log1pmx(mu)
    if a > 0.0:
        logs -= log1pmx(-a * mu) / a
    return 0.5 * (alpha * mu * q2 / (1.0 - a * mu) + logs)


@kernel
def _with(mu, rho, alpha):
    a = alpha - 1.0
    q2 = rho * rho / (1.0 + mu)
    if alpha == math.inf:
        return 0.5 * (q2 + math.log1p(mu))
    v = mu / (1.0 + mu)
    logs = log1pmx(mu) + mu * v if mu < 1.0 else math.log1p(mu) - v
    if a > 0.0:
        logs -= log1pmx(a * v) / a
    return 0.5 * (q2 / (1.0 + 1.0 / (alpha * mu)) + logs)


@kernel
def posterior_renyi(mu, rho, alpha, direction, out):
    """Fill ``out`` with the Renyi divergence of every posterior sample (0: P over Q, 1: Q over P, 2: the larger)."""
    for i in range(mu.size):
        if mu[i] == 0.0:
            out[i] = 0.0
        elif mu[i] > HUGE or rho[i] > HUGE:
            out[i] = math.inf
        elif direction == 0:
            out[i] = _without(mu[i], rho[i], alpha[i])
        elif direction == 1:
            out[i] = _with(mu[i], rho[i], alpha[i])
        else:
            out[i] = max(_without(mu[i], rho[i], alpha[i]), _with(mu[i], rho[i], alpha[i]))


@kernel
def laplace_renyi(D, alpha, out):
    """Fill ``out`` with the Renyi divergence of every Laplace pair."""
    for i in range(D.size):
        a = alpha[i] - 1.0
        if D[i] == math.inf or a == math.inf:
            out[i] = D[i]
        elif a == 0.0:
            out[i] = expm1px(D[i])
        else:
            k = a / (2.0 * a + 1.0)
            y = (2.0 * a + 1.0) * D[i]
            out[i] = (k * expm1px(y) + log1pmx(k * math.expm1(-y))) / a
