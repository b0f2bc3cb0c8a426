"""The plane on which a loss can be read: how rare the features are against how badly the person is predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.quantiles import attained_quantile
from perinstance.numerics.rounding import SEARCHED_RESIDUALS
from perinstance.pairs import Laplace, Posterior, Shift
from perinstance.report import charts
from perinstance.report.sections import ReportRequest, Section

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit

#: The pair of one displacement over the noise's scale, by the law of the noise.
SHIFTS: dict[str, Callable[[NDArray], Shift | Laplace]] = {"gaussian": Shift, "laplace": Laplace}


@dataclass(frozen=True, slots=True)
class _Axis:
    """One value per person and, where the loss is a function of it and of the prediction error, that function."""

    values: NDArray
    name: str
    loss_at: Callable[[NDArray, NDArray], NDArray] | None


def plane_section(asked: ReportRequest) -> Section:
    """Show everybody on the two axes on which the loss can be read, with lines of equal loss where there are such."""
    audit, redact = asked.audit, asked.redact
    residual = np.abs(np.asarray(audit.residual, dtype=float))
    axis = _axis(audit, residual)
    curves = [] if axis.loss_at is None else _contours(axis.values, axis.loss_at, asked.epsilon)
    few = len(residual) <= charts.FEW and not redact
    caption = "Each dot is a person." if few else "Each cell holds some people; darker is more."
    if axis.loss_at is None:
        caption += " No lines of equal loss: here the loss depends on more than these two numbers."
    else:
        caption += " Dashed: lines of equal loss."
        if not redact:
            caption += " Numbered: the most exposed people of the table above."
    return Section(
        "why",
        "Why: rare features and surprise",
        figure=charts.plane(axis.values, residual, curves, asked.worst, axis.name, redact),
        figure_label="Rare features against surprise",
        caption=caption,
    )


def _axis(audit: Audit, residual: NDArray) -> _Axis:
    """Choose by what the release says of itself."""
    mechanism, delta = audit.release.mechanism(), audit.delta
    if mechanism.family == "output" and mechanism.noise in SHIFTS:
        shift, pairs = SHIFTS[mechanism.noise], cast("Shift | Laplace", audit.pairs)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(residual > 0, pairs.distance / residual, 0.0)
        return _Axis(values, "distance per unit of prediction error", lambda x, r: shift(x * r).epsilon(delta))
    leverage, name = np.asarray(audit.leverage, dtype=float), "leverage without the person"
    if mechanism.family == "posterior" and mechanism.moved == "ridge":
        return _Axis(leverage, name, lambda x, r: Posterior(x, r / mechanism.scale).epsilon(delta))
    return _Axis(leverage, name, None)


def _contours(values: NDArray, loss_at: Callable[[NDArray, NDArray], NDArray], epsilon: NDArray) -> list[charts.Curve]:
    """Trace lines of equal loss by bisection in the residual at each value of the other axis."""
    finite = epsilon[(epsilon > 0) & np.isfinite(epsilon)]
    seen = values[(values > 0) & np.isfinite(values)]
    if len(finite) == 0 or len(seen) == 0:
        return []
    levels = sorted({float(f"{v:.1g}") for v in attained_quantile(finite, (0.5, 0.95, 1.0))})
    xs = np.geomspace(seen.min(), seen.max() * 1.25, 80)
    curves = []
    for level in levels:
        low, high = (np.full(len(xs), end) for end in SEARCHED_RESIDUALS)
        for _ in range(60):
            middle = np.sqrt(low * high)
            above = loss_at(xs, middle) > level
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        curves.append(charts.Curve(f"{level:g}", "contour", xs, high))
    return curves
