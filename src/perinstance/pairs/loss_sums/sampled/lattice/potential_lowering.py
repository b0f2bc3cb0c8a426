r"""What spreading a step to the points of a lattice adds to its variance, taken back from the second step on.

Moving the mass of every cell to its ends adds ``h^2/6`` to the variance of a loss, h the spacing, k times that to the
sum of k steps. It could be taken back by moving mass from the neighbours of a point to it, but then the law would not
be above the true one in the convex order. It is when the product of all ratios is multiplied by one more independent
factor ``Xi`` of mean one whose logarithm is uniform on an interval of length h, which by Jensen's inequality only
raises delta: the product is compared after averaging over a cell, and an average over a cell is all that is lost. So
k steps cost ``h^2/4``: ``h^2/12`` for Xi, the rest for moving it to the points -1, 0 and 1.

**Proof.** Let W be the potential ``W(l) = E[(L - l)_+]`` of a step's ratio and W' that of masses at the points
``l_i = e^{u_i}``, of the same mean. With the others fixed, ``E[(L Xi - s)_+]`` changes by ``E[Xi (W' - W)(s/Xi)]``: it
grows for every s (as it does for puts) if ``psi(u) = e^{-u} (W' - W)(e^u)`` has integrals >= 0 over all intervals of
length h. W' is linear between points. At the points it is W, lowered by ``l_i low_i``. Between two points the chord of
W lies above it by at least ``f (l - l_i)(l_{i+1} - l)/2``, f the least density of L there, times ``e^{-u}`` at least
``f sqrt(l_i l_{i+1}) s (h_i - s)/2`` for ``u = u_i + s``; what is lowered is, times ``e^{-u}``, at most the larger low
of the two ends. If all h_i were h, an interval of length h that begins in cell i would have at least ``h^3/12`` times
the lesser ``f sqrt(l l)`` of cells i and i + 1 of the first, and at most h times the largest low at the points i to
i + 2 of the second. With ``|h_i - h| <= c h`` the first falls by a share of at most 12 c, and i + 3 may be met. So

``low_i = h^2/12 (1 - 16 c) e^{-2h} min p_j``,  j from i - 3 to i + 3,  ``p = f l``, the density of the loss,

is low enough: the density of L, a shifted lognormal one, has one mode, so that it is least at the ends of a cell. The
masses stay positive: what is taken from a point is about a sixth of it at most. Were one negative, and put to zero,
that would only be more.

**Xi on the lattice.** ``log Xi`` lies in ``[c - h/2, c + h/2]``, ``e^c sinh(h/2) = h/2``. Moved to the points keeping
the mean, ``b = (e^v - 1 - v)/(h (e^h - 1))`` goes to h, ``v = c + h/2``, and ``a = b e^h`` to -h. As
``e^v - 1 - v <= v^2/2 e^{v/3}`` and ``e^h - 1 >= h e^{h/2}``, ``a <= e^{2h/3}/8``; a larger one is only wider.
"""

from __future__ import annotations

import math

import numpy as np

from perinstance.numerics.numba_compile import kernel
from perinstance.numerics.rounding import UNIT
from perinstance.pairs.loss_sums.sampled.few_steps.one_step import NORMAL

REACH = 3  # points to either side whose density matters
UNEVEN = 1e-5  # c: how far a cell may be from the spacing, as a share of it; more than all roundings of a density
WIDEST = 0.25  # spacing with which anything is lowered
WORTH = 0.125  # of the variance of all steps, over the spacing's square and halved: what Xi costs


@kernel
def lower_potential(step, places, grid, order, log_scale, out):
    """Fill in ``low_i``, scaled as the masses are; returns half of the variance that is saved, in squares of spacings.

    ``grid`` are start, spacing and the number of the first point, ``places`` the noise at every point.
    """
    start, spacing, skip = grid
    n, m = out.size, step.m
    out[:] = 0.0
    if not spacing <= WIDEST:
        return 0.0
    density = np.zeros(n)
    for i in range(n):
        above = spacing * (skip + i)
        slope = -math.expm1(-(start + above))
        wide = math.log1p(slope * math.expm1(m * (places[i + 1] - places[i]))) if i + 1 < n else spacing
        if slope > 0.0 and abs(wide - spacing) <= UNEVEN * spacing:
            density[i] = math.exp(order * above - 0.5 * places[i] * places[i] - NORMAL - log_scale) / (m * slope)
    most = spacing * spacing / 12.0 * (1.0 - 16.0 * UNEVEN) * math.exp(-2.0 * spacing)
    total = 0.0
    for i in range(REACH, n - REACH):
        least = density[i]
        for k in range(1, REACH + 1):
            least = min(least, density[i - k], density[i + k])
        out[i] = most * least
        total += out[i]
    return total / spacing


@kernel
def take_back(masses, low, step, places, grid, order, share):
    """Move mass from the neighbours of points to them, so that the potential is lowered; every mass is rounded up.

    ``share`` is the most that a point may be off, as a share of its loss.
    """
    start, spacing, skip = grid
    n, m = masses.size, step.m
    jump = math.exp(order * spacing)
    wrong = share + UNIT * (32.0 + 2.0 * abs(order) * spacing)
    for i in range(REACH, n - REACH):
        if low[i] > 0.0:
            slope = -math.expm1(-(start + spacing * (skip + i)))
            below = low[i] / (slope * -math.expm1(m * (places[i - 1] - places[i])))
            above = low[i] / (slope * math.expm1(m * (places[i + 1] - places[i])))
            masses[i] += (below + above) * (1.0 + wrong)
            masses[i - 1] -= below / jump * (1.0 - wrong)
            masses[i + 1] -= above * jump * (1.0 - wrong)
    for i in range(n):
        masses[i] = max(masses[i], 0.0) * (1.0 + 8.0 * UNIT)


def factor_masses(spacing: float, sign: float) -> tuple[float, float]:
    """Return what ``Xi`` makes of a bound at the points below and above, +1 with the person, -1 without.

    ``E[(L Xi - s)_+] = a C(s e^-h) + (1 - a - b) C(s) + b C(s e^h)`` for ``C(s) = E[(L - s)_+]``, and for puts,
    divided by s, a and b change places.
    """
    a = math.exp(2.0 / 3.0 * spacing) / 8.0 * (1.0 + 8.0 * UNIT)
    b = a * math.exp(-spacing) * (1.0 + 8.0 * UNIT)
    return (a, b) if sign > 0.0 else (b, a)
