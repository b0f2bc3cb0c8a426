"""The noise over which small and large losses are summed up, and how much such sums miss.

Integrands are bounded on cells of the real line and on the strip above them, as in ``noise_cells``, here with the
weight of the cut: large losses may be e^-600 of all, and ask for no more digits than small ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import LossCut
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import LARGEST, NotPreciseError
from perinstance.pairs.loss_sums.sampled.noise_cells import REACH

CELL = 1.0 / 32.0
MOST_NOISE = 400_000
DEEPEST = 700.0


@dataclass(frozen=True, slots=True)
class CutNoise:
    """A window of the noise, its nodes, and logarithms: of what lies around it, and of all that the sum is off by."""

    cut: LossCut
    c: float
    large: bool
    depth: float
    low: float
    high: float
    nodes: int
    log_out: float
    log_missed: float


def cut_noise(cut: LossCut, c: float, log_allowed: float, large: bool) -> CutNoise:
    """Return the noise of small or of large losses such that sums over it are off by ``e^log_allowed``, about."""
    x: Floats = -REACH + CELL * np.arange(int((REACH + cut.end) / CELL) + 2, dtype=np.float64)
    loss = cut.loss(x) + math.log1p(-cut.q)
    log = loss + np.maximum(c * loss, 0.0) - 0.5 * x * x
    # the logarithm bends by -1 at the least, weights are monotone
    bounds = np.maximum(log[1:], log[:-1]) + 0.125 * CELL**2 + 2.0 * cut.height**2
    bounds += cut.growth + cut.log_inside(x[:-1]) + (cut.log_large(x[1:]) if large else cut.log_small(x[:-1]))
    scale = float(bounds.max())
    depth = scale - log_allowed
    inside = np.flatnonzero(bounds > log_allowed)
    if not (0.0 < depth < DEEPEST and inside.size and (large or scale < LARGEST)):
        raise NotPreciseError(f"a step of rate {cut.q} and distance {cut.m}, cut at {cut.level}")
    first, last = max(int(inside[0]) - 1, 0), min(int(inside[-1]) + 1, len(bounds) - 1)
    low, high = float(x[first]), float(x[last + 1])
    nodes = int((high - low) * depth / (2.0 * math.pi * cut.height)) + 1
    if nodes > MOST_NOISE:
        raise NotPreciseError(f"a step of rate {cut.q} and distance {cut.m}, cut at {cut.level}")
    sizes = np.exp(bounds - scale)
    strip = CELL * float(sizes.sum())
    # of what lies around the window and on the sides of the strip, of the rule, of weights that are said to be one
    out = (CELL + 4.0 * cut.height) * float(sizes[: first + 1].sum() + sizes[last:].sum())
    missed = out + 2.1 * math.exp(-2.0 * math.pi * cut.height * nodes / (high - low)) * strip
    missed += 4.0 * math.exp(-depth) * strip * (1.0 + (high - low) / (nodes * CELL))  # a sum over nodes
    logs = (scale + math.log(1.001 * max(part, math.exp(-DEEPEST))) for part in (out, missed))
    return CutNoise(cut, c, large, depth, low, high, nodes, *logs)
