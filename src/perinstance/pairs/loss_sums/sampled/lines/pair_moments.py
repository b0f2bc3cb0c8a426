r"""The moments of one Poisson-sampled Gaussian step along a line, in pairs of floats: about 28 digits of them.

``A(z) = sum_x a_x e^{i y lambda_x}`` at ``z = c + i y``. The weights ``a_x``, and the factors ``e^{i h lambda_x}`` from
one node of the line to the next, to the 32nd and to the 1,024th, are enclosed by balls (``noise_balls.py``) and rounded
to pairs; all else is products and sums.

**Rounding.** After ``i + 32 j + 1024 k`` nodes a term is the product of ``1 + i + j + k`` factors. Each product loses
at most ``PAIR_PRODUCT`` of its size (four products of floats are exact, the other operations act on low parts: 22 units
of 2^-106), each factor ``PAIR_ROUNDED``, each sum ``PAIR_SUM``; sums are taken of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.double_double_complex import product, total
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import PAIR_PRODUCT, PAIR_ROUNDED, PAIR_SUM
from perinstance.pairs.loss_sums.sampled.lines.noise_balls import NotPreciseError, enclosed_terms

DEPTH = 84.0  # e^-84 is as good as nothing in 106 bits
BITS = 160  # of the balls
TURN = 32  # nodes, and blocks of nodes, after which a product of factors begins afresh
SUMMED = 16  # terms of a block of the sum


@dataclass(frozen=True, slots=True)
class PairMoments:
    """A at the nodes of a line, a row of first and one of second floats; the errors of each node, absolutely."""

    values: Any
    errors: Floats


def moments_in_pairs(q: float, m: float, over: bool, place: tuple[float, float], nodes: int) -> PairMoments:
    """Return the moments of one kind of step at ``c + i k h``, k = 0, 1, ..., for the place ``(c, h)``."""
    with working_precision(BITS):
        balls = enclosed_terms(q, m, over, place[0], DEPTH)
        return sums_along(balls.weights, balls.losses, place[1], nodes, balls.missed)


def sums_along(terms: list[Any], losses: list[Any], spacing: float, nodes: int, missed: float) -> PairMoments:
    """Return ``sum_x a_x e^{i k h lambda_x}``, k = 0, 1, ..., of balls; ``missed`` is added to every error."""
    from flint import acb

    weights = in_pairs(terms)
    turns = [[(acb(0, spacing) * count * loss).exp() for loss in losses] for count in (1, TURN, TURN * TURN)]
    values = np.empty((2, nodes), np.complex128)
    fill_moments(weights, np.stack([in_pairs(each) for each in turns]), values)
    size = float(np.abs(weights[0]).sum())
    k = np.arange(nodes)
    count = 2.0 + k % TURN + k // TURN % TURN + k // TURN**2
    lost = 1.1 * (PAIR_PRODUCT + PAIR_ROUNDED) * count + PAIR_SUM * (SUMMED + len(losses) // SUMMED + 4.0)
    return PairMoments(values, np.asarray(1.001 * size * lost + missed, dtype=np.float64))


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


@exact_kernel
def fill_moments(weights, turns, out):
    """Fill in ``sum_x a_x e^{i k h lambda_x}``, k = 0, 1, ...; ``turns`` are the factors after 1, 32, 1,024 nodes."""
    noise, nodes = weights.shape[1], out.shape[1]
    here, block, long = weights.copy(), weights.copy(), weights.copy()
    for k in range(nodes):
        if k > 0 and k % (TURN * TURN) == 0:
            _turn(long, turns[2])
            block[:] = long
            here[:] = long
        elif k > 0 and k % TURN == 0:
            _turn(block, turns[1])
            here[:] = block
        elif k > 0:
            _turn(here, turns[0])
        value, low = 0.0j, 0.0j
        for start in range(0, noise, SUMMED):
            part, part_low = 0.0j, 0.0j
            for i in range(start, min(start + SUMMED, noise)):
                part, part_low = total(part, part_low, here[0, i], here[1, i])
            value, low = total(value, low, part, part_low)
        out[0, k], out[1, k] = value, low


@exact_kernel
def _turn(terms, turns):
    """Multiply terms by their factors."""
    for i in range(terms.shape[1]):
        terms[0, i], terms[1, i] = product(terms[0, i], terms[1, i], turns[0, i], turns[1, i])
