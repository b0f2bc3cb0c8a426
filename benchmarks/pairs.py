"""Epsilon at one delta for a million people, on one core, against one normal tail and against google's accountant.

    python -m benchmarks pairs

The floor is one call of ``scipy.special.log_ndtr`` on the same array (residuals, distances). The peer is a loop over
``dp_accounting.get_epsilon_gaussian``, which knows the Gaussian mechanism only.
"""

from __future__ import annotations

import numpy as np
from dp_accounting import get_epsilon_gaussian
from scipy.special import log_ndtr

from benchmarks.ratio import Ratio, seconds
from perinstance.pairs import GaussianShift, PosteriorSamplePair
from perinstance.pairs.closed_form.epsilon import posterior_epsilons

N = 1_000_000
DELTA = 1e-6


def people(n: int = N) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Leverages and residuals: of a usual regression, spread over six orders of magnitude, and of a tiny data set."""
    rng = np.random.default_rng(0)
    residual = np.abs(rng.standard_normal(n))
    return {
        "usual": (rng.gamma(5.0, size=n) * 1e-3, residual),
        "spread": (10 ** rng.uniform(-6, 0, n), residual),
        "few rows": (rng.gamma(5.0, size=n) * 0.1, residual),
    }


def run() -> list[Ratio]:
    ratios = []
    posterior_seconds = shift_seconds = 0.0
    for name, (mu, rho) in people().items():
        distance = np.sqrt(mu) * rho
        posterior, shift = PosteriorSamplePair(mu, rho), GaussianShift(distance)
        posterior.epsilon(DELTA), shift.epsilon(DELTA)  # compiled, tables made
        floor = seconds(lambda rho=rho: log_ndtr(rho))
        posterior_seconds = seconds(lambda pairs=posterior: pairs.epsilon(DELTA))
        shift_seconds = seconds(lambda pairs=shift: pairs.epsilon(DELTA))
        ratios.append(Ratio(f"Posterior.epsilon, {name}", "log_ndtr(residual)", posterior_seconds / floor, limit=3))
        floor = seconds(lambda x=distance: log_ndtr(x))
        ratios.append(Ratio(f"GaussianShift.epsilon, {name}", "log_ndtr(distance)", shift_seconds / floor, limit=2))
    few = np.geomspace(0.01, 3.0, 200)
    loop = seconds(lambda: [get_epsilon_gaussian(1 / d, DELTA) for d in few], repeats=3) / len(few)
    peer = "dp_accounting loop (how many times slower)"
    ratios.append(Ratio("Posterior.epsilon, a person", peer, loop / (posterior_seconds / N), at_least=10_000))
    ratios.append(Ratio("GaussianShift.epsilon, a person", peer, loop / (shift_seconds / N), at_least=10_000))
    mu, rho = people(4096)["usual"]
    out, delta = np.empty(4096), np.float64(DELTA)
    posterior_epsilons(mu, rho, delta)
    block = seconds(lambda: [posterior_epsilons(mu, rho, delta) for _ in range(100)]) / 100
    floor = seconds(lambda: [log_ndtr(rho, out=out) for _ in range(100)]) / 100
    ratios.append(Ratio("posterior_epsilons, a block of 4096", "log_ndtr(residual)", block / floor, limit=3))
    return ratios
