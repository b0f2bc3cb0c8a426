"""The window adds noise to exact sums, of the scale that was asked for, and the simulated one to the same numbers."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from perinstance.folds.sweep import ArraySweep
from perinstance.releases.adassp.mechanism import _moved
from perinstance.releases.promises.looks import StandardFrame
from perinstance.releases.promises.window import ClippedSweep, Window, simulated
from perinstance.sampling import FixedRows, fixed_rows

from .slow_roads import Plain

QUIET = 2.0**-30
FRAME = StandardFrame(np.array([0.1, 0.0, -0.2, 0.0]), np.array([0.5, 1.0, 0.7, 0.3]), radius=1.5, weight=0.75)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return fixed_rows(X, np.clip(X @ [0.5, 0.4, -0.3, 0.0] + rng.normal(size=200) / 5, -1, 1), 1.0, 1.0)


def questions(quiet):
    moved = partial(_moved, frame=FRAME, theta=np.array([0.3, 0.1, -0.2, 0.05, 0.3]), clip=0.1)
    doubled = partial(FixedRows.picked, rows=slice(0, 100))
    return (
        lambda w: w.count(quiet),
        lambda w: w.eigenvalue(quiet),
        lambda w: w.log_size(3.0, 1.0, 2.0, quiet),
        lambda w: w.posterior(2.0, quiet**-2),
        lambda w: w.outer(lambda rows: rows.X, quiet),
        lambda w: w.outer(FRAME.clipped_rows, quiet, 3.0),
        lambda w: w.sums(partial(moved, whole=True), [quiet] * 5),
        lambda w: w.sums(partial(moved, whole=False), [quiet] * 5),
        lambda w: w.mapped(doubled, 4).outer(lambda rows: rows.X, quiet),
    )


def test_every_answer_is_the_plain_number_with_noise_in_memory_and_in_blocks(rows):
    table = ArraySweep(rows.X, rows.y, 64)
    blocks = ClippedSweep(table, lambda block: FixedRows(block.X, block.y, np.ones(len(block), bool)), 4)
    windows = [Window(rows), Window(rows, simulated(np.random.default_rng(1))), Window(blocks, simulated())]
    for k, ask in enumerate(questions(QUIET)):
        for window in windows[: 2 if k == 8 else 3]:
            np.testing.assert_allclose(ask(window), ask(Plain(rows)), atol=20 * QUIET)
    assert Window(rows).d == Window(blocks).d == 4


@pytest.mark.usefixtures("fixed_noise")
def test_noise_has_the_scale_that_was_asked_for(rows):
    for window in (Window(rows), Window(rows, simulated(np.random.default_rng(1)))):
        draws = np.array([window.outer(lambda seen: seen.X, 1.0) for _ in range(60)])
        assert (draws == np.swapaxes(draws, 1, 2)).all()
        spread = draws.std(axis=0)
        assert 0.8 < np.diag(spread).mean() < 1.2
        assert 0.8 < spread[np.triu_indices(4, 1)].mean() * np.sqrt(2) < 1.2
        assert 0.75 < np.std([window.count(3.0) for _ in range(100)]) / 3 < 1.25


def test_sums_are_exact_whatever_the_order_of_rows(rows):
    """And draws differ, on the public grid."""
    asked = []
    for seen in (rows, FixedRows(rows.X[::-1], rows.y[::-1], rows.present)):
        Window(seen, lambda ideal: asked.append(ideal.center) or np.zeros(4)).sums(lambda one: one.X / 3.0, [1.0] * 4)
    assert asked[0] == asked[1] == [sum(map(Fraction, column)) for column in (rows.X / 3.0).T]
    a, b = (Window(rows).posterior(1.0, 1.0) for _ in range(2))
    assert (a != b).all() and (a * 2.0**40 == np.round(a * 2.0**40)).all()
