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

from perinstance.auditing.loss_statistics import LossCounts, Summary, group_columns
from perinstance.auditing.map_people import walk_people
from perinstance.auditing.partition_losses import EXPOSED, PeopleSketch, part_path
from perinstance.auditing.result import Audit, Health
from perinstance.data.memory.columns import label_texts
from perinstance.data.source import Flavour, Source
from perinstance.engines.dask import Dask, DaskSweep, partition_labels, results
from perinstance.errors import InvalidInput
from perinstance.models.interface import ConfidentialFit
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import kind_codes
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
    known: PeopleSketch
    source: Source
    refined: int = 0
    n_rows: int | None = None  #: of these people, where some have several; None: every row is a person

    @classmethod
    def of(cls, found: tuple[PeopleSketch, int], who: DaskSweep, **about: Any) -> ScatteredAudit:
        """Take what ``scatter`` returns for the people of ``who``; ``about`` are the other fields."""
        known, refined = found
        about["n_rows"] = None if who.n_rows == sum(known.rows) else who.n_rows
        return cls(known=known, refined=refined, n_features=who.n_features, source=who.source, **about)

    def __len__(self) -> int:
        return sum(self.rows)

    def __repr__(self) -> str:
        where = "in the data" if self.inside else "outside the data"
        about = f"{type(self.release).__name__}, delta={self.delta:g}, {len(self.rows)} partitions"
        return f"ScatteredAudit({len(self):,} people {where}, {about})"

    @property
    def rows(self) -> tuple[int, ...]:
        """How many people are in each partition."""
        return self.known.rows

    @property
    def sketch(self) -> LossCounts:
        """Everybody's losses, in little room."""
        return self.known.losses

    @property
    def health(self) -> Health:
        """Condition, factorisation, largest leverage."""
        return Health.of(self.fit.health, self.n_features, self.known.leverage.maximum, self.refined)

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
        if not 1 <= count <= EXPOSED:
            raise InvalidInput(f"of the most exposed people {EXPOSED} are kept, got {count}")
        return Flavour("pandas").frame({name: values[:count] for name, values in self.known.exposed.items()})

    def by(self, column: str) -> Any:
        """Return people, mean, median, 95%, maximum and weakest kind of each group: a column of the audited table.

        The workers read the labels and the losses of each partition again.
        """
        groups = self.sketches_by(column)
        names = np.array(sorted(groups), dtype=object)
        return Flavour("pandas").frame(group_columns(names, [groups[name].summary(self.delta) for name in names]))

    def sketches_by(self, column: str) -> dict[str, LossCounts]:
        """Return the sketch of each group by its label, in ``column`` of the audited table."""
        import dask

        if self.n_rows is not None:
            raise InvalidInput("people have several rows here; audit without a folder, and pass audit.by their labels")
        labels = partition_labels(self.source, column)
        groups: dict[str, LossCounts] = {}
        for part in results(len(labels), lambda k: dask.delayed(_by_group)(self.folder, k, labels[k]), 64):
            groups |= {name: groups[name] + sketch if name in groups else sketch for name, sketch in part.items()}
        return groups

    def gathered(self) -> Audit:
        """Bring everybody's pairs and losses here, by one more pass of the workers: a ledger is charged with them."""
        if not self.inside:
            raise InvalidInput(
                "people outside are not gathered again; audit them without out=, or read the folder of losses"
            )
        about: dict[str, Any] = {"release": self.release, "fit": self.fit, "delta": self.delta, "inside": self.inside}
        with closing(Dask().sweep(self.source, None)) as sweep:
            return Audit.of(walk_people(**about, sweep=sweep, who=sweep), sweep, **about)

    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path:
        """Write the curator's report. Confidential: readable by its owner alone; ``redact=True`` is for colleagues.

        ``groups`` names columns of the audited table, which the workers read again; ``dp``, ``everyone``, ``title``,
        ``source``, ``target`` and ``unit`` are those of ``Audit.to_html``.
        """
        from perinstance import report

        return report.to_html(self, path, **options)


def _by_group(folder: Path, number: int, labels: Any) -> dict[str, LossCounts]:
    """Run on a worker: the sketch of each group of one partition."""
    if not len(labels):
        return {}
    table = pq.read_table(part_path(folder, number), columns=["epsilon", "kind"])
    losses = table["epsilon"].to_numpy()
    codes = kind_codes(table["kind"].to_numpy(zero_copy_only=False).astype(str), len(losses))
    names, member = np.unique(label_texts(labels).astype(str), return_inverse=True)
    return {str(name): LossCounts.rounded(losses[member == k], codes[member == k]) for k, name in enumerate(names)}
