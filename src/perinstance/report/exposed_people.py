"""The people who pay most: a line each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance.report import words
from perinstance.report.charts.svg import clean

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit
    from perinstance.auditing.rows_again import RareFeatures

MOST_EXPOSED = 10


@dataclass(frozen=True, slots=True)
class ExposedPerson:
    """One line of the table of the most exposed."""

    id: str
    epsilon: str
    leverage: str
    residual: str
    why: str
    kind: str
    features: str = ""  #: what is rare about the row, where the table was read for it


def target_scale(audit: Any) -> float:
    """Return how many units of the raw target one unit of the residuals is: a recipe may have scaled it."""
    source = getattr(audit, "source", None)  # of an audit whose losses stay with the workers
    preparation = getattr(audit, "preparation", getattr(getattr(source, "choice", None), "preparation", None))
    recipe = getattr(source, "target", None) if preparation is None else preparation.target
    return 1.0 if recipe is None else float(recipe.target_scale)


def most_exposed(
    audit: Audit, count: int, rare: Sequence[RareFeatures] = (), unit: str = "", promise: float | None = None
) -> list[tuple[int, ExposedPerson]]:
    """Return positions and lines of the most exposed people, the worst first; a promise is a bound of theirs too."""
    epsilon = np.asarray(audit.epsilon, dtype=float)
    epsilon = epsilon if promise is None else np.minimum(epsilon, promise)
    leverage, residual = np.asarray(audit.leverage, dtype=float), np.asarray(audit.residual, dtype=float)
    kinds = np.asarray(audit.kind)
    order = np.argsort(-epsilon, kind="stable")[:count]
    why, scale = words.reasons(leverage, residual, order.tolist()), target_scale(audit)
    named = {one.position: one for one in rare}
    return [
        (
            int(i),
            ExposedPerson(
                _name(audit.ids, int(i)),
                words.loss(float(epsilon[i])),
                words.number(float(leverage[i])),
                words.number(float(residual[i]) * scale) + (f" {unit}" if unit else ""),
                reason,
                str(kinds[i]),
                _features(named[int(i)]) if int(i) in named else "",
            ),
        )
        for i, reason in zip(order, why, strict=True)
    ]


def _name(ids: Any, i: int) -> str:
    """Return a person's id as written; without ids, the number of their row."""
    return f"row {i}" if ids is None else clean(str(ids[i]))


def _features(rare: RareFeatures) -> str:
    """Write the features with their share of the leverage; what would go with either of two counts for both of them."""
    whole = max(math.fsum(rare.shares), 1.0)
    return ", ".join(f"{clean(n, 24)} {words.share(s / whole)}" for n, s in zip(rare.names, rare.shares, strict=True))
