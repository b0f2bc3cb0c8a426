"""The same fold and map over Dask blocks; skipped, with a notice, where Dask is not installed."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance import PosteriorSample, audit
from perinstance.data import read_table
from perinstance.engines import Engine, LocalSweep
from perinstance.engines.dask import Dask, dask_source
from perinstance.errors import InvalidTable

dask = pytest.importorskip("dask", reason="the optional extra 'dask' is not installed")
da = pytest.importorskip("dask.array", reason="the optional extra 'dask' is not installed")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1003, 4))
Y = RNG.normal(size=1003)


def table(X=X, y=Y, rows=97):
    return dask_source(da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows))


@pytest.fixture(params=["synchronous", "threads"], autouse=True)
def scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield


def test_the_same_answers_as_here():
    sweep = Dask(ahead=3).sweep(table())
    np.testing.assert_allclose(sweep.fold(lambda block: block.X.T @ block.X), X.T @ X, rtol=1e-12)
    rows = list(sweep.map(lambda block: block.X @ np.arange(4) + block.y))
    assert [len(part) for part in rows] == [97] * 10 + [33]
    np.testing.assert_allclose(np.concatenate(rows), X @ np.arange(4) + Y)
    again = {Dask().sweep(table()).fold(lambda block: block.X.T @ block.X).tobytes() for _ in range(3)}
    assert len(again) == 1
    assert isinstance(Dask(), Engine)


def test_a_table_in_memory_and_a_local_engine():
    total = Dask().sweep(read_table(X, Y)).fold(lambda block: block.y.sum())
    assert total == pytest.approx(Y.sum())
    assert LocalSweep(table()).fold(lambda block: block.y.sum()) == pytest.approx(Y.sum())


def test_progress():
    seen = []
    sweep = Dask(ahead=2).sweep(table(), lambda *news: seen.append(news))
    sweep.fold(lambda block: 1)
    list(sweep.map(lambda block: 1))
    assert seen[0] == ("fold", 1003, 1003) and seen[1] == ("map", 97, 1003) and seen[-1] == ("map", 1003, 1003)


def test_whole_numbers_and_missing_cells():
    whole = table(np.arange(40).reshape(20, 2), np.arange(20), 7)
    assert Dask().sweep(whole).fold(lambda block: block.X.sum()) == 780
    bad = X.copy()
    bad[500, 2] = np.nan
    with pytest.raises(InvalidTable, match="column 2, row 500"):
        Dask().sweep(table(bad)).fold(lambda block: block.y.sum())


def test_tables_that_are_cut_wrongly():
    whole = da.from_array(X, chunks=(97, -1))
    for other, y in (
        (da.from_array(X, chunks=(97, 2)), da.from_array(Y, chunks=97)),
        (whole, da.from_array(Y, chunks=50)),
        (whole, da.from_array(X, chunks=97)),
        (whole[whole[:, 0] > 0], da.from_array(Y, chunks=97)[whole[:, 0] > 0]),
        (da.from_array(X.astype(str), chunks=(97, -1)), da.from_array(Y, chunks=97)),
    ):
        with pytest.raises(InvalidTable):
            dask_source(other, y)
    assert read_table(ready := table()) is ready
    with pytest.raises(InvalidTable, match="beside it"):
        read_table(ready, target="y")


def test_an_audit_is_the_same_everywhere():
    release = PosteriorSample(alpha=1.0, gamma=1.0)
    here, there = audit(release, X, Y), audit(release, table(), engine=Dask())
    np.testing.assert_allclose(there.epsilon, here.epsilon, rtol=1e-10)
    np.testing.assert_allclose(there.leverage, here.leverage, rtol=1e-10)
