from __future__ import annotations

from tests.report.conftest import small_audit


def test_a_notebook_shows_quantiles_and_the_worst_ten():
    shown = small_audit(30, ids=[f"<b>{i}</b>" for i in range(30)])._repr_html_()
    assert shown.count("<tr>") == 2 + 1 + 10
    assert "<b>" not in shown and "&lt;b&gt;" in shown
    assert "Confidential" in shown


def test_every_record_that_users_get_is_a_small_table():
    import dataclasses

    import perinstance as pi
    from perinstance.auditing.result import Health, Summary
    from perinstance.record_tables import ShownAsTable
    from perinstance.releases.promises.promise import Promise

    rooms = [getattr(pi.analysis, name) for name in pi.analysis.__all__]
    records = [one for one in rooms if isinstance(one, type) and dataclasses.is_dataclass(one)]
    assert len(records) > 15
    for record in (*records, Health, Summary, Promise):
        assert issubclass(record, ShownAsTable), record
        assert not hasattr(record, "__dict__") or "__dict__" not in dir(record)


def test_records_show_their_fields_and_no_markup_of_the_data():
    import numpy as np

    import perinstance as pi

    audit = small_audit(50)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 4))
    y = X @ np.arange(1, 5) + rng.normal(size=50)
    for record, fields in ((audit.summary(), 9), (audit.health, 10), (audit.recheck(X, y)[0], 5)):
        shown = record._repr_html_()
        assert shown.count("<tr>") == fields + 1 and shown.startswith("<table>")
    assert str(audit.summary().maximum) in audit.summary()._repr_html_()
    composed = pi.analysis.identification(audit.pairs)._repr_html_()
    assert "<table>" in composed and len(composed) < 3000
    from perinstance.auditing.rows_again import RareFeatures

    assert "&lt;b&gt;" in RareFeatures(0, ("<b>",), (1.0,))._repr_html_()
