"""Nobody's loss is below the truth and every label is true, on tables made to break floating point.

A sample always runs; ``make test-all`` runs 3,300 tables. Each run prints what it compared (``pytest -s``).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import perinstance as pi
from tests.fuzz.answers_checked import Count, audited, check_table
from tests.fuzz.exact_truth import ExactTable
from tests.fuzz.hostile_tables import KINDS, HostileTable, hostile_table
from tests.neighbours.refit import leave_out, neighbours

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def compared(seeds, **how) -> Count:
    total = Count()
    for seed in seeds:
        total.add(check_table(hostile_table(seed), seed, **how))
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


@pytest.mark.parametrize("seed", [3, 12])
def test_audits_of_arrays_say_the_same(seed):
    assert compared([seed], answers=audited).wrong == []


def test_out_of_core(tmp_path):
    for seed in (1, 4, 12):
        table = hostile_table(seed)
        columns = {f"x{j}": table.X[:, j] for j in range(table.X.shape[1])}
        path = tmp_path / f"{seed}.parquet"
        pq.write_table(pa.table({**columns, "y": table.y}), path, row_group_size=4)

        def scanned(release, asked: HostileTable, path=path):
            scan = pi.scan(path)
            outside = (asked.X_new, asked.y_new)
            inside = pi.audit(release, scan, target="y").pairs
            return inside, pi.audit(release, scan, target="y", outsiders=outside).pairs

        assert compared([seed], answers=scanned).wrong == []


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


@pytest.mark.parametrize(
    ("make", "alpha"),
    [
        (lambda rng: np.column_stack([rng.normal(size=(150, 2)), np.ones(150)]), 1e-6),
        (lambda rng: np.repeat(rng.normal(size=(150, 1)), 2, axis=1), 1e-16),
        (lambda rng: rng.normal(size=(150, 1)) + np.outer(rng.normal(size=150), [0.0, 1e-9]), 1e-12),
        (lambda rng: np.column_stack([rng.normal(size=(150, 2)), np.zeros(150)]), 1e-10),
    ],
    ids=["constant beside the intercept", "duplicated", "nearly dependent", "nobody has it"],
)
def test_outsiders_in_a_direction_that_only_the_penalty_holds(make, alpha):
    rng = np.random.default_rng(6)
    X = make(rng)
    n, d = X.shape
    X_new = rng.normal(size=(12, d)) * 10.0 ** rng.uniform(-2, 2, size=(12, 1))
    table = HostileTable("weak", X, rng.normal(size=n), X_new, rng.normal(size=12), alpha, True)
    assert check_table(table, 0).wrong == []
