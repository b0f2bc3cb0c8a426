r"""``log A(z_k)/A(c)`` of one kind of step in pairs of floats, which people who take the same steps share.

Whatever its branch, ``e^{steps log}`` is the power: people take a whole number of steps. Where ``A/A(c)`` is known to
``off``, its logarithm is known to ``off`` over its size, and to what the logarithm itself loses
(``pair_functions.py``). A sum over J kinds loses at most ``2 J PAIR_SUM`` of the sizes of what it adds up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.double_double import over, plus, times
from perinstance.numerics.double_double_complex import scaled, total
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.numerics.rounding import (
    NODE_ROUNDING,
    PAIR_EXPONENTIAL,
    PAIR_PRODUCT,
    PAIR_SUM,
    VANISHED,
)
from perinstance.pairs.loss_sums.sampled.log_moments import log_one_plus
from perinstance.pairs.loss_sums.sampled.more_digits.pair_functions import exp_complex, log1p_complex, log1p_lost

SURE = 0.1  # of a term: an error beyond which its phase counts as unknown
LEAST = math.log(VANISHED)
UNKNOWN = 1e200  # zero steps of it are zero


@dataclass(frozen=True, slots=True)
class PairLogs:
    """Real and imaginary parts of the first floats, then of the second; the error of each node, and the most it may be.

    ``first`` is log A(c), rounded up by its error.
    """

    values: Floats
    errors: Floats
    most: Floats
    first: float


def logs_over_first(values: Any, errors: Floats, near: int | None = None) -> PairLogs:
    """Return the logarithms of moments in pairs, over the first, from their absolute errors.

    From a node on they are floats.
    """
    found, off, most = np.empty((4, errors.size)), np.empty(errors.size), np.empty(errors.size)
    fill_logs(values, errors, errors.size if near is None else near, found, off, most)
    high, low = values[:, 0].real.tolist()
    return PairLogs(found, off, most, log_of_pair(high, low) + 1.1 * float(errors[0]) / high)


def log_of_pair(first: float, low: float) -> float:
    """Return the logarithm of a positive pair, without loss where it is next to one."""
    return math.log1p((first - 1.0) + low) if 0.5 < first < 2.0 else math.log(first) + low / first


@exact_kernel
def fill_logs(values, errors, near, out, off, most):
    """Fill in the logarithms, their errors, and logarithms of the most that ``|A/A(c)|`` may be.

    From the node ``near`` on logarithms are floats.
    """
    one, one_low = over(1.0, 0.0, values[0, 0].real, values[1, 0].real)
    for k in range(errors.size):
        a, a_low = scaled(values[0, k], values[1, k], one, one_low)
        size = abs(a)
        lost = 1.01 * (errors[k] + errors[0] * size) / values[0, 0].real + 4.0 * PAIR_PRODUCT * size + 6.0 * PAIR_SUM
        most[k] = math.log(size + lost + VANISHED)
        if not lost < SURE * size:
            out[:, k], off[k] = 0.0, UNKNOWN
            continue
        a, a_low = total(a, a_low, -1.0 + 0.0j, 0.0j)
        if k >= near:
            log = log_one_plus(a)
            out[0, k], out[1, k], out[2, k], out[3, k] = log.real, log.imag, 0.0, 0.0
            off[k] = 1.06 * lost / size + 8.0 * NODE_ROUNDING * (abs(a) + abs(log))
            continue
        log, low = log1p_complex(a, a_low)
        out[0, k], out[1, k], out[2, k], out[3, k] = log.real, log.imag, low.real, low.imag
        # log(1 + x) is at most 1.06 x in size where |x| < 1/10
        off[k] = 1.06 * lost / size + 1.01 * log1p_lost(a, log)


@exact_kernel
def add_logs(logs, errors, steps, steps_low, sums, lost):
    """Add steps, a pair, times the logarithms to sums of pairs; errors and sizes to the two rows of ``lost``."""
    size = abs(steps)
    for k in range(lost.shape[1]):
        for part in range(2):
            high, low = times(logs[part, k], logs[part + 2, k], steps, steps_low)
            sums[part, k], sums[part + 2, k] = plus(sums[part, k], sums[part + 2, k], high, low)
        lost[0, k] += size * errors[k]
        lost[1, k] += size * (abs(logs[0, k]) + abs(logs[1, k]))


@exact_kernel
def fill_powers(sums, lost, kinds, terms, errors):
    """Fill in the exponentials of sums over so many kinds, and their errors, relatively.

    Terms that are not known to some digits, or next to nothing, are zero, and their errors infinite.
    """
    for k in range(errors.size):
        K, K_low = complex(sums[0, k], sums[1, k]), complex(sums[2, k], sums[3, k])
        off = 1.01 * (lost[0, k] + 2.0 * kinds * PAIR_SUM * lost[1, k]) + PAIR_EXPONENTIAL * (1.0 + 0.5 * abs(K))
        if off < SURE and LEAST < K.real < -LEAST:
            terms[0, k], terms[1, k] = exp_complex(K, K_low)
            errors[k] = off
        else:
            terms[0, k], terms[1, k], errors[k] = 0.0j, 0.0j, np.inf
