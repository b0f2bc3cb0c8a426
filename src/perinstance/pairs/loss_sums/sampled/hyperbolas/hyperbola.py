r"""The hyperbola along which delta is integrated: ``z(s) = p + 2 |zeta| cosh(s + i theta)``, theta the angle of zeta.

It crosses the real line next to where a straight line would, and bends to the right, where ``e^{-z epsilon}`` dies, or
without the person ``e^{(1+z) epsilon} (1-q)^{(1+z) steps}``: with and without, moments are ``A(z) = E w^{1+z}``, and

``delta = 1/(2 pi i) int (e^{K(z)} - 1) e^{-z epsilon}/(z(z+1)) dz`` right of 0 with the person,
``delta = 1/(2 pi i) int e^{K(z)} e^{(1+z) epsilon}/(z(z+1)) dz`` left of -1 without.

As a function of s the integrand F is analytic. Nodes are ``h = log(2)/M`` apart, up to ``s_N = (N - 1/2) h``, and from
``z(s_N)`` on the way goes straight up. The sum over the nodes is off by at most

- the integrals of ``|F|`` along both edges of the strip (angles ``theta + b``, ``theta - b``), divided by
  ``e^{2 pi b/h} - 1``;
- the integral along both ends of the strip of ``|F| e^{-2 pi |t|/h}``: nodes lie half a step from there;
- the integral along what goes straight up, where moments keep the bound that they have at ``z(s_N)`` and
  ``|z(z+1)| >= y^2``.

All three are sums over cells (``CellChain``), for which moments are bounded by ``moment_bounds.py``.
"""

from __future__ import annotations

import cmath
import math
from typing import Any, NamedTuple

import numpy as np

from perinstance.numerics.array_types import Floats

LOG_2 = math.log(2.0)
#: The angle, where distances are no larger than ten, and how far off it the edges lie, as a share of what is left of a
#: right one.
ANGLE, WIDTH = math.radians(72.0), 2.0 / 3.0
#: Cells of an edge are so long, those of an end so high, in shares of it.
CELL, END = 0.1, 0.125
#: What the hyperbola may be missed by, e^-MISSED of delta, and more for its cells.
MISSED, LOOSE = 29.0, 3.0
#: Nodes at most and at least.
MOST, LEAST = 4096, 8


class CellChain(NamedTuple):
    """Boxes: real parts between two neighbours of ``x``, imaginary parts from ``y`` on; a chain of boxes.

    ``log`` is the logarithm of ``|dz|/(pi |z(z+1)|)``, integrated, and of what it is multiplied by.
    """

    x: Floats
    y: Floats
    log: Floats


class Hyperbola(NamedTuple):
    """``z = p + zeta 2^{n/M} + conj(zeta) 2^{-n/M}``, n = 0 ... N - 1, and the cells next to it."""

    p: float
    zeta: complex
    an_octave: int
    nodes: int
    cells: tuple[CellChain, ...]

    @property
    def spacing(self) -> float:
        """Return h."""
        return LOG_2 / self.an_octave

    @property
    def z(self) -> Any:
        """Return the nodes, as floats."""
        grown = 2.0 ** (np.arange(self.nodes) / self.an_octave)
        return self.p + self.zeta * grown + self.zeta.conjugate() / grown


def lay_hyperbola(
    over: bool, c: float, dies: float, high: tuple[float, float], log_delta: float, angle: float = ANGLE
) -> Hyperbola | None:
    """Return the hyperbola for a delta of about ``e^log_delta``, or nothing if it is too long.

    ``c``: how far off the poles its strip may reach on the side where moments are large; ``dies``: how fast the
    integrand does along the real line; ``high``: the logarithms of the integrand's size there and next to the poles.
    """
    width = _half_width(angle)
    near, far = math.cos(angle + width) / math.cos(angle), math.cos(angle - width) / math.cos(angle)
    if over:
        crossing = c / far
        p = 0.0
        places = c, near * crossing
    else:
        crossing = c / (2.0 - near)
        p = -1.0 - 2.0 * crossing
        places = c, (2.0 - far) * crossing
    zeta = cmath.rect(0.5 * crossing / math.cos(angle), angle)
    needed = max(MISSED - log_delta, 1.0)
    depths = [max(needed + size - math.log1p(place), 4.0) + LOOSE for size, place in zip(high, places, strict=True)]
    spacing = 2.0 * math.pi * width / max(depths)
    an_octave = math.ceil(LOG_2 / spacing)
    end = needed / dies
    for _ in range(3):
        end = max(needed - math.log(3.0 * end), 2.0) / dies
    grown = max((end - p) / crossing, 1.2)
    nodes = max(math.ceil(math.acosh(grown) * an_octave / LOG_2 + 0.5), LEAST)
    if nodes > MOST or not math.isfinite(grown):
        return None
    shape = Hyperbola(p, zeta, an_octave, nodes, ())
    return shape._replace(cells=_cells(shape))


def _half_width(angle: float) -> float:
    """Return how far off the hyperbola of some angle the edges of its strip lie."""
    return WIDTH * (0.5 * math.pi - angle)


def _cells(shape: Hyperbola) -> tuple[CellChain, ...]:
    """Return the cells of both edges, the end and what goes straight up."""
    size, angle, h = 2.0 * abs(shape.zeta), cmath.phase(shape.zeta), shape.spacing
    width = _half_width(angle)
    last = (shape.nodes - 0.5) * h
    s = np.linspace(0.0, last, math.ceil(last / CELL) + 1)
    edges = []
    for turn in (width, -width):
        x = shape.p + size * math.cos(angle + turn) * np.cosh(s)
        y = size * math.sin(angle + turn) * np.sinh(s)
        longest = size * np.hypot(np.sinh(s[1:]), math.sin(angle + turn))
        turns = 2.0 * math.pi * width / h
        share = turns + math.log1p(-math.exp(-turns))
        edges.append(_cells_of(x, y[:-1], np.log(longest * np.diff(s)) - share))
    t = np.arange(-round(1.0 / END), round(1.0 / END) + 1) * END * width
    x, y = shape.p + size * np.cos(angle + t) * math.cosh(last), size * np.sin(angle + t) * math.sinh(last)
    log = np.log(size * math.cosh(last) * np.diff(t)) - 2.0 * math.pi / h * np.minimum(np.abs(t[1:]), np.abs(t[:-1]))
    end = _cells_of(x, y[:-1], log)
    right = shape.p + size * math.cos(angle) * math.cosh(last)
    high = size * math.sin(angle) * math.sinh(last)
    up = CellChain(np.array([right, right]), np.array([high]), np.array([-math.log(math.pi * high)]))
    return *edges, end, up


def _cells_of(x: Floats, y: Floats, log_length: Floats) -> CellChain:
    """Return cells of these corners: ``|z| >= |x|`` and ``|z| >= y``."""
    least, poles = np.minimum(x[1:], x[:-1]), np.maximum(x[1:], x[:-1])
    away = [np.maximum(np.maximum(least + pole, -poles - pole), 0.0) for pole in (0.0, 1.0)]
    return CellChain(x, y, log_length - sum(np.log(np.hypot(one, y)) for one in away) - math.log(math.pi))
