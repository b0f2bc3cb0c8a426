"""The paper's table of definitions, on one data set: what each variant of differential privacy says about each person.

| variant      | data set | target  | functional of the pair                            |
|--------------|----------|---------|---------------------------------------------------|
| pure         | fixed    | each    | sup log p/q: epsilon at delta = 0                 |
| approximate  | fixed    | each    | epsilon at delta: per-instance DP                 |
| Renyi        | fixed    | each    | the divergence of order alpha                     |
| zCDP         | fixed    | each    | sup_alpha Renyi(alpha)/alpha                      |
| KL, TV       | fixed    | each    | Kullback-Leibler, total variation                 |
| on-average KL| fixed    | average | mean of KL over the people                        |
| random DP    | fixed    | 1 - g   | the loss that a share 1 - g does not exceed       |

The worst-case definitions of the table are suprema of these columns: over targets (``everyone``), over data sets for
one person (``one``: personal DP) or over both (``worst_case``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from perinstance.analysis.people.loss_moments import quantile
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.pairs.interface.base import Pairs
from perinstance.pairs.interface.kinds import Kind
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.shown_decimals import short_loss_text


@dataclass(frozen=True, slots=True)
class Variants(ShownAsTable):
    """One number per person and definition. Confidential."""

    names: tuple[str, ...]
    values: Floats  #: (people, definitions)
    delta: float
    orders: tuple[float, ...]
    kind: Kind
    assumptions: tuple[str, ...]

    def __getitem__(self, name: str) -> Floats:
        if name not in self.names:
            raise InvalidInput(f"no such definition: {name!r}; there are {', '.join(self.names)}")
        return self.values[:, self.names.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @property
    def on_average_kl(self) -> float:
        """The mean Kullback-Leibler loss over the people of this data set."""
        return float(self["kl"].mean())

    def random_dp(self, share: float) -> float:
        """Return the approximate-DP loss that all but a share of the people of this data set do not exceed."""
        return float(quantile(self["approximate"], 1 - share))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per person (pandas must be installed)."""
        import pandas as pd

        return pd.DataFrame(self.values, columns=list(self.names))

    def __str__(self) -> str:
        shares = (0.5, 0.95, 1.0)
        lines = [f"{'definition':<14}{'mean':>12}{'median':>12}{'95%':>12}{'largest':>12}"]
        for j, name in enumerate(self.names):
            column = self.values[:, j]
            cells = [column.mean(), *quantile(column, shares)]
            lines.append(f"{name:<14}" + "".join(f"{short_loss_text(cell, 4):>12}" for cell in cells))
        lines.append(f"approximate at delta = {self.delta:g}; {len(self.values)} people; {self.kind}")
        return "\n".join(lines)


class Audited(Protocol):
    """What an audit is asked for here: its pairs and its delta."""

    @property
    def pairs(self) -> Pairs:
        """One pair per person."""

    @property
    def delta(self) -> float:
        """At which it was made."""


def variants(pairs: Pairs | Audited, delta: float | None = None, orders: Sequence[float] = (2.0, 10.0)) -> Variants:
    """Put the definitions side by side, for pairs or for an audit.

    >>> from perinstance.pairs import Shift
    >>> print(variants(Shift([0.3, 1.0]), 1e-6, orders=(2.0,)))
    definition            mean      median         95%     largest
    pure                   inf         inf         inf         inf
    approximate           3.09       1.292       4.887       4.887
    renyi(2)            0.5451        0.09           1           1
    zcdp                0.2726       0.045         0.5         0.5
    kl                  0.2726       0.045         0.5         0.5
    tv                  0.2511      0.1193       0.383       0.383
    approximate at delta = 1e-06; 2 people; exact
    """
    if isinstance(pairs, Pairs):
        vector = pairs
    else:
        vector, delta = pairs.pairs, pairs.delta if delta is None else delta
    if not len(vector):
        raise InvalidInput("there is nobody to compare definitions for: pass the pairs of at least one person")
    if delta is None:
        raise InvalidInput("delta is needed with pairs; try delta=1e-6")
    columns = {
        "pure": vector.epsilon(0.0),
        "approximate": vector.epsilon(delta),
        **{f"renyi({order:g})": vector.renyi(order) for order in orders},
        "zcdp": vector.zcdp(),
        "kl": vector.kl(),
        "tv": vector.tv(),
    }
    return Variants(
        tuple(columns),
        np.column_stack(list(columns.values())),
        float(delta),
        tuple(float(order) for order in orders),
        vector.kind,
        ("the data set is fixed", "each target is one person; the pair is without and with that person"),
    )
