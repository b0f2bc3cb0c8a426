r"""Inversion along a hyperbola ``z = c + w (i sinh u + b (cosh u - 1))``, for people who are seldom sampled.

Most of their loss is next to one number, left of epsilon (with over without them) or right of it, so that e^K does not
die along a straight line. Bent to the right, or to the left, ``e^{K(z) - z epsilon}`` does, and the trapezoidal rule in
u converges geometrically: all that halving the step changes is charged.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import (
    BENT_STEP,
    LAST_STEP,
    LOGARITHM,
    NEGLIGIBLE,
    NODE_ROUNDING,
    PROMISED,
    PROMISED_ABSOLUTE,
)
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.laplace_atoms import exp
from perinstance.pairs.loss_sums.sampled.bent_moments import fill_bent
from perinstance.pairs.loss_sums.sampled.line_choice import cumulants_at
from perinstance.pairs.loss_sums.sampled.line_tables import LineTables
from perinstance.pairs.loss_sums.sampled.other_cumulants import add_cumulants_at

#: Steps of u and how far it goes, one after the other until one serves.
RULES = ((0.0625, 12.0), (0.02, 12.0))
BENDS = (0.3,)
#: No bent contour beyond this distance: the noise would need too many nodes.
FARTHEST_BENT = 10.0


@kernel
def _bent_sums(epsilon, places, values, weights, error):
    """Return the sum at an epsilon, the same with z - c as a factor, with the double step, of moduli, and the error.

    Each is relative to ``e^{K(c) - c epsilon}``; then whether the integrand has died.
    """
    n = places.size
    c = places[0].real
    total, moved, coarse, mass, lost = 0.0, 0.0, 0.0, 0.0, 0.0
    quiet = 0
    for k in range(n):
        away = places[k] - c
        exponent = complex(values[k] - values[0], values[n + k]) - away * epsilon
        if exponent.real > 40.0:
            return 0.0, 0.0, 0.0, np.inf, np.inf, False
        f = exp(exponent) * weights[k]
        size = abs(f)
        total += f.real
        moved += (away * f).real
        mass += size
        lost += size * (error[k] + NODE_ROUNDING * (8.0 + abs(values[n + k]) + 2.0 * abs(away) * epsilon))
        if k % 2 == 0:
            coarse += 2.0 * f.real
        quiet = quiet + 1 if size < NEGLIGIBLE * abs(total) else 0
        if quiet == 6:
            return total, moved, coarse, mass, lost, True
    return total, moved, coarse, mass, lost, False


@kernel
def bent_solve(goal, edge, places, values, weights, error):
    """Return epsilon and its slack for a log delta, ``goal[0]``, from ``goal[1]`` on; infinite where it fails."""
    c = places[0].real
    low, high, epsilon = 0.0, edge, goal[1]
    excess, rate, charged = np.inf, c, np.inf
    for _ in range(80):
        total, moved, coarse, mass, lost, dead = _bent_sums(epsilon, places, values, weights, error)
        if not dead or not total > 0.0:
            return np.inf, np.inf
        base = values[0] - c * epsilon
        excess = base + math.log(total) - goal[0]
        rate = c + moved / total
        change = abs(coarse - total) / total
        charged = lost / total + change if change < BENT_STEP else np.inf
        charged += NODE_ROUNDING * 4.0 * (4.0 + abs(values[0]) + c * epsilon) + LOGARITHM * (4.0 + abs(goal[0]))
        if excess > 0.0:
            low = epsilon
        else:
            high = epsilon
            if epsilon == 0.0:
                return (0.0, 0.0) if excess <= -charged else (0.0, (charged + abs(excess)) / rate)
        new = epsilon + excess / rate if rate > 0.0 else 0.5 * (low + high)
        if not low <= new <= high:
            new = 0.5 * (low + high) if high < np.inf else 2.0 * epsilon + 1.0
        if abs(excess) < LAST_STEP or new == epsilon:
            break
        epsilon = new
    return epsilon, (charged + abs(excess)) / rate


@kernel
def bent_profile(epsilon, places, values, weights, error):
    """Return log delta at an epsilon, minus its slope, and its error; infinite where it fails."""
    c = places[0].real
    total, moved, coarse, _mass, lost, dead = _bent_sums(epsilon, places, values, weights, error)
    change = abs(coarse - total) / total if total > 0.0 else np.inf
    if not (dead and change < BENT_STEP):
        return 0.0, 0.0, np.inf
    charged = lost / total + change
    charged += NODE_ROUNDING * 4.0 * (4.0 + abs(values[0]) + c * epsilon)
    return values[0] - c * epsilon + math.log(total), c + moved / total, charged


def invert_bent(view: LossCoordinates, tables: LineTables, c: float, goal: Floats, solving: bool) -> Floats:
    """Return epsilon and slack of one person for a goal (log delta, start, largest loss), or the profile at the start.

    Of the profile: log delta, rate and error. The last entry is infinite where no contour serves.
    """
    steps = view.sampled
    assert steps is not None
    kinds = steps.kinds()
    if steps.distances[kinds].max() > FARTHEST_BENT:
        return np.array([np.inf, np.inf] if solving else [0.0, 0.0, np.inf])
    curve = float(cumulants_at(view, tables, np.array([c]))[0, 2])
    w = 1.0 / math.sqrt(curve + 1.0 / c**2 + 1.0 / (1.0 + c) ** 2)
    best = np.array([np.inf, np.inf] if solving else [0.0, 0.0, np.inf])
    for bend, (h, end) in itertools.product(BENDS, RULES):
        u = np.arange(0.0, end, h)
        b = bend if steps.over else -bend
        places = c + w * (1j * np.sinh(u) + b * (np.cosh(u) - 1.0))
        weights = h / np.pi * w * (np.cosh(u) - 1j * b * np.sinh(u)) / (places * (1.0 + places))
        weights[0] *= 0.5
        values, error = np.empty((kinds.size, 2 * u.size)), np.zeros(u.size)
        kl = steps.kl[1 if steps.over else 0][kinds]
        fill_bent(steps.rates[kinds], steps.distances[kinds], kl, steps.over, places, values, error)
        own = np.ascontiguousarray(steps.total(values, kinds))
        lost = own[:, :1] * error
        if view.has_others:
            add_cumulants_at(places, view.losses, own, lost)
        if solving:
            found = np.array(bent_solve(goal, goal[2], places, own[0], weights, lost[0]))
            good = sum(found) < sum(best) and np.isfinite(found[-1])
        else:
            found = np.array(bent_profile(goal[1], places, own[0], weights, lost[0]))
            good = found[-1] < best[-1]
        best = found if good else best
        if serves(best, solving):
            break
    return best


def serves(row: Floats, solving: bool) -> bool:
    """Whether a bent contour gave what is promised: an epsilon, or a delta."""
    if solving:
        return bool(np.isfinite(row[0]) and row[1] <= max(0.25 * PROMISED * row[0], 0.5 * PROMISED_ABSOLUTE))
    return bool(row[2] < 0.1 * PROMISED)
