from __future__ import annotations

from tests.report.conftest import small_audit


def test_a_notebook_shows_quantiles_and_the_worst_ten():
    shown = small_audit(30, ids=[f"<b>{i}</b>" for i in range(30)])._repr_html_()
    assert shown.count("<tr>") == 2 + 1 + 10
    assert "<b>" not in shown and "&lt;b&gt;" in shown
    assert "Confidential" in shown
