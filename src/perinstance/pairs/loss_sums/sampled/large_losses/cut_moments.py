r"""The moments B and D of small and of large losses along a line, in pairs of floats.

Each is a sum over the noise as in ``noise_balls.py``, with the weights of the cut, and an error larger by their growth
off the real line. Noise whose weight is next to nothing is left out: that much of all the noise is charged. D may be
smaller than B by hundreds of orders of magnitude; it is summed over a window of its own, times a power of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import PAIR_PRODUCT, PAIR_ROUNDED, PAIR_SUM
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import LossCut
from perinstance.pairs.loss_sums.sampled.lines.noise_balls import NotPreciseError, ball_digits
from perinstance.pairs.loss_sums.sampled.lines.pair_moments import (
    BITS,
    SUMMED,
    TURN,
    PairMoments,
    fill_moments,
    in_pairs,
)
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
    if not (cut.height <= window.theta and nodes <= MOST_NOISE and depth < DEEPEST):
        raise NotPreciseError(f"a step of rate {cut.q} and distance {cut.m}, cut at {cut.level}")
    away = math.sqrt(2.0 * depth) * cut.width
    edge = (cut.place - away if large else cut.place + away) - window.low
    first = min(max(int(edge / width * nodes + (0.0 if large else 1.0)), 0), nodes)
    return CutNoise(cut, c, depth, large, window, nodes, range(first, nodes) if large else range(first))


def moments_of(noise: CutNoise, spacing: float, count: int, power: int) -> PairMoments:
    """Return B or D times ``2^power`` at ``c + i k h``, k = 0, 1, ..."""
    from flint import acb, arb

    with ball_digits(BITS):
        terms, losses = _terms(noise, power)
        weights = in_pairs(terms)
        turns = [[(acb(0, arb(spacing) * nodes) * loss).exp() for loss in losses] for nodes in (1, TURN, TURN * TURN)]
        factors = np.stack([in_pairs(each) for each in turns])
    values = np.empty((2, count), np.complex128)
    fill_moments(weights, factors, values)
    missed = math.exp(min(noise.log_missed + power * LOG_TWO, DEEPEST))
    return PairMoments(values, _errors(float(np.abs(weights[0]).sum()), len(losses), count) + missed)


def _errors(size: float, terms: int, count: int) -> Floats:
    """Return what products and sums of pairs have lost at each node (``pair_moments.py``)."""
    k = np.arange(count)
    factors = 2.0 + k % TURN + k // TURN % TURN + k // TURN**2
    lost = 1.1 * (PAIR_PRODUCT + PAIR_ROUNDED) * factors + PAIR_SUM * (SUMMED + terms // SUMMED + 4.0)
    return np.asarray(1.001 * size * lost, dtype=np.float64)


def _terms(noise: CutNoise, power: int) -> tuple[list[Any], list[Any]]:
    """Return the terms of a moment times ``2^power`` and their losses, in balls of the current precision."""
    from flint import acb, arb

    cut, window = noise.cut, noise.window
    low, theta = arb(window.low), arb(cut.height)
    width = (arb(window.high) - low) / noise.nodes
    rate, apart, order = arb(cut.q), arb(cut.m), arb(noise.c)
    place, sharp = arb(cut.place), 1 / (arb(2).sqrt() * arb(cut.width))
    unit = width / (2 * arb.pi()).sqrt() * arb(2) ** power
    away = math.sqrt(2.0 * noise.depth) * cut.width
    step = (window.high - window.low) / noise.nodes
    terms, losses = [], []
    for i in noise.needed:
        x = acb(low + (2 * i + 1) * width / 2, theta)
        loss = (1 - rate + rate * (apart * x - apart * apart / 2).exp()).log()
        term = ((1 + order) * loss - x * x / 2).exp() * unit
        if abs(window.low + (i + 0.5) * step - cut.place) < away + step:  # else the weight is one but for nothing
            u = (place - x) * sharp if noise.large else (x - place) * sharp
            term *= u.erfc() / 2
        terms.append(term)
        losses.append(loss)
    return terms, losses
