r"""The moments B and D of small and of large losses along a line, in pairs of floats.

Each is a sum over the noise as in ``noise_balls.py``, with the weights of the cut, and an error larger by their growth
off the real line. Noise whose weight is next to nothing is left out: that much of all the noise is charged. D may be
smaller than B by hundreds of orders of magnitude; it is summed over a window of its own, times a power of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import LossCut
from perinstance.pairs.loss_sums.sampled.lines.noise_balls import LARGEST, NotPreciseError, noise_terms
from perinstance.pairs.loss_sums.sampled.lines.pair_moments import BITS, PairMoments, sums_along
from perinstance.pairs.loss_sums.sampled.noise_cells import NoiseWindow, StepKind, noise_window

LOG_TWO = math.log(2.0)
MOST_NOISE = 400_000
DEEPEST = 700.0


@dataclass(frozen=True, slots=True)
class CutNoise:
    """The noise over which a part of the moments is summed up: its window, how deep it is, nodes, and those needed."""

    cut: LossCut
    c: float
    depth: float
    large: bool
    window: NoiseWindow
    nodes: int
    needed: range

    @property
    def log_missed(self) -> float:
        """Return the logarithm of how far off the sum over these nodes is, absolutely, for every y."""
        window = self.window
        actual = 2.0 * math.pi * self.cut.height * self.nodes / (window.high - window.low)
        # of the rule, of what lies around the window, and of the nodes whose weight is left out
        missed = 2.1 * math.exp(-actual) * window.strip + window.out + 2.0 * math.exp(-self.depth) * window.strip
        return window.scale + self.cut.growth + math.log(1.001 * missed)


def cut_noise(cut: LossCut, c: float, depth: float, large: bool) -> CutNoise:
    """Return the noise of small or of large losses, to ``e^-depth`` of the largest integrand."""
    window = noise_window(StepKind(cut.q, cut.m, True, 0.0), c, depth)
    width = window.high - window.low
    nodes = int(width * depth / (2.0 * math.pi * cut.height)) + 1
    if not (cut.height <= window.theta and nodes <= MOST_NOISE and depth < DEEPEST and window.scale < LARGEST):
        raise NotPreciseError(f"a step of rate {cut.q} and distance {cut.m}, cut at {cut.level}")
    away = math.sqrt(2.0 * depth) * cut.width
    edge = (cut.place - away if large else cut.place + away) - window.low
    first = min(max(int(edge / width * nodes + (0.0 if large else 1.0)), 0), nodes)
    return CutNoise(cut, c, depth, large, window, nodes, range(first, nodes) if large else range(first))


def moments_of(noise: CutNoise, spacing: float, count: int, power: int) -> PairMoments:
    """Return B or D times ``2^power`` at ``c + i k h``, k = 0, 1, ..."""
    missed = math.exp(min(noise.log_missed + power * LOG_TWO, DEEPEST))
    with working_precision(BITS):
        return sums_along(*_terms(noise, power), spacing, count, missed)


def _terms(noise: CutNoise, power: int) -> tuple[list[Any], list[Any]]:
    """Return the terms of a moment times ``2^power`` and their losses, in balls of the current precision."""
    from flint import arb

    cut, window = noise.cut, noise.window
    place, sharp = arb(cut.place), 1 / (arb(2).sqrt() * arb(cut.width))
    scale = arb(2) ** power
    away = math.sqrt(2.0 * noise.depth) * cut.width + (window.high - window.low) / noise.nodes
    terms, losses = [], []
    step = StepKind(cut.q, cut.m, True, 0.0)
    for x, weight, loss in noise_terms(step, noise.c, window, cut.height, noise.nodes, noise.needed):
        term = weight * scale
        if abs(float(x.real.mid()) - cut.place) < away:  # else the weight of the cut is one but for nothing
            u = (place - x) * sharp if noise.large else (x - place) * sharp
            term *= u.erfc() / 2
        terms.append(term)
        losses.append(loss)
    return terms, losses
