"""The losses that a page reports, and what the curator asked to see of them.

They lie in memory, or with the workers of a cluster: then the page is made of sketches, the maximum and the most
exposed people, and nothing as long as the table is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.kinds import Kind, weakest
from perinstance.report.exposed_people import ExposedPerson
from perinstance.report.meaning import most_attack_power
from perinstance.report.redaction import SharedLosses

if TYPE_CHECKING:
    from perinstance.auditing.loss_sketch import LossSketch
    from perinstance.auditing.result import Audit
    from perinstance.auditing.scattered_audit import ScatteredAudit

LEVELS = (0.5, 0.95, 0.99, 1.0)  #: of the cards


@dataclass(frozen=True, slots=True)
class CommonStatements:
    """What is said of anybody: it stands beside the losses."""

    dp: float | None  #: of any data within the declared bounds
    everyone: float | None  #: of anybody within them, with this data set
    promise: float | None  #: what the release promises everybody, at the audit's delta

    @property
    def none(self) -> bool:
        """Whether nothing is said."""
        return self.dp is None and self.everyone is None and self.promise is None

    @property
    def most(self) -> float:
        """What nobody's loss exceeds: the promise."""
        return math.inf if self.promise is None else self.promise


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The audit that is reported, and what the curator asked to see of it."""

    audit: Any  #: an ``Audit`` or a ``ScatteredAudit``
    epsilon: Floats
    people: NDArray | None  #: how many have each loss; None: one each, in the order of the table
    worst: list[tuple[int, ExposedPerson]]  #: positions and lines of the most exposed people, the worst first
    groups: Mapping[str, Any]  #: labels, or sketches by group; by the grouping's name, which is empty for a single one
    statements: CommonStatements
    error_name: str  #: of the prediction error, with its unit where that is known
    shared: SharedLosses | None  #: what may be shown of the losses in a redacted copy; None in a full one

    @property
    def redact(self) -> bool:
        """Whether this is a copy for colleagues."""
        return self.shared is not None

    @property
    def scattered(self) -> bool:
        """Whether the losses lie with the workers of a cluster."""
        return self.people is not None

    @property
    def bounded(self) -> bool:
        """Whether attacks are bounded by losses, for any release of them: nobody's own curve can be drawn."""
        return self.redact or self.scattered

    @property
    def kind(self) -> Kind:
        """The weakest kind of the losses."""
        return self.audit.summary().kind if self.scattered else self.audit.pairs.kind

    def quantiles(self) -> Floats:
        """Return the losses at ``LEVELS``."""
        return np.minimum(self.audit.quantile(LEVELS), self.statements.most)

    def powers(self, rates: Floats) -> tuple[dict[str, Floats], Kind]:
        """Return what the best test finds at these false alarms, by whom it looks for, the most exposed last."""
        if not self.bounded:
            median = int(np.argmax(self.epsilon == attained_quantile(self.epsilon, 0.5)))
            who = {"the median person": median, "the most exposed person": int(np.argmax(self.epsilon))}
            pairs = self.audit.pairs
            powers = {name: np.asarray(pairs[np.full(len(rates), i)].attack_power(rates)) for name, i in who.items()}
            return powers, pairs[list(who.values())].kind
        if self.shared is not None:
            losses = {name: cell.high for name, cell in self.shared.told}
        else:
            found = self.quantiles()
            losses = {"the median person": float(found[0]), "the most exposed person": float(found[-1])}
        most = {
            name: np.array([most_attack_power(loss, self.audit.delta, float(rate)) for rate in rates])
            for name, loss in losses.items()
        }
        return most, weakest("upper", self.kind)  # never exact, and no bound where the losses are estimates


def weighted(found: Audit | ScatteredAudit | LossSketch, most: float) -> tuple[Floats, NDArray | None]:
    """Return losses and how many people have each, None for one each; what is promised (``most``) bounds them all."""
    found = getattr(found, "sketch", found)
    epsilon, people = found.weighted() if hasattr(found, "weighted") else (np.asarray(found.epsilon, float), None)
    return np.minimum(epsilon, most), people
