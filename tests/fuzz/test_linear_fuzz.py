"""Nobody's loss is below the truth and every label is true, on tables made to break floating point.

A sample always runs; ``make test-all`` runs 3,300 tables. Each run prints what it compared (``pytest -s``).
"""

from __future__ import annotations

import pytest

from tests.fuzz.answers_checked import Count, check_table
from tests.fuzz.exact_truth import ExactTable
from tests.fuzz.hostile_tables import KINDS, hostile_table
from tests.neighbours.refit import leave_out, neighbours

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def compared(seeds) -> Count:
    total = Count()
    for seed in seeds:
        total.add(check_table(hostile_table(seed), seed))
    print(total)
    return total


def test_a_sample_of_hostile_tables():
    found = compared(range(2 * len(KINDS)))
    assert found.wrong == []
    assert found.people > 500 and found.labels["exact"] > 0.9 * found.answers


@pytest.mark.slow
@pytest.mark.parametrize("part", range(33))
def test_many_hostile_tables(part):
    found = compared(range(1000 + 100 * part, 1100 + 100 * part))
    assert found.wrong == []
    assert found.labels["exact"] > 0.9 * found.answers


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_the_update_is_what_two_refits_say(seed):
    table = hostile_table(seed)
    exact = ExactTable(table.X, table.y, table.alpha, table.intercept)
    for i in range(min(2, len(table.y))):
        seen, truth = exact.inside(i), leave_out(table.X, table.y, i, table.alpha, table.intercept)
        assert seen.leverage == truth.leverage and seen.residual == truth.residual
        if truth.movement is not None:
            assert seen.distance == (truth.movement.transpose() * truth.movement)[0, 0]
    x, t = table.X_new[0], table.y_new[0]
    seen, truth = exact.outside(x, t), neighbours(table.X, table.y, x, t, table.alpha, table.intercept)
    assert seen.leverage == truth.leverage and seen.residual == truth.residual
    if truth.movement is not None:
        assert seen.distance == (truth.movement.transpose() * truth.movement)[0, 0]
