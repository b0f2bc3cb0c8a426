"""The common form of all pairs: independent Gaussian coordinates and Laplace distances, per person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.pairs.base import Floats

#: Beyond this a parameter's square overflows; the person's loss is infinite for all purposes.
HUGE = 1e140
#: Below this a parameter that is not zero is raised to it, so that no square underflows.
TINY = 1e-120
#: The most exponentials into which Laplace losses are multiplied out (see ``contour.py``).
TERMS = 4096


@dataclass(frozen=True, slots=True)
class Spectrum:
    """Coordinate j of a person is ``P: N(m, v)``, ``Q: N(0, 1)``; a Laplace loss of distance D occurs count times.

    ``nu = v - 1`` is kept beside v so that neither loses digits. A coordinate of zeros changes nothing, which pads
    ragged dimensions. ``rounded`` marks the people whose Laplace distances had to be raised to common values.
    """

    nu: Floats
    v: Floats
    m2: Floats
    lap: Floats
    count: Floats
    infinite: NDArray[np.bool_]
    rounded: NDArray[np.bool_]

    @classmethod
    def gaussian(cls, nu: ArrayLike, m: ArrayLike, v: Floats | None = None) -> Spectrum:
        """Return the spectrum of Gaussian coordinates, arrays of shape (people, coordinates)."""
        nu, m = np.array(nu, dtype=np.float64), np.array(m, dtype=np.float64)
        v = 1.0 + nu if v is None else np.array(v, dtype=np.float64)
        infinite = ~((np.abs(nu) < HUGE) & (np.abs(m) < HUGE) & (v > 1 / HUGE)).all(axis=1)
        nu[infinite], m[infinite], v[infinite] = 0.0, 0.0, 1.0
        nu, m = _lifted(nu), _lifted(m)
        none = np.zeros((len(nu), 0))
        return cls(nu, v, m * m, none, none, infinite, np.zeros(len(nu), dtype=bool))

    @classmethod
    def laplace(cls, distance: Floats) -> Spectrum:
        """Return the spectrum of one Laplace loss per person."""
        infinite = ~(distance < HUGE)
        lap = _lifted(np.where(infinite, 0.0, distance)[:, None])
        none = np.zeros((len(lap), 0))
        return cls(none, none, none, lap, np.ones_like(lap), infinite, np.zeros(len(lap), dtype=bool))

    @classmethod
    def stack(cls, parts: list[Spectrum]) -> Spectrum:
        """Put the coordinates of independent releases side by side; equal Laplace distances are counted together."""
        lap, count, rounded = _grouped(np.hstack([p.lap for p in parts]), np.hstack([p.count for p in parts]))
        nu, v, m2 = (np.hstack([getattr(p, name) for p in parts]) for name in ("nu", "v", "m2"))
        infinite = np.logical_or.reduce([p.infinite for p in parts])
        rounded |= np.logical_or.reduce([p.rounded for p in parts])
        return cls(nu, v, m2, lap, count, infinite, rounded)._pure_shifts_first()

    def _pure_shifts_first(self) -> Spectrum:
        """Merge the coordinates with ``nu = 0``, whose distances add in quadrature, and drop columns of zeros."""
        pure = self.nu == 0.0
        shift = np.sum(np.where(pure, self.m2, 0.0), axis=1, keepdims=True)
        keep = np.flatnonzero(~pure.all(axis=0))
        nu = np.hstack([np.zeros_like(shift), self.nu[:, keep]])
        v = np.hstack([np.ones_like(shift), self.v[:, keep]])
        m2 = np.hstack([shift, np.where(pure, 0.0, self.m2)[:, keep]])
        return Spectrum(nu, v, m2, self.lap, self.count, self.infinite, self.rounded)

    def swapped(self) -> Spectrum:
        """Exchange P and Q: ``nu -> -nu/v``, ``v -> 1/v``, ``m^2 -> m^2/v``; Laplace losses are symmetric."""
        v = 1.0 / self.v
        return Spectrum(-self.nu * v, v, self.m2 * v, self.lap, self.count, self.infinite, self.rounded)

    @property
    def costs(self) -> NDArray[np.bool_]:
        """Of each person: whether P and Q differ at all."""
        return self.infinite | (self.nu != 0).any(axis=1) | (self.m2 != 0).any(axis=1) | (self.lap != 0).any(axis=1)

    @property
    def coordinates(self) -> tuple[Floats, Floats, Floats]:
        """``nu``, ``v`` and ``m^2`` as the kernels take them."""
        return tuple(np.require(a, requirements=["C", "W"]) for a in (self.nu, self.v, self.m2))  # type: ignore[return-value]

    @property
    def laplaces(self) -> tuple[Floats, Floats, int]:
        """Distances, counts and the number of exponentials they make, as the kernels take them."""
        lap, count = (np.require(a, requirements=["C", "W"]) for a in (self.lap, self.count))
        return lap, count, int(np.prod(count + 1.0, axis=1).max(initial=1.0))

    def __getitem__(self, index: Any) -> Spectrum:
        return Spectrum(*(getattr(self, name)[index] for name in self.__slots__))


def _lifted(values: Floats) -> Floats:
    return np.where((values != 0.0) & (np.abs(values) < TINY), np.copysign(TINY, values), values)


def _grouped(lap: Floats, count: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Count equal distances together, largest first; where they make too many exponentials raise the closest ones."""
    n = len(lap)
    order = np.argsort(-lap, axis=1, kind="stable")
    lap, count = np.take_along_axis(lap, order, axis=1), np.take_along_axis(count, order, axis=1)
    count = np.where(lap > 0.0, count, 0.0)
    for j in range(lap.shape[1] - 1, 0, -1):  # from the back: each joins its neighbour in front when they are equal
        same = lap[:, j] == lap[:, j - 1]
        count[same, j - 1] += count[same, j]
        count[same, j] = 0.0
    lap = np.where(count > 0.0, lap, 0.0)
    rounded = np.zeros(n, dtype=bool)
    for i in np.flatnonzero(np.prod(count + 1.0, axis=1) > TERMS):
        lap[i], count[i] = _raised(lap[i], count[i])
        rounded[i] = True
    keep = np.flatnonzero(count.any(axis=0))
    return lap[:, keep], count[:, keep], rounded


def _raised(lap: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Raise distances to the next larger one, smallest raise first, until few enough exponentials are left."""
    D, c = lap[count > 0].copy(), count[count > 0].copy()
    while np.prod(c + 1.0) > TERMS:
        j = int(np.argmin((D[:-1] - D[1:]) * c[1:]))
        c[j] += c[j + 1]
        D, c = np.delete(D, j + 1), np.delete(c, j + 1)
    out = np.zeros((2, lap.size))
    out[0, : D.size], out[1, : D.size] = D, c
    return out[0], out[1]
