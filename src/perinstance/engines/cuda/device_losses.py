"""Losses of one linear predictor in torch: the formulas of ``models/losses``, for sums that are taken on a device.

exp, expm1, log1p and tanh of float64 are good to one or two units in the last place there (CUDA's programming guide)
and on a processor; quotients and roots are rounded correctly. What is charged for a loss's formula leaves room for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.models.losses.base import Loss
from perinstance.models.losses.catalogue import Gamma, Logistic, Poisson, PseudoHuber, Squared

#: ``terms(y, eta)``, tensors of float64: the loss l, its slope l' and l''
LossTerms = Callable[[Any, Any], tuple[Any, Any, Any]]


def _squared(y: Any, eta: Any) -> tuple[Any, Any, Any]:
    return (y - eta) ** 2 / 2, eta - y, torch_module().ones_like(eta)


def _logistic(y: Any, eta: Any) -> tuple[Any, Any, Any]:
    torch = torch_module()
    e = torch.exp(-eta.abs())
    q = 1.0 / (1.0 + e)
    first = y > 0.5
    away = torch.where(torch.where(first, eta, -eta) >= 0.0, e * q, q)
    return eta.clamp(min=0.0) + torch.log1p(e) - y * eta, torch.where(first, -away, away), e * q * q


def _poisson(y: Any, eta: Any) -> tuple[Any, Any, Any]:
    e = torch_module().exp(eta)
    return e - y * eta, e - y, e


def _gamma(y: Any, eta: Any) -> tuple[Any, Any, Any]:
    e = y * torch_module().exp(-eta)
    return e + eta, 1.0 - e, e


def _pseudo_huber(y: Any, eta: Any, width: float) -> tuple[Any, Any, Any]:
    torch = torch_module()
    u = (eta - y) / width
    s = torch.hypot(torch.ones_like(u), u)
    return width**2 * u * u / (s + 1.0), (eta - y) / s, s**-3


def device_loss(loss: Loss) -> LossTerms | None:
    """Return a loss in torch; None for one that the processor has alone."""
    if isinstance(loss, PseudoHuber):
        return partial(_pseudo_huber, width=loss.width)
    return {Squared: _squared, Logistic: _logistic, Poisson: _poisson, Gamma: _gamma}.get(type(loss))
