r"""The moments B and D of small and of large losses along a line, in pairs of floats.

Each is a sum over the noise as in ``noise_balls.py``, with the weights of the cut, and an error larger by their growth
off the real line. D may be smaller than B by hundreds of orders of magnitude; it is summed over a window of its own,
times a power of two.
"""

from __future__ import annotations

import math
from typing import Any

from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.pairs.loss_sums.sampled.large_losses.cut_window import DEEPEST, CutNoise
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import END
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import noise_terms
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import BITS, PairMoments, sums_along
from perinstance.pairs.loss_sums.sampled.noise_cells import StepKind

LOG_TWO = math.log(2.0)


def moments_of(noise: CutNoise, spacing: float, count: int, power: int) -> PairMoments:
    """Return B or D times ``2^power`` at ``c + i k h``, k = 0, 1, ..."""
    missed = math.exp(min(noise.log_missed + power * LOG_TWO, DEEPEST))
    with working_precision(BITS):
        return sums_along(*_terms(noise, power), spacing, count, missed)


def _terms(noise: CutNoise, power: int) -> tuple[list[Any], list[Any]]:
    """Return the terms of a moment times ``2^power`` and their losses, in balls of the current precision."""
    from flint import arb

    cut = noise.cut
    place, sharp, sharp_end = arb(cut.place), 1 / (arb(2).sqrt() * arb(cut.width)), 1 / (arb(2).sqrt() * END)
    scale = arb(2) ** power
    deep, wide = math.sqrt(2.0 * noise.depth), (noise.high - noise.low) / noise.nodes
    terms, losses = [], []
    step = StepKind(cut.q, cut.m, True, 0.0)
    for x, weight, loss in noise_terms(step, noise.c, (noise.low, noise.high), cut.height, noise.nodes):
        term = weight * scale
        u = place - x if noise.large else x - place
        if float(u.real.mid()) > -(deep * cut.width + wide):  # else the weight of the cut is one but for nothing
            term *= (u * sharp).erfc() / 2
        u = x - cut.last
        if float(u.real.mid()) > -(deep * END + wide):
            term *= (u * sharp_end).erfc() / 2
        terms.append(term)
        losses.append(loss)
    return terms, losses
