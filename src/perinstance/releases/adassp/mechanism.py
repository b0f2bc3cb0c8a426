"""AdaSSP as a mechanism: one noisy Gram matrix, then a few rounds of noisy, clipped residual moments.

    G~ = X'X + E,    m_k = sum_i clip(y_i - x_i'theta_k, c) x_i + noise,    theta_{k+1} = theta_k + shrink(G~, m_k)

With theta_0 = 0 and c = B_y the first round is the classical release of (X'X, X'y). Further rounds pay: a residual is
smaller than a label, so it can be clipped at a fraction of B_y and needs that much less noise; and the error of G~ then
acts on ``theta - theta_k`` instead of theta. Every part is Gaussian with a sensitivity that holds whatever the others
said (``||x x'||_F <= B_x^2``; ``c B_x``), so the distances add in quadrature and the promise is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUND_DOWN, STEP_UP
from perinstance.releases.adassp.shrinkage import noisy_gram, posterior_mean
from perinstance.releases.promises.calibration import gaussian_distance, noise_scale
from perinstance.releases.promises.noisy_queries import MomentWindow
from perinstance.releases.promises.promise import Promise

GRAM = 0.3  # share of the squared distance; the rounds have equal parts of the rest
FAINT = 0.007  # a round whose noise is below this part of the data's own weight need not clip so hard


@dataclass(frozen=True, slots=True)
class Rounds:
    """What the user declared, and how the budget is spent. All of it is public."""

    x_bound: float
    y_bound: float
    clip: float  #: of residuals, in units of y_bound
    count: int
    gram_distance: float
    round_distance: float
    promise: Promise


@dataclass(frozen=True, slots=True)
class Published:
    """What one run published, in the user's units. Public when the window was exact."""

    coef: Floats
    gram: Floats
    moments: tuple[Floats, ...]
    clips: tuple[float, ...]  #: of each round, in units of y_bound
    path: tuple[Floats, ...]  #: the estimate that each round took residuals of


def spend(epsilon: float, delta: float, x_bound: float, y_bound: float, clip: float, count: int) -> Rounds:
    """Split the budget: exact Gaussian composition, so the squared distances are what is shared out."""
    budget = gaussian_distance(epsilon, delta)
    gram, each = budget * math.sqrt(GRAM), budget * math.sqrt((1.0 - GRAM) / count) * ROUND_DOWN
    promise = Promise(math.sqrt(gram**2 + count * each**2) * STEP_UP)
    return Rounds(x_bound, y_bound, clip, count, gram, each, promise)


def run(rounds: Rounds, window: MomentWindow) -> Published:
    """Look through the window; the estimate is post-processing of what was seen."""
    unit_scale = noise_scale(STEP_UP, rounds.gram_distance)
    bx2, bxy = rounds.x_bound**2, rounds.x_bound * rounds.y_bound
    back = rounds.y_bound / rounds.x_bound  # coefficients in the user's units
    G = window.gram(unit_scale * bx2)
    gram = noisy_gram(G / bx2, unit_scale)
    theta = before = np.zeros(window.d)
    wide = widened(rounds, gram.trace, window.d)
    moments: list[Floats] = []
    clips: list[float] = []
    path: list[Floats] = []
    for k in range(rounds.count):
        clip = wide if k >= rounds.count - 2 else rounds.clip
        scale = noise_scale(clip * STEP_UP, rounds.round_distance)
        m = window.moment(theta * back, clip * rounds.y_bound, scale * bxy)
        moments.append(m)
        clips.append(clip)
        path.append(theta * back)
        if k and clips[-2] == clip > rounds.clip:  # two wide rounds say the same twice: their noise averages out
            center, both = (before + theta) / 2.0, (moments[-2] + m) / 2.0
            theta = center + posterior_mean(gram, both / bxy, scale / math.sqrt(2.0))
        else:
            before, theta = theta, theta + posterior_mean(gram, m / bxy, scale)
    return Published(theta * back, G, tuple(moments), tuple(clips), tuple(path))


def widened(rounds: Rounds, trace: float, d: int) -> float:
    """Return the clip of the last rounds: when there is so much data that noise is faint, bias matters more.

    So the estimate tends to least squares as the data grows, not to the estimate of clipped residuals.
    """
    clip = rounds.clip
    while clip < 1.0 and d * 2.0 * clip / rounds.round_distance <= FAINT * max(trace, 1.0):
        clip = min(1.0, 2.0 * clip)
    return clip
