"""``ScatteredAudit``: what a curator asks of losses that lie in one file per partition. All of it is confidential."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from perinstance.auditing.loss_statistics import Summary
from perinstance.auditing.map_people import walk_people
from perinstance.auditing.result import Audit, Health
from perinstance.auditing.scattered.loss_sketch import LossSketch
from perinstance.auditing.scattered.partition_losses import (
    GroupSketches,
    MostExposed,
    ReasonSketches,
    part_path,
    total_of,
)
from perinstance.data.memory.class_words import label_texts
from perinstance.data.source import Flavour, Source
from perinstance.engines.dask.engine import Dask
from perinstance.engines.dask.parquet_parts import file_parts
from perinstance.errors import InvalidInput
from perinstance.models.interface import ConfidentialFit
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import KINDS, kind_codes
from perinstance.releases.base.release import Release


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ScatteredAudit:
    """Sums over everybody, and the most exposed people one by one; the others are in ``folder``.

    Counts, means and the maximum are exact. Quantiles are never below the truth and at most a thousandth above.
    """

    release: Release
    fit: ConfidentialFit
    delta: float
    inside: bool  #: whether these people are in the data
    n_features: int
    folder: Path  #: one Parquet file of losses per partition, for the owner alone
    sketch: LossSketch
    exposed: MostExposed
    reasons: ReasonSketches
    rows: tuple[int, ...]  #: of each partition
    source: Source
    refined: int = 0

    def __len__(self) -> int:
        return sum(self.rows)

    def __repr__(self) -> str:
        where = "in the data" if self.inside else "outside the data"
        name = type(self.release).__name__
        return (
            f"ScatteredAudit({len(self):,} people {where}, {name}, delta={self.delta:g}, {len(self.rows)} partitions)"
        )

    @property
    def health(self) -> Health:
        """Condition, factorisation, largest leverage."""
        return Health.of(self.fit.health, self.n_features, self.reasons.leverage.maximum, self.refined)

    def summary(self) -> Summary:
        """Return the losses of all people in a few numbers."""
        return self.sketch.summary(self.delta)

    def quantile(self, q: ArrayLike) -> Any:
        """Return a loss that at least a share q of the people does not exceed: at most a thousandth too large."""
        return self.sketch.quantile(q)

    def share_above(self, t: ArrayLike) -> Any:
        """Return the share of people whose loss may exceed t (those within a thousandth of t count)."""
        return self.sketch.share_above(t)

    def moments(self, k: int = 4) -> Floats:
        """Return ``E eps, ..., E eps^k`` over these people, k at most 4."""
        return self.sketch.moments(k)

    def most_exposed(self, count: int = 10) -> Any:
        """Return the people with the largest losses, exactly, as a table."""
        if not 1 <= count <= self.exposed.limit:
            raise InvalidInput(f"of the most exposed people {self.exposed.limit} are kept, got {count}")
        top = self.exposed
        columns = {
            "person": top.names,
            "epsilon": top.epsilon,
            "leverage": top.leverage,
            "residual": top.residual,
            "kind": np.array(KINDS)[top.codes],
        }
        return Flavour("pandas").frame({name: values[:count] for name, values in columns.items()})

    def by(self, column: str) -> Any:
        """Return people, mean, median, 95%, maximum and weakest kind of each group: a column of the audited table.

        The workers read the labels and the losses of each partition again.
        """
        groups = self.sketches_by(column)
        names = sorted(groups)
        rows = [groups[name].summary(self.delta) for name in names]
        columns: dict[str, Any] = {"group": np.array(names, dtype=object)}
        for title in ("people", "mean", "median", "p95", "maximum", "kind"):
            columns[title] = np.array([getattr(row, title) for row in rows])
        return Flavour("pandas").frame(columns)

    def sketches_by(self, column: str) -> dict[str, LossSketch]:
        """Return the sketch of each group by its label, in ``column`` of the audited table."""
        import dask

        from perinstance.engines.dask.graph_runs import results

        labels = self._labels(column)
        folder = str(self.folder)
        found = results(len(labels), lambda k: dask.delayed(_group_sketches)(folder, k, labels[k]), 64)
        groups: dict[str, LossSketch] = (total_of(list(found)) or GroupSketches({})).groups
        return groups

    def gathered(self) -> Audit:
        """Bring everybody's pairs and losses here, by one more pass of the workers: a ledger is charged with them."""
        if not self.inside:
            raise InvalidInput(
                "people outside are not gathered again; audit them without out=, or read the folder of losses"
            )
        with closing(Dask().sweep(self.source, None)) as sweep:
            answer = walk_people(self.release, self.fit, sweep, sweep, self.inside, self.delta)
            return Audit(
                release=self.release,
                fit=self.fit,
                delta=self.delta,
                pairs=answer.pairs,
                ids=sweep.ids,
                flavour=self.source.flavour,
                losses=answer.epsilon,
                leverages=answer.leverage,
                residuals=answer.residual,
                inside=self.inside,
                n_features=self.n_features,
                refined=answer.refined,
            )

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the curator's report. Confidential: readable by its owner alone; ``redact=True`` is for colleagues.

        ``groups`` names columns of the audited table, which the workers read again; ``dp``, ``everyone``, ``title``,
        ``source``, ``target`` and ``unit`` are those of ``Audit.to_html``.
        """
        from perinstance import report

        return report.to_html(self, path, **options)

    def _labels(self, column: str) -> list[Any]:
        """Return what gives the labels of each partition, on a worker."""
        import dask

        if hasattr(self.source, "labels"):
            return list(self.source.labels(column))
        parts = file_parts(self.source)
        if parts is None:
            raise InvalidInput("this table has no columns to group by; audit a data frame or Parquet")
        from perinstance.data import read_labels

        return [dask.delayed(read_labels)(part, column) for part in parts]


def _group_sketches(folder: str, number: int, labels: Any) -> GroupSketches:
    """Run on a worker: the sketch of each group of one partition."""
    path = part_path(folder, number)
    if not len(labels):
        return GroupSketches({})
    table = pq.read_table(path, columns=["epsilon", "kind"])
    losses = table["epsilon"].to_numpy()
    codes = kind_codes(table["kind"].to_numpy(zero_copy_only=False).astype(str), len(losses))
    names, member = np.unique(label_texts(labels).astype(str), return_inverse=True)
    return GroupSketches(
        {str(name): LossSketch.of(losses[member == k], codes[member == k]) for k, name in enumerate(names)}
    )
