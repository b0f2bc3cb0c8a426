"""One definition of a quantile: what ``Audit.quantile`` says is what report, notebook, command line and plots show."""

from __future__ import annotations

import re

import numpy as np
import pytest

import perinstance as pi
from perinstance.cli import terminal
from perinstance.report import words
from perinstance.report.content import gather
from perinstance.report.figures import FACTORS, QUANTILES, noise_sweep
from perinstance.report.group_lines import by_group, group_rows

LEVELS = (0.5, 0.95, 0.99, 1.0)


@pytest.mark.parametrize("n", [7, 20, 42, 101])
def test_the_same_quantile_everywhere(n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 2))
    audit = pi.audit(pi.PosteriorSample(), X, X[:, 0] + rng.normal(size=n))
    expected = audit.quantile(LEVELS)
    assert all((audit.losses <= value).mean() >= q for value, q in zip(expected, LEVELS, strict=True))
    shown = [words.loss(float(value)) for value in expected]
    cards = {card.name: card.value for card in gather(audit).cards}
    names = ("Median loss", "95% of the people", "99% of the people", "Most exposed person")
    assert [cards[name] for name in names] == shown
    assert re.findall(r"<td>([^<]*)</td>", audit._repr_html_())[:4] == shown
    told = terminal.audit_record(audit, terminal.Told())["epsilon"]
    assert [told[name] for name in ("median", "q95", "q99", "max")] == list(expected)
    row = group_rows(by_group(audit.losses, ["all"] * n))[0]
    assert [row.median, row.q95, row.largest] == list(audit.quantile(QUANTILES))
    swept = noise_sweep(audit)
    as_released = int(np.argmin(np.abs(FACTORS - 1.0)))
    assert swept.epsilon[:, as_released] == pytest.approx(audit.quantile(QUANTILES))
