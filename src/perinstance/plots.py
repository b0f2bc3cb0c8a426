"""Figures of an audit, each on the caller's axes: ``plots.distribution(audit, ax=None) -> Axes``.

Colours are those of Okabe and Ito, which people of every colour vision can tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.report.figures import QUANTILES, noise_sweep
from perinstance.report.group_lines import SMALL_GROUP, by_group, group_rows
from perinstance.report.svg import LogScale, tick_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from perinstance.auditing.result import Audit

#: what is drawn, by the weakest kind among the people
_LOSSES = {"exact": "Losses", "upper": "Upper bounds of the losses", "estimate": "Estimated losses"}
MOST_GROUPS = 40  # in one figure: the most exposed ones
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#888888"


def distribution(audit: Audit, ax: Axes | None = None, dp: float | None = None, everyone: float | None = None) -> Axes:
    """Draw the histogram of the losses on a logarithmic axis, with worst-case statements as lines."""
    ax = _axes(ax)
    epsilon = np.asarray(audit.epsilon, dtype=float)
    shown = epsilon[(epsilon > 0) & np.isfinite(epsilon)]
    ax.set_xscale("log")
    if len(shown):
        edges = np.geomspace(shown.min(), max(shown.max(), shown.min() * 1.01), 40)
        ax.hist(shown, bins=edges.tolist(), color=BLUE, alpha=0.85)
    for value, name, colour, style in (
        (everyone, "anybody within bounds", GREEN, "--"),
        (dp, "worst case (DP)", ORANGE, "-"),
    ):
        if value is not None and np.isfinite(value):
            ax.axvline(value, color=colour, linestyle=style, label=name)
    left_out = len(epsilon) - len(shown)
    title = _LOSSES[audit.pairs.kind] + (f" ({left_out:,} at 0 or ∞ not shown)" if left_out else "")
    ax.set(xlabel="loss ε", ylabel="people", title=title)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False)
    _readable_ticks(ax.xaxis)
    return ax


def policy(releases: Mapping[str, Any], records: Sequence[float], delta: float = 1e-6, ax: Axes | None = None) -> Axes:
    """Draw what releases of sums cost a record of each size, at most: a public curve (``SlowScalingSum.policy``)."""
    from perinstance.disclosure import statement

    ax = _axes(ax)
    for name, release in releases.items():
        told = [statement(release, [size], delta=delta).epsilon for size in records]
        ax.plot(np.asarray(records, dtype=float), told, label=name)
    ax.set(xscale="log", yscale="log", xlabel="size of the record", ylabel=f"loss ε at δ = {delta:g}, at most")
    ax.legend(frameon=False)
    return ax


def plane(audit: Audit, ax: Axes | None = None) -> Axes:
    """Draw leverage against the leave-one-out prediction error, coloured by the loss."""
    ax = _axes(ax)
    leverage, size = np.asarray(audit.leverage, dtype=float), np.abs(np.asarray(audit.residual, dtype=float))
    epsilon = np.asarray(audit.epsilon, dtype=float)
    seen = (
        (leverage > 0) & (size > 0) & (epsilon > 0) & np.isfinite(leverage) & np.isfinite(size) & np.isfinite(epsilon)
    )
    ax.set(xscale="log", yscale="log", xlabel="leverage without the person", ylabel="leave-one-out prediction error")
    if seen.sum() > 20_000:
        cells: Any = ax.hexbin(
            leverage[seen], size[seen], C=np.log10(epsilon[seen]), reduce_C_function=np.max, xscale="log", yscale="log",
            gridsize=60, cmap="cividis",
        )  # fmt: skip
    else:
        cells = ax.scatter(leverage[seen], size[seen], c=np.log10(epsilon[seen]), s=12, cmap="cividis")
    if seen.any():
        ax.figure.colorbar(cells, ax=ax, label="log10 of the loss ε")
    _readable_ticks(ax.xaxis, ax.yaxis)
    return ax


def groups(audit: Audit, labels: Sequence[Any], ax: Axes | None = None) -> Axes:
    """Draw median, 95% and maximum by group; small groups are grey."""
    ax = _axes(ax)
    if len(labels) != len(np.asarray(audit.epsilon)):
        raise InvalidInput(f"labels must have one entry per person ({len(audit.epsilon)}), got {len(labels)}")
    every = group_rows(by_group(np.asarray(audit.epsilon, dtype=float), labels))
    rows = every[:MOST_GROUPS]
    for y, row in enumerate(reversed(rows)):
        colour = GREY if row.size < SMALL_GROUP else BLUE
        ax.plot([row.median, row.largest], [y, y], color=colour, linewidth=1.5)
        ax.plot([row.median, row.q95], [y, y], color=colour, linewidth=6, solid_capstyle="butt")
        ax.plot([row.largest], [y], "o", color=ORANGE if row.size >= SMALL_GROUP else GREY)
    # Names come from the data: a dollar sign would start matplotlib's formula mode.
    names = [f"{row.name} ({row.size:,})".replace("$", r"\$") for row in reversed(rows)]
    ax.set_yticks(range(len(rows)), names)
    ax.set(xscale="log", xlabel="loss ε: median, 95%, maximum")
    _readable_ticks(ax.xaxis)
    if len(rows) < len(every):
        ax.set_title(f"The {len(rows)} most exposed of {len(every):,} groups")
    return ax


def noise(audit: Audit, ax: Axes | None = None) -> Axes:
    """Draw the loss quantiles against the size of the noise. Choosing noise by looking at this is itself a release."""
    ax = _axes(ax)
    swept = noise_sweep(audit)
    if swept is None:
        raise InvalidInput(
            "the losses of this release under other noise are not one formula; change its noise and audit again"
        )
    for q, row, colour, style in zip(QUANTILES, swept.epsilon, (BLUE, GREEN, ORANGE), ("-", "--", ":"), strict=True):
        ax.plot(
            swept.factors, row, color=colour, linestyle=style, label={0.5: "median", 1.0: "maximum"}.get(q, f"{q:.0%}")
        )
    ax.axvline(1.0, color=GREY, linestyle=":", linewidth=1)
    ax.set(xscale="log", yscale="log", xlabel="noise, relative to this release", ylabel="loss ε")
    ax.legend(frameon=False)
    _readable_ticks(ax.xaxis, ax.yaxis)
    return ax


def settings(losses: Mapping[str, Any], ax: Axes | None = None, dp: Mapping[str, float] | None = None) -> Axes:
    """Draw box plots of the losses under several settings, with the worst-case statement of each as a mark."""
    ax = _axes(ax)
    if not losses:
        raise InvalidInput("settings needs at least one audit, got none; pass {'name': audit, ...}")
    values = [np.asarray(getattr(one, "epsilon", one), dtype=float) for one in losses.values()]
    ax.boxplot([v[(v > 0) & np.isfinite(v)] for v in values], whis=(0, 100), medianprops={"color": ORANGE})
    ax.set_xticks(range(1, len(values) + 1), [str(name).replace("$", r"\$") for name in losses])
    for place, name in enumerate(losses, start=1):
        if dp is not None and name in dp and np.isfinite(dp[name]):
            ax.plot([place], [dp[name]], "v", color=ORANGE)
    ax.set(yscale="log", ylabel="loss ε (box: quartiles; whiskers: all people)")
    _readable_ticks(ax.yaxis)
    return ax


def plot(audit: Audit) -> Figure:
    """Draw distribution and plane side by side: what ``audit.plot()`` shows."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    distribution(audit, left)
    plane(audit, right)
    if "inline" in mpl.get_backend():
        plt.close(figure)  # a notebook shows what a cell returns, and would show an open figure once more
    return figure


def _readable_ticks(*axes: Axis) -> None:
    """Label logarithmic axes as the report does: powers of ten, on a short axis also their twos and fives."""
    from matplotlib.ticker import FuncFormatter, Locator, NullLocator

    class FewTicks(Locator):
        def __call__(self) -> list[float]:
            assert self.axis is not None  # matplotlib sets it before it asks
            return self.tick_values(*self.axis.get_view_interval())

        def tick_values(self, vmin: float, vmax: float) -> list[float]:
            low, high = sorted((vmin, vmax))
            return LogScale(low, high, 0.0, 1.0).ticks() if low > 0 else []

    for axis in axes:
        axis.set_major_locator(FewTicks())
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value)))


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6.4, 4.2), layout="constrained")[1]
