"""The engine of a GPU: through torch on the processor everywhere, and on a GPU where there is one (else a notice)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import perinstance as pi
from perinstance import OutputPerturbation, PosteriorSample, audit
from perinstance.data import read_table
from perinstance.engines import Cuda, Engine, Local, default_engine
from perinstance.engines.cuda import DeviceTable, device_source, is_on_device, row_losses, transfers
from perinstance.engines.cuda import engine as engine_file
from perinstance.engines.cuda.newton_sums import gram_there
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.numerics.rounding import HALF_UNIT

from .devices import DELTA, DEVICES, torch


def people(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.gamma(0.5, size=(n, 1))
    return X, X @ rng.normal(size=d) + rng.normal(size=n)


def agree(ours, here, rtol=1e-8):
    np.testing.assert_allclose(ours.leverage, here.leverage, rtol=1e-9)
    np.testing.assert_allclose(ours.losses, here.losses, rtol=rtol, atol=1e-12)
    assert (ours.pairs._codes >= here.pairs._codes).all()  # a label never says more


RELEASES = [
    PosteriorSample(alpha=1.0, gamma=2.0),
    PosteriorSample(alpha=0.0, gamma=0.5, fit_intercept=True),
    OutputPerturbation(Ridge(alpha=0.5), scale=0.3),
    OutputPerturbation(Ridge(alpha=2.0, fit_intercept=False), scale=3.0, precision=np.diag([1.0, 4.0, 9.0, 16.0, 2.0])),
]


@DEVICES
@pytest.mark.parametrize("release", RELEASES, ids=range(len(RELEASES)))
@pytest.mark.parametrize("n", [6, 300, 30_000])
def test_the_same_answers_as_here(device, release, n):
    X, y = people(n, 5)
    agree(audit(release, X, y, delta=DELTA, engine=Cuda(device)), audit(release, X, y, delta=DELTA, engine=Local()))


@DEVICES
@pytest.mark.parametrize("d", [1, 7, 33, 64, 100])
def test_every_width(device, d):
    X, y = people(30 * d + 200, d, seed=d)
    for release in (PosteriorSample(alpha=1.0), PosteriorSample(alpha=0.1, fit_intercept=True)):
        agree(audit(release, X, y, engine=Cuda(device)), audit(release, X, y, engine=Local()))


@DEVICES
@pytest.mark.parametrize(
    "table",
    [
        (np.array([[2.0]]), np.array([1.0])),
        (np.ones((9, 3)), np.arange(9.0)),
        (people(20, 40)[0], np.arange(20.0)),
        (np.zeros((5, 2)), np.arange(5.0)),
        (np.vstack([people(40, 3)[0], [[1e9, 0.0, 0.0]]]), np.arange(41.0)),
        (np.asfortranarray(people(70, 4)[0]), np.arange(70.0)),
        (people(70, 4)[0].astype(np.float32), np.arange(70.0)),
        (np.arange(60).reshape(20, 3), np.arange(20) % 3),
    ],
    ids=["one row", "constant", "wide", "zeros", "huge", "by columns", "single", "whole"],
)
def test_edges(device, table):
    for release in (PosteriorSample(alpha=1.0), PosteriorSample(alpha=0.0), OutputPerturbation(Ridge(alpha=1.0))):
        ours, here = (audit(release, *table, delta=DELTA, engine=one) for one in (Cuda(device), Local()))
        np.testing.assert_allclose(ours.losses, here.losses, rtol=1e-8, atol=1e-12)
        assert (ours.pairs._codes >= here.pairs._codes).all()


@DEVICES
@pytest.mark.parametrize("cell", [np.nan, np.inf])
def test_missing_cells_are_refused_alike(device, cell):
    X, y = people(3000, 4)
    X[1234, 2] = cell
    fine = people(3000, 4)
    words = []
    for engine in (Cuda(device), Local()):
        for arguments in ({"X": X, "y": y}, {"X": fine[0], "y": fine[1], "outsiders": (X, y)}):
            with pytest.raises(InvalidTable) as refused:
                audit(PosteriorSample(), **arguments, engine=engine)
            words.append(str(refused.value))
    assert len(set(words)) == 1 and "1234" in words[0]


@DEVICES
def test_outsiders_ids_and_progress(device):
    X, y = people(2000, 4)
    new = people(50, 4, seed=9)
    release, seen = PosteriorSample(alpha=1.0), []
    ours, here = (audit(release, X, y, outsiders=new, engine=one) for one in (Cuda(device), Local()))
    agree(ours, here)
    names = [f"p{i}" for i in range(2000)]
    ours = audit(release, X, y, ids=names, engine=Cuda(device), progress=lambda *news: seen.append(news))
    assert ours.ids.to_pylist() == names
    assert {"fold", "map"} <= {stage for stage, *_ in seen} and ("map", 2000, 2000) in seen


@DEVICES
def test_files_stream_over(device, tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, small in (("STREAMED_BYTES", 1 << 14), ("VIEWED_BYTES", 1 << 14)):
        monkeypatch.setattr(engine_file, name, small)
    monkeypatch.setattr(transfers, "GROUP_BYTES", 1 << 16)
    monkeypatch.setattr(engine_file, "KEPT_SHARE", 0.0)
    X, y = people(5000, 3)
    names = [f"p{i}" for i in range(5000)]
    table = pa.table({"id": names, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=700)
    here = audit(PosteriorSample(), X, y, engine=Local())
    ours = audit(PosteriorSample(), pi.scan(tmp_path / "t.parquet"), target="y", ids="id", engine=Cuda(device))
    agree(ours, here)
    assert ours.ids.to_pylist() == names
    agree(audit(PosteriorSample(), X, y, engine=Cuda(device)), here)


@DEVICES
def test_answers_come_back_in_chunks(device, monkeypatch):
    X, y = people(5000, 5)
    X[[3, 1700, 1701]] *= 1e4  # whom the device leaves to the processor
    whole = [audit(release, X, y, engine=Cuda(device)) for release in RELEASES]
    monkeypatch.setattr(engine_file, "VIEWED_BYTES", 1 << 14)
    monkeypatch.setattr(transfers, "GROUP_BYTES", 1 << 16)
    monkeypatch.setattr(row_losses, "CHUNK_ROWS", 300)
    for release, before in zip(RELEASES, whole, strict=True):
        ours, here = audit(release, X, y, engine=Cuda(device, threads=3)), audit(release, X, y, engine=Local())
        agree(ours, here)
        agree(ours, before, rtol=1e-10)
        np.testing.assert_allclose(ours.residual, here.residual, rtol=1e-7, atol=1e-9)
        assert ours.refined == here.refined and (ours.pairs._codes == before.pairs._codes).all()
        again = ours.pairs.epsilon(DELTA)
        np.testing.assert_allclose(again, ours.losses, rtol=1e-8)  # pairs and losses are of the same people


@DEVICES
def test_what_has_no_operation_runs_here(device):
    X, y = people(200, 3)
    both = Cuda(device), Local()
    for release, target in (
        (OutputPerturbation(LogisticRegression(C=1.0)), np.digitize(y, [-1.0, 1.0]).astype(float)),  # three classes
        (OutputPerturbation(LinearSVC(C=1.0), scale=5.0), (y > 0).astype(float)),
    ):
        ours, here = (audit(release, X, target, engine=one) for one in both)
        np.testing.assert_allclose(ours.losses, here.losses, rtol=1e-7)
        assert (ours.pairs._codes >= here.pairs._codes).all()
    with Cuda(device).sweep(read_table(X, y)) as sweep:
        np.testing.assert_allclose(sweep.fold(lambda block: block.X.T @ block.X), X.T @ X, rtol=1e-12)
        assert sum(sweep.map(len)) == 200


@DEVICES
def test_tables_on_the_device(device):
    X, y = people(3000, 4)
    source = device_source(torch.tensor(X, device=device), torch.tensor(y, device=device), ids=range(3000))
    assert isinstance(default_engine(source), Cuda) and default_engine(source).device.startswith(device)
    agree(audit(PosteriorSample(), source), audit(PosteriorSample(), X, y))
    single = device_source(torch.tensor(X, dtype=torch.float32, device=device), y)
    agree(audit(PosteriorSample(), single), audit(PosteriorSample(), X.astype(np.float32), y))
    turned = device_source(torch.tensor(np.ascontiguousarray(X.T), device=device).T, y)
    agree(audit(PosteriorSample(), turned), audit(PosteriorSample(), X, y))
    bad = torch.tensor(X, device=device)
    bad[7, 1] = torch.nan
    with pytest.raises(InvalidTable, match="7"):
        audit(PosteriorSample(), DeviceTable(bad, torch.tensor(y, device=device)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")
def test_arrays_of_the_device_choose_the_engine():
    X, y = people(3000, 4)
    there = torch.tensor(X, device="cuda"), torch.tensor(y, device="cuda")
    here = audit(PosteriorSample(), X, y)
    agree(audit(PosteriorSample(), *there), here)
    cupy = pytest.importorskip("cupy")
    agree(audit(PosteriorSample(), *(cupy.from_dlpack(one) for one in there)), here)
    with pytest.raises(InvalidTable, match="names"):
        audit(PosteriorSample(), there[0], target=0)


def test_refusals():
    X, y = torch.zeros((4, 2)), torch.zeros(4)
    for wrong in ((X, None), (X, y[:3]), (X[0], y), (X[:0], y[:0]), (X[:, :0], y), (X.to(torch.complex64), y)):
        with pytest.raises(InvalidTable):
            device_source(*wrong)
    for wrong in ({"ids": ["a"]}, {"ids": ["a", "a", "b", "c"]}, {"features": [0]}, {"target": 1}):
        with pytest.raises(InvalidTable):
            device_source(X, y, **wrong)
    for name in ("tpu", "meta"):
        with pytest.raises(InvalidInput, match="device must be"):
            Cuda(name).sweep(read_table([[1.0]], [1.0]))
    if not torch.cuda.is_available():
        with pytest.raises(InvalidInput, match="no CUDA device"):
            Cuda().sweep(read_table([[1.0]], [1.0]))
    assert isinstance(Cuda(), Engine)


def test_where_an_array_lies():
    class There:
        def __dlpack_device__(self):
            return (2, 0)

    assert is_on_device(There())
    assert not is_on_device(np.zeros(3)) and not is_on_device(torch.zeros(3)) and not is_on_device([1.0])


@DEVICES
@pytest.mark.parametrize(("n", "d"), [(3, 2), (5000, 3), (1500, 120)])
def test_sums_lose_no_more_than_is_charged(device, n, d):
    """Against exact sums: products of 26-bit integers are floats, and fsum rounds once."""
    rng = np.random.default_rng(n)
    X, y = rng.integers(-(2**26), 2**26, size=(n, d)) * 2.0**-20, rng.integers(-(2**26), 2**26, size=n) * 2.0**-20
    got = gram_there(torch.tensor(X, device=device), torch.tensor(y, device=device), True)
    Z = np.hstack([X, np.ones((n, 1))])
    allowed = (got.depth + 4) * HALF_UNIT
    for i in (0, d // 2, d):
        for j in (0, d - 1, d):
            size = np.linalg.norm(Z[:, i]) * np.linalg.norm(Z[:, j])
            assert abs(got.cross[i, j] - math.fsum(Z[:, i] * Z[:, j])) <= allowed * size
        assert abs(got.moment[i] - math.fsum(Z[:, i] * y)) <= allowed * np.linalg.norm(Z[:, i]) * np.linalg.norm(y)
    assert got.square == pytest.approx(math.fsum(y * y), rel=1e-12) and got.n == n
    W = np.triu(rng.normal(size=(d + 1, d + 1)))
    lifted = gram_there(torch.tensor(X, device=device), torch.tensor(y, device=device), True, W)
    np.testing.assert_allclose(lifted.cross, (Z @ W).T @ (Z @ W), rtol=1e-9, atol=1e-9 * np.abs(lifted.cross).max())
