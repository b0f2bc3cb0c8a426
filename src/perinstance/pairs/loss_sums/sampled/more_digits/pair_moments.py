r"""The moments of one Poisson-sampled Gaussian step along a line, in pairs of floats: about 28 digits of them.

``A(z) = sum_x a_x e^{i y lambda_x}`` at ``z = c + i y``. The weights ``a_x``, and the factors ``e^{i h lambda_x}`` from
one node of the line to the next, to the 32nd and to the 1,024th, are pairs (``noise_pairs.py``), or balls that are
rounded to pairs; all else is products and sums.

**Rounding.** After ``i + 32 j + 1024 k`` nodes a term is the product of ``1 + i + j + k`` factors. Each product loses
at most ``PAIR_PRODUCT`` of its size (four products of floats are exact, the other operations act on low parts: 22 units
of 2^-106), each factor ``PAIR_EXPONENTIAL``, or ``PAIR_ROUNDED`` of balls, and each sum ``PAIR_SUM``; sums are taken of
blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import PAIR_EXPONENTIAL, PAIR_PRODUCT, PAIR_ROUNDED, PAIR_SUM
from perinstance.pairs.loss_sums.sampled.more_digits.far_moments import moments_from
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError, precise_window
from perinstance.pairs.loss_sums.sampled.more_digits.noise_pairs import fill_turns, noise_in_pairs
from perinstance.pairs.loss_sums.sampled.more_digits.pair_logs import PairLogs, logs_over_first
from perinstance.pairs.loss_sums.sampled.more_digits.pair_sums import LANES, TURN, additions, fill_sums
from perinstance.pairs.loss_sums.sampled.noise_cells import StepKind

DEPTH = 84.0  # e^-84 is as good as nothing in 106 bits
BITS = 160  # of the balls


@dataclass(frozen=True)
class PairMoments:
    """A at the nodes of a line, a row of first and one of second floats; the errors of each node, absolutely.

    Those from ``near`` on, if there is such a node, are known to fewer digits.
    """

    values: Any
    errors: Floats
    near: int | None = None

    @cached_property
    def logs(self) -> PairLogs:
        """Return logarithms over the first."""
        return logs_over_first(self.values, self.errors, self.near)


def moments_in_pairs(
    q: float, m: float, over: bool, place: tuple[float, float], nodes: int, near: int | None = None
) -> PairMoments:
    """Return the moments of one kind of step at ``c + i k h``, k = 0, 1, ..., for the place ``(c, h)``.

    From the node ``near`` on with floats (``far_moments.py``).
    """
    step, (c, spacing) = StepKind(q, m, over, 0.0), place
    window, noise, missed = precise_window(step, c, DEPTH)
    found = noise_in_pairs(step, c, (window.low, window.high), window.theta, noise, LANES)
    turns = np.empty((3, *found.losses.shape))
    fill_turns(found.losses, spacing * np.array([1.0, TURN, TURN * TURN]), turns)
    near = nodes if near is None else min(near, nodes)
    values, lost = np.empty((4, nodes)), np.zeros(nodes)
    sums = np.empty((4, near))
    fill_sums(found.weights, turns, sums)
    values[:, :near] = sums
    if near < nodes:
        values[:, near:], lost[near:] = moments_from(found, _least_loss(q, over), spacing, near, nodes)
    off = missed + found.off_weight + found.off_loss * spacing * np.arange(float(nodes)) + lost
    return replace(_moments(values, found.size, noise, PAIR_EXPONENTIAL, off), near=near)


def _least_loss(q: float, over: bool) -> Floats:
    """Return ``+-log(1 - q)`` as a pair."""
    from flint import acb, arb

    with working_precision(BITS):
        log = (1 - arb(q)).log()
        return np.asarray(in_pairs([acb(log if over else -log)])[:, 0].real)


def sums_along(terms: list[Any], losses: list[Any], spacing: float, nodes: int, missed: float) -> PairMoments:
    """Return ``sum_x a_x e^{i k h lambda_x}``, k = 0, 1, ..., of balls; ``missed`` is added to every error."""
    from flint import acb

    weights = in_pairs(terms)
    turns = [[(acb(0, spacing) * count * loss).exp() for loss in losses] for count in (1, TURN, TURN * TURN)]
    values = np.empty((4, nodes))
    fill_sums(_in_eights(weights), np.stack([_in_eights(in_pairs(each)) for each in turns]), values)
    size = float(np.abs(weights[0]).sum())
    return _moments(values, size, len(losses), PAIR_ROUNDED, np.full(nodes, missed))


def _moments(values: Floats, size: float, noise: int, factor: float, off: Floats) -> PairMoments:
    """Return sums with their errors: those of their terms ``off``, and of a factor."""
    k = np.arange(values.shape[1])
    count = 2.0 + k % TURN + k // TURN % TURN + k // TURN**2
    lost = 1.1 * (PAIR_PRODUCT + factor) * count + PAIR_SUM * additions(noise)
    return PairMoments(values[::2] + 1j * values[1::2], np.asarray(1.001 * (size * lost + off), dtype=np.float64))


def in_pairs(balls: list[Any]) -> Any:
    """Return the middles of balls as sums of two complex floats each; their radii must be next to nothing."""
    out = np.empty((2, len(balls)), np.complex128)
    for i, ball in enumerate(balls):
        high = complex(float(ball.real), float(ball.imag))
        rest = ball - high
        out[0, i], out[1, i] = high, complex(float(rest.real), float(rest.imag))
        if not float(ball.rad()) <= PAIR_ROUNDED / 8.0 * abs(high):  # another thread may have asked for fewer digits
            raise NotPreciseError("a ball is too wide")
    return out


def _in_eights(pairs: Any) -> Floats:
    """Return complex pairs as four rows of floats (``pair_sums.py``), with zeros at their end."""
    out = np.zeros((4, -(-pairs.shape[1] // LANES) * LANES))
    out[:, : pairs.shape[1]] = pairs[0].real, pairs[0].imag, pairs[1].real, pairs[1].imag
    return out
