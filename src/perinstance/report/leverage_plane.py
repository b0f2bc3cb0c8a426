"""The plane on which a loss can be read: how rare the features are against how badly the person is predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.quantiles import attained_quantile
from perinstance.numerics.rounding import SEARCHED_RESIDUALS
from perinstance.pairs import GaussianShift, LaplaceShift, PosteriorSamplePair
from perinstance.report import charts
from perinstance.report.page import Section
from perinstance.report.redaction import SHARED, PlaneCell, shared_plane
from perinstance.report.reported_losses import ReportRequest, target_scale

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit

#: The pair of one displacement over the noise's scale, by the law of the noise.
SHIFTS: dict[str, Callable[[NDArray], GaussianShift | LaplaceShift]] = {
    "gaussian": GaussianShift,
    "laplace": LaplaceShift,
}


def plane_section(asked: ReportRequest) -> Iterator[Section]:
    """Show everybody on the two axes on which the loss can be read, with lines of equal loss where there are such."""
    heading = "Why: rare features and surprise"
    # nobody has either in a training elsewhere; those of a cluster's audit lie with its workers
    if asked.scattered or np.isnan(np.asarray(asked.audit.leverage, dtype=float)).all():
        return
    scale = target_scale(asked.audit)
    residual = np.abs(np.asarray(asked.audit.residual, dtype=float)) * scale
    across, name, loss_at = _axis(asked.audit, residual, scale)
    shown: charts.Dots | list[PlaneCell] = charts.Dots(across, residual, [i for i, _ in asked.worst])
    caption = "Each cell holds some people; stronger colour is more."
    if len(residual) <= charts.FEW:
        caption = "Each dot is a person."
    if asked.shared is not None:
        seen = (across > 0) & (residual > 0) & np.isfinite(across) & np.isfinite(residual)
        shown = shared_plane(across[seen], residual[seen])
        if not shown:
            yield Section("why", heading, lead=f"Left out: no cell of this figure holds {SHARED} people.")
            return
        caption = f"Each cell holds at least {SHARED} people; stronger colour is more. People elsewhere are left out."
    if loss_at is None:
        caption += " No lines of equal loss: here the loss depends on more than these two numbers."
        curves = []
    else:
        caption += " Dashed: lines of equal loss."
        curves = _contours(_range(across, shown), loss_at, _levels(asked))
        if not asked.redact:
            caption += " Numbered: the most exposed people of the table above."
    figure = charts.plane(shown, curves, name, asked.error_name)
    yield Section("why", heading, figure=figure, figure_label="Rare features against surprise", caption=caption)


def _levels(asked: ReportRequest) -> list[float]:
    """Return the losses whose lines are drawn: quantiles, or the upper ends of shared cells."""
    if asked.shared is not None:
        return sorted({cell.high for _, cell in asked.shared.told})
    finite = asked.epsilon[(asked.epsilon > 0) & np.isfinite(asked.epsilon)]
    return sorted({float(f"{v:.1g}") for v in attained_quantile(finite, (0.5, 0.95, 1.0))}) if len(finite) else []


def _range(values: NDArray, shown: charts.Dots | list[PlaneCell]) -> tuple[float, float] | None:
    """Return between which values of the lower axis lines are traced."""
    if not isinstance(shown, charts.Dots):
        return min(cell.left for cell in shown), max(cell.right for cell in shown)
    seen = values[(values > 0) & np.isfinite(values)]
    return (float(seen.min()), float(seen.max()) * 1.25) if len(seen) else None


def _axis(
    audit: Audit, residual: NDArray, scale: float
) -> tuple[NDArray, str, Callable[[NDArray, NDArray], NDArray] | None]:
    """Return one value per person, its name and, where the loss is a function of it and of the residual, that function.

    Chosen by what the release says of itself; residuals are shown in units of which the release's is ``scale``.
    """
    mechanism, delta = audit.release.mechanism(), audit.delta
    if mechanism.family == "output" and mechanism.noise in SHIFTS:
        shift, pairs = SHIFTS[mechanism.noise], cast("GaussianShift | LaplaceShift", audit.pairs)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(residual > 0, pairs.distance / residual, 0.0)
        return (values, "distance per unit of prediction error", lambda x, r: shift(x * r).epsilon(delta))
    leverage, name = np.asarray(audit.leverage, dtype=float), "leverage without the person"
    if mechanism.family == "posterior" and mechanism.moved == "ridge":
        return (leverage, name, lambda x, r: PosteriorSamplePair(x, r / scale / mechanism.scale).epsilon(delta))
    return (leverage, name, None)


def _contours(
    ends: tuple[float, float] | None, loss_at: Callable[[NDArray, NDArray], NDArray], levels: list[float]
) -> list[charts.Curve]:
    """Trace lines of equal loss by bisection in the residual at each value of the other axis."""
    xs, curves = np.geomspace(*(ends or (1.0, 1.0)), 80), []
    for level in levels if ends else ():
        low, high = (np.full(len(xs), end) for end in SEARCHED_RESIDUALS)
        for _ in range(60):
            middle = np.sqrt(low * high)
            above = loss_at(xs, middle) > level
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        curves.append(charts.Curve(f"{level:g}", "contour", xs, high))
    return curves
