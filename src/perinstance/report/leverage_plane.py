"""The plane of pull and error on which a loss can be read."""

from __future__ import annotations

from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from perinstance.pairs import Posterior, Shift
from perinstance.report import charts


def plane_chart(audit: Any, worst: list[int], redact: bool) -> tuple[Markup, str]:
    """Choose the two axes on which the loss can be read, and the lines of equal loss where it is a function of them."""
    residual = np.abs(np.asarray(audit.residual, dtype=float))
    leverage = np.asarray(audit.leverage, dtype=float)
    pairs, delta = audit.pairs, audit.delta
    few = len(residual) <= charts.FEW and not redact
    caption = "Each dot is a person." if few else "Each cell holds some people; darker is more."
    if isinstance(pairs, Posterior):
        pull, name = leverage, "leverage without her"
        scale = _ratio(pairs.residual, residual)

        def loss_at(x: NDArray, r: NDArray) -> NDArray:
            return Posterior(x, scale * r).epsilon(delta)

    elif isinstance(pairs, Shift):
        with np.errstate(divide="ignore", invalid="ignore"):
            pull = np.where(residual > 0, pairs.distance / residual, 0.0)
        name = "pull of her features: shift per unit of error"

        def loss_at(x: NDArray, r: NDArray) -> NDArray:
            return Shift(x * r).epsilon(delta)

    else:
        return (
            charts.plane(leverage, residual, [], [] if redact else worst, "leverage without her", redact),
            caption + " No lines of equal loss: here the loss depends on more than these two numbers.",
        )
    curves = _contours(pull, residual, loss_at, np.asarray(audit.epsilon, dtype=float))
    caption += " Dashed: lines of equal loss."
    if not redact:
        caption += " Numbered: the most exposed people of the table above."
    return charts.plane(pull, residual, curves, worst, name, redact), caption


def _ratio(numerator: NDArray, denominator: NDArray) -> float:
    """Return the constant that takes one array to the other (sqrt(gamma)), from the largest entry."""
    i = int(np.argmax(np.where(np.isfinite(denominator), denominator, 0)))
    return float(numerator[i] / denominator[i]) if denominator[i] > 0 else 1.0


def _contours(pull: NDArray, residual: NDArray, loss_at: Any, epsilon: NDArray) -> list[charts.Curve]:
    """Trace lines of equal loss by bisection in the residual at each value of the pull."""
    finite = epsilon[(epsilon > 0) & np.isfinite(epsilon)]
    seen = pull[(pull > 0) & np.isfinite(pull)]
    if len(finite) == 0 or len(seen) == 0:
        return []
    levels = sorted({float(f"{v:.1g}") for v in np.quantile(finite, (0.5, 0.95, 1.0))})
    xs = np.geomspace(seen.min(), seen.max() * 1.25, 80)
    curves = []
    for level in levels:
        low, high = np.full(len(xs), 1e-12), np.full(len(xs), 1e12)
        for _ in range(60):
            middle = np.sqrt(low * high)
            above = loss_at(xs, middle) > level
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        curves.append(charts.Curve(f"{level:g}", "contour", xs, high))
    return curves
