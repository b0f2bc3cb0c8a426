"""What a notebook shows of an audit by itself: header, quantiles, the ten most exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from jinja2 import Environment, StrictUndefined

from perinstance.numerics.quantiles import attained_quantile
from perinstance.report import words
from perinstance.report.exposed_people import MOST_EXPOSED, most_exposed
from perinstance.report.release_words import release_line

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit

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
