"""The best use of noisy normal equations: the mean of theta given ``G~ = G + E`` and ``b~ = G theta + noise``.

In the eigenbasis of G~ and in units where ``B_x = B_y = 1``, with g the denoised eigenvalues,

    b~_j ~ N(g_j theta_j,  v + (u^2/2) ||theta||^2 + sigma^2 g_j)

v the variance of the noise on b~, u the noise scale of G~ (its error E enters as ``E theta``, of variance
``u^2 ||theta||^2/2`` in each direction), sigma^2 that of the labels. The prior is ``theta_j ~ N(0, tau^2 l_j^2 p_j)``:
a common scale tau, a heavy-tailed factor l_j for each direction, and a profile p that is flat or proportional to g. All
hyperparameters are averaged over public grids, weighted by the marginal likelihood. Where the noise drowns the signal
the answer falls back to zero by itself. Only released numbers enter: this is post-processing and costs no privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats

TAU2 = np.geomspace(0.03, 3.0, 20) ** 2  # squared scale of a coefficient
LOCAL2 = np.array([0.25, 0.5, 1.0, 2.0, 4.0]) ** 2  # squared factors of single directions
LABEL2 = np.array([0.003, 0.03, 0.3])  # residual variance of a label


@dataclass(frozen=True, slots=True)
class NoisyGram:
    """``G~`` in its eigenbasis, eigenvalues denoised."""

    values: Floats  #: (d,) >= 0, rising
    vectors: Floats  #: (d, d) one in each column
    scale: float  #: noise on the diagonal of G~; off the diagonal it is smaller by sqrt(2)
    trace: float  #: of G~: about the number of people when rows have full length


def noisy_gram(G: Floats, scale: float) -> NoisyGram:
    """Diagonalise and denoise.

    The eigenvalues of ``G + E`` repel each other: on average ``u_i'G u_i = w_i - 2 s^2 sum_j 1/(w_i - w_j)``, where s^2
    is the variance off the diagonal of E (Ledoit and Peche; the poles are smoothed over one noise scale). The answer is
    made monotone and non-negative.
    """
    from sklearn.isotonic import isotonic_regression

    w, V = np.linalg.eigh(G)
    gaps = w[:, None] - w[None, :]
    repulsion = (gaps / (gaps**2 + scale**2)).sum(axis=1)
    return NoisyGram(np.maximum(isotonic_regression(w - scale**2 * repulsion), 0.0), V, scale, float(np.trace(G)))


def posterior_mean(gram: NoisyGram, moment: Floats, scale: float) -> Floats:
    """Return the posterior mean of theta with ``G theta = b`` given a moment ``b~`` whose noise has this scale."""
    g, z = gram.values, gram.vectors.T @ moment
    d = len(g)
    profiles = [np.ones(d)] + ([g / g.mean()] if g.mean() > 0 else [])
    log_weights, means = [], []
    for p in profiles:
        # axes: label variance, tau, direction, local factor
        prior = TAU2[:, None, None] * p[:, None] * LOCAL2
        noise = scale**2 + gram.scale**2 * d / 2.0 * TAU2[:, None] + LABEL2[:, None, None] * g
        total = prior * g[:, None] ** 2 + noise[..., None]
        log_local = -0.5 * (np.log(total) + (z**2)[:, None] / total)
        top = log_local.max(axis=-1, keepdims=True)
        local = np.exp(log_local - top)
        mass = local.sum(axis=-1)
        mean = (local * prior * g[:, None] / total).sum(axis=-1) / mass * z
        log_weights.append((np.log(mass) + top[..., 0]).sum(axis=-1).ravel())
        means.append(mean.reshape(-1, d))
    weights = np.concatenate(log_weights)
    weights = np.exp(weights - weights.max())
    return gram.vectors @ (weights @ np.concatenate(means) / weights.sum())
