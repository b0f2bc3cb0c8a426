r"""The two coordinates of objective perturbation on a device, and their cumulant function on the real line.

Letters are those of ``pairs/objective_perturbation.py`` and ``objective_epsilons.py``. ``w^2 = x'x v'v - mu^2`` is off
by ``lost x'x v'v``, ten u or what ``ONE_DIMENSION`` ignores. nu_1 moves by ``(1 + nu_1)/(nu_1 - nu_2)`` times that; as
``w <= nu_1`` and ``2 mu <= nu_1 <= 1`` no nu_j moves by more than ``6 lost nu_1`` (exchanged 24), and the split of
``m^2`` by more than ``9 lost m^2``. That split meets ``|1/a_1 - 1/a_2| <= 2 tau nu_1/a^2`` alone (exchanged,
``|1/v_1 - 1/v_2| <= 2 nu_1`` as well). So with ``b = 4 nu_1`` E moves by less than ``64 lost (1 + tau) (b/a) (1 + M)``,
and R by less than ``64 lost (1 + tau) b/a`` of itself while \|G_1 s\| is at most 2. Further out R is more than 16 on
every line that dies (``C_1/G_1^2`` is at least 20, since no more of the shift lies along the second coordinate than
along the first), and ``R e^{-R}`` is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from perinstance.numerics.rounding import HALF_UNIT, LEAST_PAIR, NORM_UP, ONE_DIMENSION


@dataclass(frozen=True, slots=True)
class Plane:
    """The coordinates of people, of P over Q or of Q over P; the first axis of nu, v and ``m^2`` has the two."""

    nu: Any
    v: Any
    m2: Any
    half_log: Any  #: half the logarithm of the product of both variances
    square: Any  #: the whole ``m^2``, at most
    largest: Any  #: b: four times the larger excess variance
    lost: Any  #: relative error of ``x'x v'v - mu^2``

    def some(self, at: Any) -> Plane:
        """Return some people."""
        return Plane(
            self.nu[:, at],
            self.v[:, at],
            self.m2[:, at],
            *(one[at] for one in (self.half_log, self.square, self.largest, self.lost)),
        )

    def exchanged(self) -> Plane:
        """Return Q over P: ``-nu/v``, ``1/v``, ``m^2/v``; a variance is at least a half here."""
        return Plane(
            -self.nu / self.v,
            1.0 / self.v,
            self.m2 / self.v,
            -self.half_log,
            2.0 * self.square,
            self.largest,
            self.lost,
        )

    def cumulants(self, t: Any) -> tuple[Any, Any, Any]:
        """Return K, K' and K'' on the real line."""
        a = 1.0 - t * self.nu
        shift, slope = self.m2 / a, self.nu / a
        K = (0.5 * (t + t * t) * shift - 0.5 * (-t * self.nu).log1p()).sum(0) - t * self.half_log
        first = (0.5 * shift * ((1.0 + 2.0 * t) + (t + t * t) * slope) + 0.5 * slope).sum(0) - self.half_log
        return K, first, (shift * self.v / (a * a) + 0.5 * slope * slope).sum(0)


def plane_there(leverage: Any, residual: Any, x_squared: Any, v_squared: Any) -> Plane:
    """Return the coordinates of P over Q (see ``pairs/objective_perturbation.py``)."""
    import torch

    xv = x_squared.sqrt() * v_squared.sqrt()
    flat = ~(xv > leverage * (1.0 + ONE_DIMENSION))
    w2 = torch.where(flat, torch.zeros_like(xv), (xv - leverage) * (xv + leverage))
    trace = leverage * (2.0 + leverage) + w2
    high = 0.5 * (trace + (trace * trace + 4.0 * w2).sqrt())
    share = torch.where(high > 0.0, w2 / high, torch.zeros_like(high))  # -nu of the second coordinate
    across = torch.where(high > 0.0, share / high, torch.zeros_like(high))
    square = residual * residual * x_squared
    top = 1.0 + high
    nu, v = torch.stack([high, -share]), torch.stack([top, (1.0 + leverage) * (1.0 + leverage) / top])
    m2 = torch.stack([square / (1.0 + across), square * (across / (1.0 + across))])
    lost = torch.where(flat, torch.full_like(xv, 3.0 * ONE_DIMENSION), torch.full_like(xv, 10.0 * HALF_UNIT))
    return Plane(nu, v, m2, leverage.log1p(), square * NORM_UP, 4.0 * high + LEAST_PAIR, lost)
