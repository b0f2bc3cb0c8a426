"""The losses that a page reports, the people who pay most, and what the curator asked to see of them.

Losses lie in memory, or with the workers of a cluster: then the page is made of sketches, the maximum and the most
exposed people, and nothing as long as the table is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.kinds import Kind, weakest
from perinstance.report import words
from perinstance.report.redaction import SharedLosses
from perinstance.report.svg import clean

if TYPE_CHECKING:
    from perinstance.auditing.loss_statistics import LossCounts
    from perinstance.auditing.result import Audit
    from perinstance.auditing.rows_again import RareFeatures

LEVELS = (0.5, 0.95, 0.99, 1.0)  #: of the cards
MOST_EXPOSED = 10


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
class ExposedPerson:
    """One line of the table of the most exposed."""

    id: str
    epsilon: str
    leverage: str
    residual: str
    why: str
    kind: str
    features: str = ""  #: what is rare about the row, where the table was read for it


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The audit that is reported, and what the curator asked to see of it."""

    audit: Any  #: an ``Audit`` or a ``ScatteredAudit``
    epsilon: Floats
    people: NDArray  #: how many have each loss; of an audit in memory one each, in the order of the table
    worst: list[tuple[int, ExposedPerson]]  #: positions and lines of the most exposed people, the worst first
    groups: Mapping[str, Mapping[str, LossCounts]]  #: by the grouping's name (empty for a single one) and the group's
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
        return hasattr(self.audit, "sketch")

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
            name: np.array([words.most_attack_power(loss, self.audit.delta, float(rate)) for rate in rates])
            for name, loss in losses.items()
        }
        return most, weakest("upper", self.kind)  # never exact, and no bound where the losses are estimates


def weighted(found: Any, most: float) -> tuple[Floats, NDArray]:
    """Return the losses of an audit or of counts, and how many people have each; ``most`` bounds them."""
    found = getattr(found, "sketch", found)
    if hasattr(found, "weighted"):
        epsilon, people = found.weighted()
    else:
        epsilon, people = np.asarray(found.epsilon, float), np.ones(len(found), dtype=np.int64)
    return np.minimum(epsilon, most), people


def target_scale(audit: Any) -> float:
    """Return how many units of the raw target one unit of the residuals is: a recipe may have scaled it."""
    source = getattr(audit, "source", None)  # of an audit whose losses stay with the workers
    preparation = getattr(audit, "preparation", getattr(getattr(source, "choice", None), "preparation", None))
    recipe = getattr(source, "target", None) if preparation is None else preparation.target
    return 1.0 if recipe is None else float(recipe.target_scale)


def most_exposed(
    audit: Any, count: int, rare: Sequence[RareFeatures] = (), unit: str = "", most: float = math.inf
) -> list[tuple[int, ExposedPerson]]:
    """Return positions and lines of the most exposed people, the worst first; nobody's loss exceeds ``most``."""
    if hasattr(audit, "sketch"):  # its losses lie with workers, the most exposed came along
        top = audit.known.exposed
        epsilon, leverage, residual, names, kinds = (
            top[name] for name in ("epsilon", "leverage", "residual", "person", "kind")
        )
        order, sketches = np.arange(min(count, len(epsilon))), (audit.known.leverage, audit.known.residual)
        high = [s.quantile(1 - words.STANDS_OUT) if len(s.weighted()[0]) > 1 else math.inf for s in sketches]
        why = [words.reason(bool(leverage[i] >= high[0]), bool(abs(residual[i]) >= high[1])) for i in order]
    else:
        epsilon, kinds, names = np.minimum(np.asarray(audit.epsilon, dtype=float), most), audit.pairs.kinds, audit.ids
        leverage, residual = np.asarray(audit.leverage, dtype=float), np.asarray(audit.residual, dtype=float)
        order = np.argsort(-epsilon, kind="stable")[:count]
        why = words.reasons(leverage, residual, order.tolist())
    scale, lines = target_scale(audit), []
    named = {}  # by position, the features with their share of the leverage
    for one in rare:  # what would go with either of two features counts for both of them
        whole = max(math.fsum(one.shares), 1.0)
        parts = zip(one.names, one.shares, strict=True)
        named[one.position] = ", ".join(f"{clean(name, 24)} {words.share(part / whole)}" for name, part in parts)
    for i, reason in zip(order.tolist(), why, strict=True):
        who = f"row {i}" if names is None else clean(str(names[i]))
        error = words.number(float(residual[i]) * scale) + (f" {unit}" if unit else "")
        told, features = words.loss(min(float(epsilon[i]), most)), named.get(i, "")
        person = ExposedPerson(who, told, words.number(float(leverage[i])), error, reason, str(kinds[i]), features)
        lines.append((i, person))
    return lines


# Notebooks bring their own style: plain tables fit in, light and dark.
_PAGE = """<div>
<p><strong>Confidential.</strong> {{ setup }}</p>
<table><thead><tr>{% for name in names %}<th>{{ name }}</th>{% endfor %}</tr></thead>
<tbody><tr>{% for value in values %}<td>{{ value }}</td>{% endfor %}</tr></tbody></table>
<table><thead><tr><th>person</th><th>loss ε</th><th>leverage</th><th>error without the person</th>
<th>why</th></tr></thead>
<tbody>{% for p in worst %}<tr><td>{{ p.id }}</td><td>{{ p.epsilon }}</td><td>{{ p.leverage }}</td>
<td>{{ p.residual }}</td><td>{{ p.why }}</td></tr>{% endfor %}</tbody></table>
</div>"""


def fragment(audit: Audit) -> str:
    """Return a piece of HTML for a notebook."""
    from jinja2 import Environment, StrictUndefined

    epsilon = np.asarray(audit.epsilon, dtype=float)
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return page.render(
        setup=f"{words.table_of(audit)}, δ = {audit.delta:g}; {words.release_line(audit.release)}. "
        + words.kind_note(audit.pairs.kind),
        names=["median", "95%", "99%", "maximum"],
        values=[words.loss(float(v)) for v in attained_quantile(epsilon, LEVELS)],
        worst=[line for _, line in most_exposed(audit, MOST_EXPOSED)],
    )
