"""Where the noise of a sampled step may run in the complex plane, and how large its integrand is there at most.

Helpers of ``sampled_contours.py``: with ``u = r e^{m x}`` a step's moment is ``E[(1 + u)^{b + z}]``, an integral over
the standard normal noise x along any path between the zeros of ``1 + u``. Bounds need absolute values alone: they are
sums over small segments, from the value and the slope in the middle and a bound of the second derivative of the
logarithm, in floats with a reserve of ``e^RESERVE``, far more than their rounding errors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

RESERVE = 1e-6
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class TooHardError(ArithmeticError):
    """The path would take too many nodes, or a bound is not small enough."""


def log_one_plus(log_u: np.ndarray) -> np.ndarray:
    """``log(1 + u)``, continuous along every path that passes between the zeros."""
    with np.errstate(all="ignore"):
        u = np.exp(np.where(log_u.real <= 0, log_u, -log_u))
        small = 0.5 * np.log1p(2 * u.real + np.abs(u) ** 2) + 1j * np.arctan2(u.imag, 1 + u.real)
    return np.where(log_u.real <= 0, small, log_u + small)


def fraction(log_u: np.ndarray) -> np.ndarray:
    """``u/(1 + u)``."""
    with np.errstate(all="ignore"):
        small = np.exp(np.where(log_u.real > 0, -log_u, log_u))
        return np.where(log_u.real > 0, 1, small) / (1 + small)


def log_sum(values: np.ndarray) -> float:
    """``log sum e^values``."""
    top = float(values.max(initial=-math.inf))
    if not abs(top) < math.inf:
        return top
    return top + math.log(float(np.exp(values - top).sum()))


@dataclass(frozen=True)
class Kind:
    """``count`` steps of a rate and a distance; ``b`` says in which direction; ``share`` of R."""

    rate: float
    distance: float
    count: int
    b: int
    share: float = 0.0

    @property
    def log_r(self) -> float:
        return math.log(self.rate) - math.log1p(-self.rate) - self.distance**2 / 2

    @property
    def turn(self) -> float:
        """Where |u| = 1 on the real axis."""
        return -self.log_r / self.distance


class Absolute:
    """Upper bounds of the noise's integrand in absolute value, segment by segment along a path ``x(s)``.

    ``path = (x, x')`` at the middles of the segments between ``edges``, ``bent`` a bound of ``|x''|`` on each;
    ``ends = (steep, high)``: for large ``|s|`` the path stays below ``steep |s| + high``. The logarithm of the
    integrand is its value and its slope in the middle and a remainder: ``int e^{g t} dt = wide sinh(y)/y``.
    """

    def __init__(self, kind: Kind, edges: np.ndarray, path, bent, ends: tuple[float, float]) -> None:
        m = kind.distance
        x, slope = path
        self.kind, self.edges = kind, edges
        self.steep, self.high = ends
        wide = np.diff(edges)
        self.half = 0.5 * wide
        step = np.abs(slope) + self.half * bent  # at least |x'|
        arc = self.half * step
        log_u = kind.log_r + m * x
        loss = log_one_plus(log_u)
        with np.errstate(all="ignore"):
            low, high = np.exp(np.minimum(log_u.real - m * arc, 700)), np.exp(np.minimum(log_u.real + m * arc, 700))
            angle = np.abs(log_u.imag) + m * arc
            sine = np.where(angle < math.pi, np.sin(np.clip(angle, math.pi / 2, math.pi)), 0.0)
            # |u/(1 + u)| <= min(1, |u|)/sin, |1/(1 + u)| <= min(1, 1/|u|)/sin, or by the triangle inequality
            gap = np.where(high < 1, 1 - high, np.where(low > 1, 1 - 1 / low, 0.0))
            first = np.fmin(np.minimum(1.0, high) / sine, np.minimum(1.0, high) / gap)
            second = first * np.fmin(np.minimum(1.0, 1 / low) / sine, np.minimum(1.0, 1 / low) / gap)
            first, second = np.fmin(first, 1e200), np.fmin(second, 1e200)  # as good as infinite
        self.v = loss - kind.share
        self.slope = m * fraction(log_u) * slope  # of the loss
        self.plain_slope = (-x * slope).real + kind.b * self.slope.real
        square = self.half**2 / 2
        self.curve = square * (m * m * second * step**2 + m * first * bent)
        self.base = (
            -(x * x).real / 2 + kind.b * loss.real + (self.curve if kind.b else 0.0) - LOG_SQRT_2PI + np.log(step)
        )
        self.base = self.base + square * (step**2 + (np.abs(x) + arc) * bent) + np.log(wide) + RESERVE

    def terms(
        self, z: complex, turn: complex = 1.0, a: float = 0.0, b: float = 0.0, largest: bool = False
    ) -> np.ndarray:
        """Log of the integral over each segment, or of its largest value times its width.

        For z, and all others on an ellipse around it with half axes a (along turn) and b.
        """
        out = self.base + (z * self.v).real + (abs(z) + a) * self.curve
        y = np.abs(self.plain_slope + (z * self.slope).real)
        if a > 0:
            v, slope = turn * self.v, turn * self.slope
            out += np.sqrt((a * v.real) ** 2 + (b * v.imag) ** 2)
            y += np.sqrt((a * slope.real) ** 2 + (b * slope.imag) ** 2)
        y *= self.half
        if largest:
            return out + y
        with np.errstate(all="ignore"):
            return out + np.where(y < 0.1, y * y / 6, y + np.log1p(-np.exp(-2 * y)) - np.log(2 * y))

    def total(self, z: complex, turn: complex = 1.0, a: float = 0.0, b: float = 0.0) -> float:
        """Log of a bound of the integral of the absolute value, the noise beyond all segments included."""
        return float(np.logaddexp(log_sum(self.terms(z, turn, a, b)), self.beyond(abs(z) + a)))

    def beyond(self, size: float) -> float:
        """Log of a bound of what lies beyond the first and the last segment, where ``|log(1 + u)| <= |log u| + 1``."""
        kind, ends = self.kind, (float(self.edges[0]), float(self.edges[-1]))
        out = -math.inf
        for s in ends:
            if abs(kind.log_r + kind.distance * s) < 1:
                raise TooHardError("the ends are too near")
            decay = (1 - self.steep**2) / 2 * s * s
            growth = (size + 1) * (abs(kind.log_r) + kind.distance * 3 * (abs(s) + self.high) + 2 + abs(kind.share))
            growth += self.high**2 + self.high * abs(s)
            if not growth < decay / 2 - 10:
                raise TooHardError("the ends are too near")
            out = np.logaddexp(out, -decay / 4)
        return float(out)


def segments(kind: Kind, most: complex) -> np.ndarray:
    """Edges: fine where the noise lives and where u turns, then coarser and coarser."""
    m, size = kind.distance, abs(most) + 2
    right = 20.0 + m * (1 + min(max(most.real, 0.0), 100 / m))
    plain = np.arange(-9.0, right, 0.12)
    left = max(-40.0, kind.turn - (4 + math.log(size)) / m)  # on the left of it |z u| is small
    core = np.arange(min(left, right), right, min(0.12, 0.2 / m))
    turn = kind.turn + np.arange(-12.0, 12.0, 0.1) / m
    end = 100 + 300 * (size * m + math.sqrt(size * (abs(kind.log_r) + abs(kind.share)))) + abs(kind.turn) + 40 / m
    far = np.geomspace(8.0, end, int(40 * math.log(end)))
    return np.unique(np.concatenate([-far, plain, core, turn, far]))


@dataclass(frozen=True)
class Line:
    """``x = s + i high + i slope s``, or, bent at t, ``x = s + i high + i slope log(1 + e^{m (s - t)})/m``."""

    slope: float
    high: float
    bend: float | None = None

    def __call__(self, s, m: float):
        """A point and the derivative there."""
        if self.bend is None:
            return s * (1 + 1j * self.slope) + 1j * self.high, 1 + 1j * self.slope
        p = m * (s - self.bend) + 0j
        return s + 1j * self.high + 1j * self.slope * log_one_plus(p) / m, 1 + 1j * self.slope * fraction(p)

    def room(self, kind: Kind) -> float:
        """How far s may leave the real axis: no zero of 1 + u is met on the way, nor from the real line to here.

        Bent: with ``p = m (s - t)``, ``|Im p| <= pi/2``, u = -1 asks for ``Re p = slope arg(1 + e^p) - m (t - turn)``
        and ``m high + Im p + slope log|1 + e^p| = +-pi, ...``, and ``|arg(1 + e^p)| <= |Im p|``.
        """
        m = kind.distance
        if self.bend is None:
            return (math.pi / m - abs(self.high + self.slope * kind.turn)) / (1 + self.slope**2)
        a = math.pi / 2
        late = m * (self.bend - kind.turn)
        while a > 0 and m * abs(self.high) + a + self.slope * math.log1p(math.exp(self.slope * a - late)) > math.pi:
            a -= 0.02
        return a / m

    def absolute(self, kind: Kind, most: complex, moved: float = 0.0) -> Absolute:
        """Bounds along it, s moved by ``i moved``."""
        edges, m = segments(kind, most), kind.distance
        s = 0.5 * (edges[1:] + edges[:-1])
        path = self(s + 1j * moved, m)
        if self.bend is None:
            bent, high = 0.0, abs(self.high) + 2 * abs(moved)
        else:  # |e^p/(1 + e^p)^2| <= e^{-|Re p|} for |Im p| <= pi/2
            near = np.maximum(np.abs(s - self.bend) - 0.5 * np.diff(edges), 0.0)
            bent = self.slope * m * np.exp(-m * near)
            high = abs(self.high) + 2 * abs(moved) + self.slope * abs(self.bend) + 2 / m
        return Absolute(kind, edges, path, bent, (self.slope, high))


def menu(kind: Kind) -> list[Line]:
    """Lines that pass between the zeros of 1 + u."""
    out, m = [], kind.distance
    for at in (0.0, 0.03, 0.1, 0.2, 0.35, 0.5, 0.8, 1.2, 1.8, 2.6, 4.0, 6.0, 9.0, 14.0, 20.0):
        if at * m > 0.62 * math.pi:
            continue
        for slope in (0.0, 0.15, 0.3, 0.45, 0.6, 0.75):
            if abs(at - slope * kind.turn) < 12:
                out.append(Line(slope, at - slope * kind.turn))
    for angle in (0.1, 0.3, 0.6, 0.9, 1.2, 1.5):
        if angle / m > 20:
            continue
        for slope in (0.3, 0.55, 0.8):
            for late in (0.0, 1.0, 2.5):
                line = Line(slope, angle / m, kind.turn + late / m)
                if line.room(kind) * m > 0.3:
                    out.append(line)
    return out


class Menu:
    """All lines of a kind at once, roughly: to choose."""

    def __init__(self, kind: Kind, c: float) -> None:
        self.kind, self.lines = kind, menu(kind)
        m = kind.distance
        far = np.geomspace(30, 60 + 10 * m * (1 + abs(c)), 80)
        s = np.unique(np.concatenate([np.linspace(-30, 30, 240), kind.turn + np.linspace(-6, 6, 60) / m, far]))
        x = np.array([line(s, m)[0] for line in self.lines])
        loss = log_one_plus(kind.log_r + m * x)
        self.v = loss - kind.share
        self.base = -(x * x).real / 2 + kind.b * loss.real - LOG_SQRT_2PI + np.log(np.gradient(s))

    def sizes(self, z: complex, turn: complex, wide: float) -> np.ndarray:
        """About the log of each line's bound on an ellipse around z."""
        v = turn * self.v
        room = np.sqrt((2 * wide * v.real) ** 2 + (1.7 * wide * v.imag) ** 2)
        terms = self.base + (z * self.v).real + room
        top = terms.max(axis=1)
        return top + np.log(np.exp(terms - top[:, None]).sum(axis=1))

    def size(self, line: Line, z: complex, turn: complex, axes: tuple[float, float]) -> float:
        """The same of one line."""
        i = self.lines.index(line)
        v = turn * self.v[i]
        room = np.sqrt((axes[0] * v.real) ** 2 + (axes[1] * v.imag) ** 2)
        return log_sum(self.base[i] + (z * self.v[i]).real + room)

    def best(self, z: complex, turn: complex, wide: float) -> float:
        """The smallest."""
        return float(self.sizes(z, turn, wide).min())


def rising(menu: Menu, z: complex) -> float:
    """Log of a bound of the moment at z and at all z above it: along paths with arg(1 + u) >= 0, the best of some."""
    sizes = menu.sizes(z, 1.0, 0.0)
    # bent: arg u grows along it, and is below pi where |u| <= 1; level: it is the same everywhere
    fit = [i for i, line in enumerate(menu.lines) if line.bend is not None or (line.slope == 0 and line.high >= 0)]
    best = sorted(fit, key=lambda i: sizes[i])[:3]
    return min(menu.lines[i].absolute(menu.kind, z).total(z) for i in best)
