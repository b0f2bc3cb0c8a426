r"""Where large losses hardly ever occur, but moments of all losses see nothing else: the line of small ones.

``prod A^k = prod B^k + (prod A^k - prod B^k)`` the other way round: the first is inverted along a line, and of the
second, at most ``prod A^k sum k D/A``, Chernoff's bound is added.

How the line of small losses dies: over the real noise, its tilted law lies above a sum of boxes, one a cell (every
factor of the density is monotone, and at least its lower end), and what a box of width d adds to the transform at y is
at most its mass times ``|sin v/v|`` for ``v = y d/2``: at most ``1 - v^2/6 + v^4/120``, which falls up to 3, and from
there on at most a quarter, or ``1/v``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from perinstance.numerics.rounding import CELL_SUM, CHERNOFF
from perinstance.pairs.loss_sums.sampled.large_losses.cut_estimates import CutEstimates, log_parts, pole
from perinstance.pairs.loss_sums.sampled.large_losses.cut_integral import CutLine
from perinstance.pairs.loss_sums.sampled.large_losses.cut_layout import (
    DIGITS,
    MOST_NODES,
    NOTHING,
    SOFT,
    Goal,
    Kinds,
    choose_place,
    cuts_at,
    least_nodes,
    log_outside,
    lowered,
    order_of_others,
)
from perinstance.pairs.loss_sums.sampled.large_losses.cut_moments import LOG_TWO, moments_of
from perinstance.pairs.loss_sums.sampled.large_losses.cut_window import cut_noise
from perinstance.pairs.loss_sums.sampled.large_losses.loss_cut import LossCut
from perinstance.pairs.loss_sums.sampled.log_moments import NORMAL
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.more_digits.pair_integral import PairLine, pair_line

#: The cut lies lower than epsilon by so many octaves.
OCTAVES = np.arange(-2.0, 5.0, 0.25).tolist()
#: Boxes of the noise, up to so far from its mean.
BOXES, WIDEST = (4, 6, 12, 36, 144, 576), 6.0
#: From here on ``|sin v/v|`` is at most .25, and from there at most 1/v.
TURNS, FAR_OFF = 2.6, 4.0
#: Exponents of e that are numbers.
MOST = 700.0


def bulk_cuts(kinds: Kinds, goal: Goal) -> Iterator[CutEstimates]:
    """Yield cuts above which losses do not reach epsilon, the softest first, each as low as it may be."""
    for soft in SOFT:
        cuts, best = cuts_at(kinds, goal, goal.epsilon, soft), None
        for octave in OCTAVES:
            try:
                found = lowered(cuts, goal, 2.0**-octave, bulk=True)
            except NotPreciseError:
                continue
            if found.other_heights(goal.epsilon).min() < goal.log_delta - NOTHING - 2.0:
                best = found
            elif best is not None:
                break
        if best is not None:
            yield best


def bulk_line(found: CutEstimates, goal: Goal, terms: int) -> tuple[CutLine, int]:
    """Return the line of small losses with the bound of all others, and the terms it took."""
    line, work = small_line(found, goal, terms)
    order = order_of_others(found, goal)
    return CutLine(line, log_large_losses(found.cuts, order), order, log_outside(found.cuts)), work


def small_line(found: CutEstimates, goal: Goal, terms: int) -> tuple[PairLine, int]:
    """Return the line of small losses alone, and the terms it took."""
    place = choose_place(found, goal)
    c, spacing = place
    logs = [float(log_parts(cut, np.array([c]), 1.0)[0][0]) for cut in found.cuts]
    allowed = goal.log_delta + c * goal.epsilon - math.log(spacing / (math.pi * c * (1.0 + c))) - NOTHING
    allowed -= sum(cut.steps * log for cut, log in zip(found.cuts, logs, strict=True))

    def log_rest(nodes: int, sizes: list[float]) -> float:
        spread = sum(
            cut.steps * log_spread(cut, c, log, spacing * nodes) for cut, log in zip(found.cuts, sizes, strict=True)
        )
        return spread + math.log(c * (1.0 + c) / (spacing**2 * (nodes - 1.0)))

    nodes = least_nodes(lambda count: log_rest(count, logs) <= allowed)
    if nodes > MOST_NODES:
        raise NotPreciseError("small losses do not die")
    noises = [
        cut_noise(cut, c, log - math.log(cut.steps) - DIGITS, large=False)
        for cut, log in zip(found.cuts, logs, strict=True)
    ]
    work = nodes * sum(noise.nodes for noise in noises)
    if work > terms:
        raise NotPreciseError(f"{work} terms")
    moments = [moments_of(noise, spacing, nodes, 0) for noise in noises]
    sizes = [math.log(part.values[0, 0].real + 2.0 * part.errors[0]) for part in moments]
    kinds = [(part, cut.steps) for part, cut in zip(moments, found.cuts, strict=True)]
    return pair_line(kinds, place, nodes, math.exp(log_rest(nodes, sizes))), work


def log_spread(cut: LossCut, c: float, log_size: float, y: float) -> float:
    """Return a bound of ``log |B(c + i y')/B(c)|``, y' >= y, from log B(c), or more: by the boxes that say most."""
    return min(_log_spread(cut, c, log_size, y, boxes) for boxes in BOXES)


def _log_spread(cut: LossCut, c: float, log_size: float, y: float, boxes: int) -> float:
    x = np.linspace(-WIDEST, WIDEST, boxes + 1)
    left, right = x[:-1], x[1:]
    furthest = np.maximum(np.abs(left), np.abs(right))
    log_slope = math.log(cut.m) - np.logaddexp(0.0, -cut.log_odds(right))
    density = (1.0 + c) * (cut.loss(left) + math.log1p(-cut.q)) + cut.log_small(right) - 0.5 * furthest**2 - NORMAL
    width = np.diff(cut.loss(x)) * (1.0 - CELL_SUM)
    log_mass = density - log_slope - log_size - CELL_SUM * (1.0 + abs(log_size))
    mass = np.exp(np.minimum(log_mass, MOST)) * width  # at least: far to the left no float tells two losses apart
    v = 0.5 * y * width
    near = np.minimum(v, TURNS)
    left = np.where(v > FAR_OFF, 1.0 / np.maximum(v, FAR_OFF), 1.0 - near**2 / 6.0 + near**4 / 120.0)
    return math.log1p(-min(float((mass * (1.0 - left)).sum()) * (1.0 - CELL_SUM), 1.0 - CELL_SUM))


def log_large_losses(cuts: list[LossCut], order: float) -> float:
    """Return the logarithm of Chernoff's bound of all but small losses, without epsilon, rounded up."""
    total, shares = 0.0, -np.inf
    for cut in cuts:
        about = [float(part[0]) for part in log_parts(cut, np.array([order]), 1.0)]
        logs = []
        for log, large in zip(about, (False, True), strict=True):
            power = -round(log / LOG_TWO)
            noise = cut_noise(cut, order, log - math.log(cut.steps) - DIGITS, large)
            found = moments_of(noise, 1.0, 1, power)
            logs.append(math.log(found.values[0, 0].real + 2.0 * found.errors[0]) - power * LOG_TWO)
        both = float(np.logaddexp(logs[0], logs[1]))
        total += cut.steps * (both + CHERNOFF * (1.0 + abs(both)))
        shares = float(np.logaddexp(shares, math.log(cut.steps) + logs[1] - both))
    rounding = CHERNOFF * (1.0 + order) * (8.0 + abs(math.log(order))) + CELL_SUM * (1.0 + abs(shares) + abs(total))
    return float(pole(np.array(order))) + total + shares + rounding
