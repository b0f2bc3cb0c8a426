r"""Profiles of a sum of losses at every point of its lattice, from point to point: positive numbers only, rounded up.

``E[(e^{g - t} - 1)_+]`` with the person, downwards from the last point, and ``E[(1 - e^{g - t})_+]`` without, upwards
from the first, follow the same recursion: a profile and the mass behind it, both times the scale at t, become

``profile' = e^{b h} profile + e^{max(a, b) h} (1 - e^{-h}) (behind + mass)``,   ``behind' = e^{a h} (behind + mass)``,

h further on; with the order of the scale ``(a, b) = (-order, 1 - order)`` and ``(order, order - 1)``.

One rounding a point would add up to 1e-9 over millions of points. So each block of points begins with nothing behind
it, and what lay behind the block is carried to its points in one go, by the same formula with a larger h.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import UNIT

BLOCK = 2048


@kernel
def _factors(h, a, b):
    """Return the three factors of the recursion, rounded up by what they and the two operations after them may lose."""
    up = 1.0 + UNIT * (8.0 + 2.0 * h * (1.0 + abs(a) + abs(b)))
    return math.exp(a * h) * up, math.exp(b * h) * up, -math.exp(max(a, b) * h) * math.expm1(-h) * up


@kernel
def fill_profiles(masses, start, spacing, orders, profile, behind):
    """Fill in profile and mass behind at every point; the first are given, masses are in the order of the walk."""
    a, b = orders
    size = min(BLOCK, masses.size)
    falls, stays, jumps = np.empty(size + 1), np.empty(size + 1), np.empty(size + 1)
    for i in range(size + 1):
        falls[i], stays[i], jumps[i] = _factors(spacing * i, a, b)
    before, mass = start
    for first in range(0, masses.size, size):
        own, own_mass = 0.0, 0.0
        for i in range(min(size, masses.size - first)):
            profile[first + i] = own + (stays[i] * before + jumps[i] * mass) if i else before
            behind[first + i] = own_mass + falls[i] * mass if i else mass
            more = own_mass + masses[first + i]
            own = stays[1] * own + jumps[1] * more
            own_mass = falls[1] * more
        before = own + (stays[size] * before + jumps[size] * mass)
        mass = own_mass + falls[size] * mass
