"""``Audit``: everybody's losses, and what a curator asks of them. All of it is confidential."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.auditing import deletion_requests, rows_again
from perinstance.auditing.deletion_requests import DeletedTogether, Deletions, Republished
from perinstance.auditing.loss_statistics import Summary, by_group, check_labels, share_above, summary_of
from perinstance.auditing.map_people import PeopleAnswers
from perinstance.auditing.rows_again import RareFeatures, Realised, Recheck, RowsBeyond
from perinstance.checked_numbers import is_whole, probability
from perinstance.data.memory.columns import MISSING, label_texts
from perinstance.errors import BeyondBounds, InvalidInput, RefusedModel
from perinstance.folds.block import in_order_of
from perinstance.models.interface import ConfidentialFit, FitHealth
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.base import Pairs
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.rows_per_person import most_rows

if TYPE_CHECKING:
    import os
    from pathlib import Path

    import pyarrow as pa
    from matplotlib.figure import Figure

    from perinstance.analysis import Everyone, WorstCase
    from perinstance.data.recipes.preparation import Preparation
    from perinstance.data.source import Flavour
    from perinstance.engines.protocol import TableSweep
    from perinstance.releases.base.release import Release


@dataclass(frozen=True, slots=True)
class Health(ShownAsTable):
    """How well the confidential fit is determined, numerically. Fields that a model does not have are None."""

    n_people: int  #: of the fit; its rows, where people have several
    n_features: int
    condition: float | None  #: of H, its columns scaled to length one
    factorisation: str | None
    error: float | None  #: an estimate of the relative error of the leverages
    rank: int | None
    largest_leverage: float  #: in-sample, mu / (1 + mu): 1 is somebody who holds up a direction alone
    refined: int  #: people who were answered one by one
    clipped_features: int | None = None  #: rows shrunk to a declared bound, by a release that clips
    clipped_targets: int | None = None

    @classmethod
    def of(cls, fit: FitHealth, n_features: int, top: float, refined: int) -> Health:
        """Put together what the fit says and the largest leverage without the person."""
        most = 1.0 if np.isinf(top) else top / (1.0 + top)
        return cls(n_features=n_features, largest_leverage=most, refined=refined, **asdict(fit))


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
    preparation: Preparation | None = None  #: what turned the raw rows into numbers, if they were not
    features: tuple[str, ...] | None = None  #: the caller's columns that were used, where they have names
    n_rows: int | None = None  #: of these people, where some have several; None: every row is a person
    first_rows: NDArray[np.int64] | None = None  #: where people have several rows: each one's first in the table
    has_weights: bool = False  #: whether rows have weights
    row_flavour: Flavour | None = None  #: the table of rows, with its index; where people have several

    @classmethod
    def of(cls, answers: PeopleAnswers, who: TableSweep, **more: Any) -> Audit:
        """Take the answers for the people of ``who``, its columns and ids; ``more`` are the other fields."""
        return cls(
            pairs=answers.pairs,
            ids=who.ids,
            flavour=who.source.flavour,
            losses=answers.epsilon,
            leverages=answers.leverage,
            residuals=answers.residual,
            refined=len(answers.open),
            n_rows=None if who.n_rows == len(answers.epsilon) else who.n_rows,
            first_rows=getattr(who.source, "first_rows", None),
            row_flavour=getattr(who.source, "row_flavour", None),
            **{"n_features": who.n_features, **more},
        )

    def __len__(self) -> int:
        return len(self.losses)

    def __repr__(self) -> str:
        # no value: a repr ends up in logs
        where = "in the data" if self.inside else "outside the data"
        rows = "" if self.n_rows is None else f" with {self.n_rows:,} rows"
        return f"Audit({len(self):,} people{rows} {where}, {type(self.release).__name__}, delta={self.delta:g})"

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
        return Health.of(self.fit.health, self.n_features, float(self.leverages.max()), self.refined)

    def summary(self) -> Summary:
        """Return the losses of all people in a few numbers."""
        return summary_of(self.losses, self.delta, self.pairs.kind)

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
    def share_above(self, t: float) -> float: ...

    @overload
    def share_above(self, t: Sequence[float] | NDArray) -> Floats: ...

    def share_above(self, t: ArrayLike) -> Any:
        """Return the share of people whose loss exceeds t."""
        return share_above(self.losses, t)

    def at(self, delta: float) -> Audit:
        """Return the audit at another delta: the pairs are kept, so that nothing is fitted again."""
        delta = probability("delta", delta)
        return replace(self, delta=delta, losses=np.asarray(self.pairs.epsilon(delta)))

    def most_exposed(self, count: int = 10) -> Any:
        """Return the people with the largest losses as a table: their ids, or their places. Confidential."""
        if not is_whole(count) or count < 1:
            raise InvalidInput(f"count must be a whole number >= 1, got {count!r}; try most_exposed(10)")
        order = np.argsort(-self.losses, kind="stable")[: int(count)]
        columns = {name: np.asarray(values)[order] for name, values in self.columns().items()}
        person = columns.pop("id", order)
        return type(self.flavour)(self.flavour.kind).frame({"person": person, **columns})

    def by(self, groups: Any) -> Any:
        """Return people, mean, median, 95%, maximum and weakest kind of the losses of each group; one label each.

        There is one label per person, in the order of the audit; of one per row that of a person's first row counts.

        People without a label (None, NaN) are the group ``"missing"``. Several groupings by their names, a mapping or a
        frame of labels, are put below each other, with their names in a column ``by``.
        """
        if isinstance(groups, Mapping) or hasattr(groups, "columns"):
            names = list(groups if isinstance(groups, Mapping) else getattr(groups, "column_names", groups.columns))
            if not names:
                raise InvalidInput("by needs at least one grouping; pass labels, or {'ward': labels}")
            parts = [self._by_one(groups[name], as_text=True) for name in names]
            by = np.repeat([str(name) for name in names], [len(part["group"]) for part in parts])
            columns = {"by": by} | {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        else:
            columns = self._by_one(groups, as_text=False)
        return type(self.flavour)(self.flavour.kind).frame(columns)  # groups are not people: no index

    def _by_one(self, groups: Any, as_text: bool) -> dict[str, Any]:
        """Return the columns of one grouping; labels that are numbers stay numbers, unless they are wanted as texts."""
        groups = self.person_labels(in_order_of(self.flavour, groups, "groups"))
        labels = np.asarray(groups)
        check_labels(labels, len(self))
        if as_text or labels.dtype.kind not in "iub":
            texts = label_texts(groups)
            numbers = not as_text and labels.dtype.kind == "f" and not (texts == MISSING).any()
            labels = labels if numbers else texts.astype(str)
        return by_group(self.losses, self.pairs.codes, labels)

    def person_labels(self, labels: Any) -> Any:
        """Return one label per person of one per row: that of the first row; those of people stay as they are."""
        if self.first_rows is None or len(labels) != self.n_rows:
            return labels
        return np.asarray(in_order_of(self.row_flavour, labels, "groups"), dtype=object)[self.first_rows]

    def columns(self) -> dict[str, Any]:
        """Return id (if any), epsilon, leverage, residual and kind as plain columns. Confidential."""
        columns = {} if self.ids is None else {"id": self.ids}
        columns |= {"epsilon": self.losses, "leverage": self.leverages, "residual": self.residuals}
        return {**columns, "kind": self.pairs.kinds}

    def to_frame(self) -> Any:
        """Return one row per person, in the caller's flavour of table. Confidential."""
        return self.flavour.frame(self.columns())

    def refuse_weights(self) -> None:
        """Refuse what is known of rows without weights only."""
        if self.has_weights:
            raise RefusedModel("this is not known of rows with weights; the losses, their summary and groups are")

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
        again to refit those who come close and to expand the objective. Linear models do not need it. Whoever joins
        has one row.
        """
        from perinstance import analysis

        self.refuse_weights()
        options |= {"x_bound": x_bound, "y_bound": y_bound}
        if X is None:
            found = analysis.everyone(self.release, self.fit, self.delta, **options)
        else:
            with rows_again.audited_table(self, X, y, {"target": target, "ids": ids, "features": features}) as sweep:
                found = analysis.everyone(self.release, self.fit, self.delta, sweep=sweep, **options)
        self._compare(float(found.epsilon), "anybody within the declared bounds could lose by joining this table")
        return found

    def worst_case_dp(self, x_bound: float = 1.0, y_bound: float = 1.0, **options: Any) -> WorstCase:
        """Return the worst-case (epsilon, delta)-DP statement over all data of this size, to stand beside."""
        from perinstance import analysis

        self.refuse_weights()
        # a mean of fewer moves further, and without somebody inside there are fewer
        fewer = most_rows(self.release) if self.inside and self.release.mechanism().moved == "mean" else 0
        options = {"n": max(self.fit.health.n_people - fewer, 0), "d": self.n_features, **options}
        found = analysis.worst_case_dp(self.release, self.delta, x_bound=x_bound, y_bound=y_bound, **options)
        self._compare(float(found.epsilon), "anybody within the declared bounds can lose, in any table of this size")
        return found

    def _compare(self, limit: float, whose: str) -> None:
        """Warn the curator when somebody of the table lost more than a statement for people within bounds allows."""
        if self.inside and self.n_rows is None and float(self.losses.max()) > limit:
            warnings.warn(
                f"somebody of this table lost more than {whose}: most likely the table breaks the bounds, and then the "
                "statement is not about everybody in it; audit.rows_beyond(x_bound, y_bound, X, y) counts them",
                BeyondBounds,
                stacklevel=3,
            )

    def rows_beyond(self, x_bound: ArrayLike, y_bound: float, X: Any, y: Any = None, **columns: Any) -> RowsBeyond:
        """Count the people of the audited table who lie beyond declared bounds. Confidential."""
        return rows_again.rows_beyond(self, x_bound, y_bound, X, y, **columns)

    def rare_features(self, X: Any, y: Any = None, *, count: int = 10, **columns: Any) -> tuple[RareFeatures, ...]:
        """Name what is rare about the rows of the most exposed people of the audited table. Confidential."""
        return rows_again.rare_features(self, count, X, y, **columns)

    def recheck(self, X: Any, y: Any = None, **columns: Any) -> tuple[Recheck, ...]:
        """Refit without the most, the median and the least exposed person of the audited table, and compare."""
        return rows_again.recheck(self, X, y, **columns)

    def realised(self, published: Any, X: Any, y: Any = None, *, outsiders: Any = None, **columns: Any) -> Realised:
        """Return what this very output told about each person: ``log q/p`` there, with over without. Confidential.

        ``published`` is the fitted release, a published model, or the numbers (the intercept last); the table is passed
        as to ``audit``, and so are ``outsiders``, of whom the output may suggest that they are inside.
        Nothing of it may leave the room: a few people's values undo the noise of the release.
        """
        return rows_again.realised(self, published, X, y, outsiders=outsiders, **columns)

    def deletions(self, epsilon: float) -> Deletions:
        """Return who, alone, can be forgotten at (epsilon, delta) while the output stays. Confidential."""
        return deletion_requests.deletions(self, epsilon)

    def deletions_together(
        self, people: Sequence[Any], epsilon: float, X: Any, y: Any = None, **columns: Any
    ) -> DeletedTogether:
        """Return the same for several people (positions or ids), by the exact loss of the group. Confidential."""
        return deletion_requests.deletions_together(self, people, epsilon, X, y, **columns)

    def republished(self, people: Sequence[Any], X: Any, y: Any = None, **columns: Any) -> Republished:
        """Return what publishing again without these people would cost everybody who stays. Confidential."""
        return deletion_requests.republished(self, people, X, y, **columns)

    def plot(self) -> Figure:
        """Draw the losses (``perinstance.plots``)."""
        from perinstance import plots

        return plots.plot(self)

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the curator's report to a file that only its owner can read. Do not publish it."""
        from perinstance import report

        groups = options.get("groups")
        if isinstance(groups, Mapping):
            options["groups"] = {name: in_order_of(self.flavour, one, "groups") for name, one in groups.items()}
        elif groups is not None and not hasattr(groups, "columns"):
            options["groups"] = in_order_of(self.flavour, groups, "groups")
        return report.to_html(self, path, **options)

    def _repr_html_(self) -> str:
        """Show header, quantiles and the worst ten in a notebook."""
        from perinstance.report import reported_losses as exposed_people

        return exposed_people.fragment(self)
