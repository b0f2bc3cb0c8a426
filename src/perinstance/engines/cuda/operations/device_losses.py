"""Losses of one linear predictor in torch: the formulas of ``models/losses``, for sums that are taken on a device.

exp, expm1, log1p and tanh of float64 are good to one or two units in the last place there (CUDA's programming guide)
and on a processor; quotients and roots are rounded correctly. What is charged for a loss's formula leaves room for it.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.models.losses.base import Loss
from perinstance.models.losses.penalised_objective import SmoothObjective
from perinstance.models.losses.smooth import Gamma, Logistic, Poisson, PseudoHuber, Squared


class DeviceLoss(Protocol):
    """See ``models.losses.base.Loss``; all arguments are tensors of float64."""

    def value(self, y: Any, eta: Any) -> Any:
        """``l``."""

    def derivatives(self, y: Any, eta: Any) -> tuple[Any, Any]:
        """``l'`` and ``l''``."""

    def third(self, y: Any, eta: Any) -> Any:
        """``l'''``."""

    def largest_third(self, y: Any, eta: Any, radius: Any) -> Any:
        """Bound ``|l'''|`` within a radius."""

    def largest_fourth(self, y: Any, eta: Any, radius: Any) -> Any:
        """Bound ``|l''''|`` within a radius."""

    def slope_change(self, y: Any, eta: Any, step: Any) -> Any:
        """``l'(eta + step) - l'(eta)``, without cancellation."""


class _Squared:
    def value(self, y: Any, eta: Any) -> Any:
        return (y - eta) ** 2 / 2

    def derivatives(self, y: Any, eta: Any) -> tuple[Any, Any]:
        return eta - y, torch_module().ones_like(eta)

    def third(self, y: Any, eta: Any) -> Any:
        return torch_module().zeros_like(eta)

    def largest_third(self, y: Any, eta: Any, radius: Any) -> Any:
        return torch_module().zeros_like(eta)

    largest_fourth = largest_third

    def slope_change(self, y: Any, eta: Any, step: Any) -> Any:
        return step


class _Logistic:
    def value(self, y: Any, eta: Any) -> Any:
        torch = torch_module()
        return eta.clamp(min=0.0) + torch.log1p(torch.exp(-eta.abs())) - y * eta

    def derivatives(self, y: Any, eta: Any) -> tuple[Any, Any]:
        torch = torch_module()
        e = torch.exp(-eta.abs())
        q = 1.0 / (1.0 + e)
        first = y > 0.5
        margin = torch.where(first, eta, -eta)
        away = torch.where(margin >= 0.0, e * q, q)
        return torch.where(first, -away, away), e * q * q

    def third(self, y: Any, eta: Any) -> Any:
        torch = torch_module()
        return -torch.sigmoid(eta) * torch.sigmoid(-eta) * torch.tanh(eta / 2)

    def largest_third(self, y: Any, eta: Any, radius: Any) -> Any:
        return self.third(y, _nearest(float(np.arccosh(2.0)), eta.abs(), radius)).abs()

    def largest_fourth(self, y: Any, eta: Any, radius: Any) -> Any:
        torch = torch_module()
        a = eta.abs()
        ends = (a - radius).clamp(min=0.0), _nearest(float(np.arccosh(5.0)), a, radius)
        near, far = (self.derivatives(y, end)[1] for end in ends)
        return torch.maximum((near * (1 - 6 * near)).abs(), (far * (1 - 6 * far)).abs())

    def slope_change(self, y: Any, eta: Any, step: Any) -> Any:
        torch = torch_module()
        low, high = eta + step.clamp(max=0.0), eta + step.clamp(min=0.0)
        return torch.copysign(torch.sigmoid(high) * torch.sigmoid(-low) * -torch.expm1(-step.abs()), step)


class _Poisson:
    def value(self, y: Any, eta: Any) -> Any:
        return torch_module().exp(eta) - y * eta

    def derivatives(self, y: Any, eta: Any) -> tuple[Any, Any]:
        e = torch_module().exp(eta)
        return e - y, e

    def third(self, y: Any, eta: Any) -> Any:
        return torch_module().exp(eta)

    def largest_third(self, y: Any, eta: Any, radius: Any) -> Any:
        return torch_module().exp(eta + radius)

    largest_fourth = largest_third

    def slope_change(self, y: Any, eta: Any, step: Any) -> Any:
        torch = torch_module()
        return torch.exp(eta) * torch.expm1(step)


class _Gamma:
    def value(self, y: Any, eta: Any) -> Any:
        return y * torch_module().exp(-eta) + eta

    def derivatives(self, y: Any, eta: Any) -> tuple[Any, Any]:
        e = y * torch_module().exp(-eta)
        return 1.0 - e, e

    def third(self, y: Any, eta: Any) -> Any:
        return -y * torch_module().exp(-eta)

    def largest_third(self, y: Any, eta: Any, radius: Any) -> Any:
        return y * torch_module().exp(radius - eta)

    largest_fourth = largest_third

    def slope_change(self, y: Any, eta: Any, step: Any) -> Any:
        torch = torch_module()
        return -y * torch.exp(-eta) * torch.expm1(-step)


class _PseudoHuber:
    def __init__(self, width: float) -> None:
        self.width = width

    def value(self, y: Any, eta: Any) -> Any:
        u = (eta - y) / self.width
        return self.width**2 * u * u / (_root(u) + 1.0)

    def derivatives(self, y: Any, eta: Any) -> tuple[Any, Any]:
        r = eta - y
        s = _root(r / self.width)
        return r / s, s**-3

    def third(self, y: Any, eta: Any) -> Any:
        v = (eta - y) / self.width
        return -3 * v * _root(v) ** -5 / self.width

    def largest_third(self, y: Any, eta: Any, radius: Any) -> Any:
        v = _nearest(0.5, (eta - y).abs() / self.width, radius / self.width)
        return 3 * v * _root(v) ** -5 / self.width

    def largest_fourth(self, y: Any, eta: Any, radius: Any) -> Any:
        torch = torch_module()
        a, r = (eta - y).abs() / self.width, radius / self.width
        ends = (a - r).clamp(min=0.0), _nearest(float(np.sqrt(0.75)), a, r)
        near, far = ((4 * v * v - 1).abs() * _root(v) ** -7 for v in ends)
        return 3 * torch.maximum(near, far) / self.width**2

    def slope_change(self, y: Any, eta: Any, step: Any) -> Any:
        return self.derivatives(y, eta + step)[0] - self.derivatives(y, eta)[0]


def device_loss(loss: Loss) -> DeviceLoss | None:
    """Return a loss in torch; None for one that the processor has alone."""
    plain: dict[type[Loss], DeviceLoss] = {
        Squared: _Squared(),
        Logistic: _Logistic(),
        Poisson: _Poisson(),
        Gamma: _Gamma(),
    }
    return _PseudoHuber(loss.width) if isinstance(loss, PseudoHuber) else plain.get(type(loss))


def known_loss(objective: SmoothObjective) -> DeviceLoss:
    """Return an objective's loss in torch, of which the caller knows that there is one."""
    loss = device_loss(objective.loss)
    assert loss is not None
    return loss


def _root(u: Any) -> Any:
    """``sqrt(1 + u^2)``."""
    torch = torch_module()
    return torch.hypot(torch.ones_like(u), u)


def _nearest(peak: float, at: Any, radius: Any) -> Any:
    """Return where, within radius of ``at`` >= 0, a function of ``|.|`` with one maximum at ``peak`` is largest."""
    torch = torch_module()
    low = (at - radius).clamp(min=0.0)
    return torch.minimum(torch.maximum(low, torch.full_like(low, peak)), at + radius)
