"""``Audit``: everybody's losses, and what a curator asks of them. All of it is confidential."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.auditing.group_table import group_columns
from perinstance.checked_numbers import is_whole
from perinstance.errors import InvalidInput
from perinstance.models.interface.fit_health import ConfidentialFit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.interface.base import Pairs
from perinstance.releases.base.shown_decimals import short_loss_text

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import pyarrow as pa
    from matplotlib.figure import Figure

    from perinstance.analysis import Everyone, WorstCase
    from perinstance.auditing.refit_check import Recheck
    from perinstance.data.answer_tables import Flavour
    from perinstance.pairs.interface.kinds import Kind
    from perinstance.releases.base.release import Release


@dataclass(frozen=True, slots=True)
class Health:
    """How well the confidential fit is determined, numerically. Fields that a model does not have are None."""

    n_people: int
    n_features: int
    condition: float | None  #: of H, its columns scaled to length one
    factorisation: str | None
    error: float | None  #: an estimate of the relative error of the leverages
    rank: int | None
    largest_leverage: float  #: in-sample, mu / (1 + mu): 1 is somebody who holds up a direction alone
    refined: int  #: people who were answered one by one


@dataclass(frozen=True, slots=True)
class Summary:
    """The losses of all people in a few numbers. ``print`` shows them as a table."""

    people: int
    delta: float
    kind: Kind
    mean: float
    median: float
    p95: float
    p99: float
    maximum: float
    infinite: int  #: people for whom no finite loss holds

    def __str__(self) -> str:
        lines = [f"{self.people:,} people at delta = {self.delta:g} ({self.kind})"]
        for name in ("mean", "median", "p95", "p99", "maximum"):
            lines.append(f"  {name:<8} {short_loss_text(getattr(self, name))}")
        if self.infinite:
            lines.append(f"  infinite {self.infinite:,}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Audit:
    """One entry per person, in the caller's order, index and flavour of table."""

    release: Release
    fit: ConfidentialFit  #: the confidential fit with everyone; each release has a record of its own for it
    delta: float
    pairs: Pairs
    ids: pa.ChunkedArray | None  #: strings as written
    flavour: Flavour  #: the caller's kind of table, in which answers are given back: what they are is known at run time
    losses: Floats  #: epsilon as a plain array
    leverages: Floats
    residuals: Floats
    inside: bool  #: whether these people are in the data
    n_features: int
    refined: int = 0

    def __len__(self) -> int:
        return len(self.losses)

    def __repr__(self) -> str:
        # no value: a repr ends up in logs
        where = "in the data" if self.inside else "outside the data"
        return f"Audit({len(self):,} people {where}, {type(self.release).__name__}, delta={self.delta:g})"

    @property
    def epsilon(self) -> Any:
        """Of each person: the smallest epsilon that holds at ``delta``."""
        return self.flavour.series(self.losses, "epsilon")

    @property
    def kind(self) -> Any:
        """Of each person: ``"exact"``, ``"upper"`` or ``"estimate"``."""
        return self.flavour.series(self.pairs.kinds, "kind")

    @property
    def leverage(self) -> Any:
        """``mu = x'H^-1x`` with H taken without the person; the in-sample hat value is ``mu / (1 + mu)``."""
        return self.flavour.series(self.leverages, "leverage")

    @property
    def residual(self) -> Any:
        """``y - x'theta_without``; NaN where theta without the person is not determined."""
        return self.flavour.series(self.residuals, "residual")

    @property
    def health(self) -> Health:
        """Condition, factorisation, largest leverage."""
        top, fit = float(self.leverages.max()), self.fit.health
        return Health(
            n_people=fit.n_people,
            n_features=self.n_features,
            condition=fit.condition,
            factorisation=fit.factorisation,
            error=fit.error,
            rank=fit.rank,
            largest_leverage=1.0 if np.isinf(top) else top / (1.0 + top),
            refined=self.refined,
        )

    def summary(self) -> Summary:
        """Return the losses of all people in a few numbers."""
        median, p95, p99, maximum = self.quantile([0.5, 0.95, 0.99, 1.0])
        return Summary(
            people=len(self),
            delta=self.delta,
            kind=self.pairs.kind,
            mean=float(self.losses.mean()),
            median=float(median),
            p95=float(p95),
            p99=float(p99),
            maximum=float(maximum),
            infinite=int(np.isinf(self.losses).sum()),
        )

    def moments(self, k: int = 4) -> Floats:
        """Return ``E eps, E eps^2, ..., E eps^k`` over these people (the paper's moment pDP)."""
        if not is_whole(k) or k < 1:
            raise InvalidInput(f"k must be a whole number >= 1, got {k!r}; try moments(4)")
        with np.errstate(over="ignore"):
            return np.array([np.mean(self.losses**j) for j in range(1, int(k) + 1)])

    @overload
    def quantile(self, q: float) -> float: ...

    @overload
    def quantile(self, q: Sequence[float] | NDArray) -> Floats: ...

    def quantile(self, q: ArrayLike) -> Any:
        """Return the smallest loss that at least a share q of the people does not exceed: an attained value."""
        return attained_quantile(self.losses, q)

    @overload
    def tail(self, t: float) -> float: ...

    @overload
    def tail(self, t: Sequence[float] | NDArray) -> Floats: ...

    def tail(self, t: ArrayLike) -> Any:
        """Return the share of people whose loss exceeds t."""
        limits = np.asarray(t, dtype=np.float64)
        if np.isnan(limits).any():
            raise InvalidInput("tail needs a number, got NaN; try tail(2.0)")
        ordered = np.sort(self.losses)
        share = 1.0 - np.searchsorted(ordered, limits, side="right") / len(ordered)
        return float(share) if share.ndim == 0 else share

    def by(self, groups: Any) -> Any:
        """Return people, mean, median, 95% and maximum of the losses of each group; one label per person."""
        columns = group_columns(self.losses, groups)
        return type(self.flavour)(self.flavour.kind).frame(columns)  # groups are not people: no index

    def columns(self) -> dict[str, Any]:
        """Return id (if any), epsilon, leverage, residual and kind as plain columns. Confidential."""
        columns = {} if self.ids is None else {"id": self.ids}
        columns |= {"epsilon": self.losses, "leverage": self.leverages, "residual": self.residuals}
        return {**columns, "kind": self.pairs.kinds}

    def to_frame(self) -> Any:
        """Return one row per person, in the caller's flavour of table. Confidential."""
        return self.flavour.frame(self.columns())

    def everyone(
        self,
        x_bound: ArrayLike = 1.0,
        y_bound: float = 1.0,
        X: Any = None,
        y: Any = None,
        *,
        target: Any = None,
        ids: Any = None,
        features: Any = None,
        **options: Any,
    ) -> Everyone:
        """Return pDP for all: the largest loss of anybody with ``||x|| <= x_bound, |y| <= y_bound``, data fixed.

        A smooth model (logistic, Poisson, ...) wants the table that was audited, passed as to ``audit``: it is read
        again to refit those who come close and to expand the objective. Linear models do not need it.
        """
        from perinstance import analysis
        from perinstance.data import read_table
        from perinstance.engines import Local

        options |= {"x_bound": x_bound, "y_bound": y_bound}
        if X is None:
            return analysis.everyone(self.release, self.fit, self.delta, **options)
        sweep = Local(threads=1).sweep(read_table(X, y, target=target, ids=ids, features=features))
        try:
            return analysis.everyone(self.release, self.fit, self.delta, sweep=sweep, **options)
        finally:
            sweep.close()

    def dp(self, x_bound: float = 1.0, y_bound: float = 1.0, **options: Any) -> WorstCase:
        """Return the worst-case (epsilon, delta)-DP statement over all data of this size, to stand beside."""
        from perinstance import analysis

        options = {"n": self.fit.health.n_people, "d": self.n_features, **options}
        return analysis.dp(self.release, self.delta, x_bound=x_bound, y_bound=y_bound, **options)

    def recheck(self, X: Any, y: Any = None, **columns: Any) -> tuple[Recheck, ...]:
        """Refit without the most, the median and the least exposed person of the audited table, and compare."""
        from perinstance.auditing.refit_check import recheck

        return recheck(self, X, y, **columns)

    def plot(self) -> Figure:
        """Draw the losses (``perinstance.plots``)."""
        from perinstance import plots

        return plots.plot(self)

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the curator's report to a file that only its owner can read. Do not publish it."""
        from perinstance import report

        return report.to_html(self, path, **options)

    def _repr_html_(self) -> str:
        """Show header, quantiles and the worst ten in a notebook."""
        from perinstance.report import notebook

        return notebook.fragment(self)
