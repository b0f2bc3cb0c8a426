"""Groups in the report: none is dropped in silence, several groupings at once, people without a label."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

from perinstance.data.memory.columns import label_texts
from perinstance.errors import InvalidInput
from perinstance.report import render
from tests.report.conftest import small_audit


def test_the_most_exposed_small_group_of_many_is_drawn_and_all_are_listed():
    n = 620
    audit = small_audit(n)
    top = int(np.argmax(audit.losses))
    labels = [f"ward {i % 60}" for i in range(n)]
    labels[top] = "tiny ward"
    page = render(audit, groups=labels)
    figure = page[page.index('id="groups-1-desc"') : page.index("Losses by group", page.index('id="groups-1-desc"'))]
    assert "tiny ward (1)" in figure
    assert "The 20 most exposed of 61 groups; the table has all of them." in page
    for name in set(labels):
        assert f"<td>{name}</td>" in page
    assert "All 61 groups, the most exposed first" in page and "<details open>" in page


def test_every_way_to_give_several_groupings():
    audit = small_audit(60)
    ward, sex = ["a", "b", None] * 20, ["f", "m"] * 30
    pages = [
        render(audit, groups=groups)
        for groups in (
            {"ward": ward, "sex": sex},
            pd.DataFrame({"ward": ward, "sex": sex}),
            pl.DataFrame({"ward": ward, "sex": sex}),
        )
    ]
    assert pages[0] == pages[1] == pages[2]
    assert pages[0].index("Groups by ward") < pages[0].index("Groups by sex")
    assert "<td>missing</td><td>20</td>" in pages[0]
    ids = re.findall(r' id="([^"]+)"', pages[0])
    assert len(ids) == len(set(ids))
    with pytest.raises(InvalidInput, match="groups of 'sex' must have one label per person"):
        render(audit, groups={"ward": ward, "sex": sex[:5]})


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"],
        ["a", float("nan"), "b"],
        np.array(["a", None, "b"], dtype=object),
        pd.Series(["a", None, "b"]),
        pd.Series(["a", pd.NA, "b"], dtype="string"),
        pd.Series(["a", None, "b"], dtype="category"),
        pl.Series(["a", None, "b"]),
        ["a", "", "b"],
    ],
    ids=lambda labels: f"{type(labels).__module__.split('.')[0]} {getattr(labels, 'dtype', '')}",
)
def test_people_without_a_label_are_a_group(labels):
    assert label_texts(labels).tolist() == ["a", "missing", "b"]
    audit = small_audit(3, d=1)
    frame = audit.by(labels)
    assert sorted(np.asarray(frame["group"]).tolist()) == ["a", "b", "missing"]


def test_numbers_stay_numbers_when_none_is_missing():
    frame = small_audit(4, d=1).by([1.5, 2.5, 1.5, 2.5])
    assert np.asarray(frame["group"]).tolist() == [1.5, 2.5]
    with_gap = small_audit(4, d=1).by([1.0, np.nan, 1.0, 2.0])
    assert np.asarray(with_gap["group"]).tolist() == ["1", "2", "missing"]
