"""``TrainingReading``: what a training cost everybody, read along the way. All of it is confidential."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance.auditing.loss_statistics import Summary, by_group, summary_of
from perinstance.data.answer_tables import Flavour
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.interface.base import Pairs


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainingReading:
    """One entry per person, in the order of their indices.

    A reading is an ``"estimate"``: it composes the lengths that gradients had along this very training, which depend on
    the data and on the noise that was drawn. It is no guarantee. ``upper`` is one: it holds for everybody, in every
    data set, as if their gradient had been as long as the clip in every step.
    """

    delta: float
    steps: int
    pairs: Pairs
    floor: Pairs  #: the same with every length at the level below it
    losses: Floats  #: epsilon as a plain array
    upper: float  #: an epsilon that holds for everybody
    assumption: str  #: what the reading takes for granted, in words

    def __len__(self) -> int:
        return len(self.losses)

    def __repr__(self) -> str:
        # no value: a repr ends up in logs
        return f"TrainingReading({len(self):,} people, {self.steps:,} steps, delta={self.delta:g}, {self.pairs.kind})"

    @property
    def epsilon(self) -> Floats:
        """Of each person: the reading at ``delta``."""
        return self.losses

    @property
    def kind(self) -> Any:
        """Of each person: ``"estimate"``, an odometer reading along this training."""
        return self.pairs.kinds

    def rounding(self) -> Floats:
        """Return by how much counting lengths at levels may have raised each loss, at most. It is included in them."""
        return np.maximum(self.losses - self.floor.epsilon(self.delta), 0.0)

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

    def quantile(self, q: ArrayLike) -> Any:
        """Return the smallest loss that at least a share q of the people does not exceed: an attained value."""
        return attained_quantile(self.losses, q)

    def by(self, groups: Any) -> Any:
        """Return people, mean, median, 95% and maximum of the losses of each group; one label per person."""
        return Flavour("numpy").frame(by_group(self.losses, self.pairs.codes, np.asarray(groups)))

    def columns(self) -> dict[str, Any]:
        """Return epsilon, kind and the bound that holds for everybody as plain columns. Confidential."""
        return {"epsilon": self.losses, "kind": self.kind, "upper": np.full(len(self), self.upper)}

    def to_frame(self) -> Any:
        """Return one row per person. Confidential."""
        return Flavour("numpy").frame(self.columns())
