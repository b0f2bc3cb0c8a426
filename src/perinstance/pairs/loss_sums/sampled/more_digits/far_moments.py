r"""Moments far along a line, where floats do most of the work.

With ``lambda = lambda_0 + l``, ``lambda_0 = +-log(1 - q)``, most of the noise has a small l. At the node b + j

``e^{-i (b + j) h lambda_0} A = sum a + sum a P + sum a Q + sum a P Q``,

``P = e^{i b h l} - 1``, ``Q = e^{i j h l} - 1``: the first three are sums in pairs of floats, one for each block of
nodes and one for each place in a block. The last one is a product of two matrices, and small: it is taken in floats,
over some nodes of the noise at a time.

**Rounding.** Of every number of the last sum at most ``(3 + 2 CHUNK) u`` of the sum of ``|a P Q|``, in each of two
products of real matrices, and one u for each sum over the parts, u half a unit; real and imaginary parts together twice
that. Of the others what pairs lose (``pair_moments.py``).
"""

from __future__ import annotations

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.double_double import plus
from perinstance.numerics.double_double_complex import product, total
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import NODE_ROUNDING, PAIR_EXPONENTIAL, PAIR_PRODUCT, PAIR_SUM
from perinstance.pairs.loss_sums.sampled.more_digits.noise_pairs import NoisePairs, fill_turns

#: Nodes of a block, and of the noise at a time.
BLOCK, CHUNK = 256, 64


def moments_from(found: NoisePairs, least: Floats, spacing: float, first: int, nodes: int) -> tuple[Floats, Floats]:
    """Return the moments at ``c + i k h`` from a first node on, up to so many: four rows; and what they lose here.

    ``least`` is lambda_0, a pair.
    """
    count, noise = -(-(nodes - first) // BLOCK), found.losses.shape[1]
    losses = found.losses.copy()
    less_than(losses, least)
    turns = np.empty((3, 4, noise))
    fill_turns(losses, spacing * np.array([float(first), 1.0, float(BLOCK)]), turns)
    starts, sums = np.empty((2, count, noise)), np.empty((4, count))
    fill_powers_less_one(found.weights, turns[0], turns[2], True, starts, sums)
    within, others, one = np.empty((2, BLOCK, noise)), np.empty((4, BLOCK)), np.zeros((4, noise))
    one[0] = 1.0
    fill_powers_less_one(found.weights, one, turns[1], False, within, others)
    last = np.zeros((2, count, BLOCK))
    for at in range(0, noise, CHUNK):
        (a, b), (p, q) = starts[:, :, at : at + CHUNK], within[:, :, at : at + CHUNK]
        last[0] += np.hstack([a, -b]) @ np.hstack([p, q]).T
        last[1] += np.hstack([a, b]) @ np.hstack([q, p]).T
    size = np.hypot(*starts) @ np.hypot(*within).max(axis=0)
    lost = 2.0 * NODE_ROUNDING * (2.0 * CHUNK + noise / CHUNK + 8.0) * 1.01 * np.repeat(size, BLOCK)
    phase, out = np.zeros((2, 4, 1)), np.empty((4, count * BLOCK))
    fill_turns(np.array([[least[0]], [0.0], [least[1]], [0.0]]), spacing * np.array([float(first), 1.0]), phase)
    whole = np.zeros(4)
    add_up(found.weights, whole)
    put_together(whole, sums, others, last, phase[:, :, 0], out)
    # of products of factors: those of blocks, of places in them, and of the phase
    factors = np.repeat(np.arange(1.0, count + 1.0), BLOCK) + 2.0 * BLOCK + 16.0
    factors += 2.0 * (1.0 + np.arange(count * BLOCK))
    lost += found.size * ((PAIR_PRODUCT + PAIR_SUM + 1.5 * PAIR_EXPONENTIAL) * factors + 3.0 * PAIR_SUM * noise)
    return out[:, : nodes - first], lost[: nodes - first]


@exact_kernel
def less_than(losses, least):
    """Take a real pair from complex ones."""
    for x in range(losses.shape[1]):
        losses[0, x], losses[2, x] = plus(losses[0, x], losses[2, x], -least[0], -least[1])


@exact_kernel
def add_up(terms, out):
    """Add up complex pairs."""
    high, low = 0.0j, 0.0j
    for x in range(terms.shape[1]):
        high, low = total(high, low, complex(terms[0, x], terms[1, x]), complex(terms[2, x], terms[3, x]))
    out[0], out[1], out[2], out[3] = high.real, high.imag, low.real, low.imag


@exact_kernel
def fill_powers_less_one(weights, first, turn, weighed, out, sums):
    """Fill in rows of ``first turn^k - 1``, k = 0, 1, ..., rounded to floats, times the weights or not.

    And their sums over the noise, times the weights, in pairs.
    """
    noise, count = weights.shape[1], out.shape[1]
    sums[:] = 0.0
    for x in range(noise):
        a, a_low = complex(weights[0, x], weights[1, x]), complex(weights[2, x], weights[3, x])
        here, low = complex(first[0, x], first[1, x]), complex(first[2, x], first[3, x])
        factor, factor_low = complex(turn[0, x], turn[1, x]), complex(turn[2, x], turn[3, x])
        for k in range(count):
            if k > 0:
                here, low = product(here, low, factor, factor_low)
            less, less_low = total(here, low, -1.0 + 0.0j, 0.0j)
            term, term_low = product(a, a_low, less, less_low)
            part = term if weighed else less
            out[0, k, x], out[1, k, x] = part.real, part.imag
            high, rest = complex(sums[0, k], sums[1, k]), complex(sums[2, k], sums[3, k])
            high, rest = total(high, rest, term, term_low)
            sums[0, k], sums[1, k], sums[2, k], sums[3, k] = high.real, high.imag, rest.real, rest.imag


@exact_kernel
def put_together(whole, sums, others, last, phase, out):
    """Fill in the moments: all four sums, times ``e^{i k h lambda_0}``."""
    turn, turn_low = complex(phase[0, 0], phase[0, 1]), complex(phase[0, 2], phase[0, 3])
    factor, factor_low = complex(phase[1, 0], phase[1, 1]), complex(phase[1, 2], phase[1, 3])
    count, block = last.shape[1], last.shape[2]
    for b in range(count):
        start, start_low = complex(sums[0, b], sums[1, b]), complex(sums[2, b], sums[3, b])
        start, start_low = total(start, start_low, complex(whole[0], whole[1]), complex(whole[2], whole[3]))
        for j in range(block):
            high, low = total(
                start, start_low, complex(others[0, j], others[1, j]), complex(others[2, j], others[3, j])
            )
            high, low = total(high, low, complex(last[0, b, j], last[1, b, j]), 0.0j)
            high, low = product(high, low, turn, turn_low)
            k = b * block + j
            out[0, k], out[1, k], out[2, k], out[3, k] = high.real, high.imag, low.real, low.imag
            turn, turn_low = product(turn, turn_low, factor, factor_low)
