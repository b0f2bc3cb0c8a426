"""The people who pay most: a line each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from perinstance.numerics.quantiles import attained_quantile
from perinstance.report import words
from perinstance.report.release_words import release_line
from perinstance.report.svg import clean

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
    audit: Any, count: int, rare: Sequence[RareFeatures] = (), unit: str = "", most: float = math.inf
) -> list[tuple[int, ExposedPerson]]:
    """Return positions and lines of the most exposed people, the worst first; nobody's loss exceeds ``most``."""
    if hasattr(audit, "sketch"):  # its losses lie with workers, the most exposed came along
        top = audit.known.exposed
        epsilon, leverage, residual, names, kinds = (
            top[name] for name in ("epsilon", "leverage", "residual", "person", "kind")
        )
        order, sketches = np.arange(min(count, len(epsilon))), (audit.known.leverage, audit.known.residual)
        high = [s.quantile(1 - words.STANDS_OUT) if len(s.bins) > 1 else math.inf for s in sketches]
        why = [words.reason(bool(leverage[i] >= high[0]), bool(abs(residual[i]) >= high[1])) for i in order]
    else:
        epsilon, kinds, names = np.minimum(np.asarray(audit.epsilon, dtype=float), most), audit.pairs.kinds, audit.ids
        leverage, residual = np.asarray(audit.leverage, dtype=float), np.asarray(audit.residual, dtype=float)
        order = np.argsort(-epsilon, kind="stable")[:count]
        why = words.reasons(leverage, residual, order.tolist())
    scale, named = target_scale(audit), {one.position: one for one in rare}
    return [
        (
            i,
            ExposedPerson(
                _name(names, i),
                words.loss(min(float(epsilon[i]), most)),
                words.number(float(leverage[i])),
                words.number(float(residual[i]) * scale) + (f" {unit}" if unit else ""),
                reason,
                str(kinds[i]),
                _features(named[i]) if i in named else "",
            ),
        )
        for i, reason in zip(order.tolist(), why, strict=True)
    ]


def _name(ids: Any, i: int) -> str:
    """Return a person's id as written; without ids, the number of their row."""
    return f"row {i}" if ids is None else clean(str(ids[i]))


def _features(rare: RareFeatures) -> str:
    """Write the features with their share of the leverage; what would go with either of two counts for both of them."""
    whole = max(math.fsum(rare.shares), 1.0)
    return ", ".join(f"{clean(n, 24)} {words.share(s / whole)}" for n, s in zip(rare.names, rare.shares, strict=True))


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
    levels = (0.5, 0.95, 0.99, 1.0)
    page = Environment(autoescape=True, undefined=StrictUndefined).from_string(_PAGE)
    return page.render(
        setup=f"{words.people(len(epsilon))}, δ = {audit.delta:g}; {release_line(audit.release)}. "
        + words.kind_note(audit.pairs.kind),
        names=["median", "95%", "99%", "maximum"],
        values=[words.loss(float(v)) for v in attained_quantile(epsilon, levels)],
        worst=[line for _, line in most_exposed(audit, MOST_EXPOSED)],
    )
