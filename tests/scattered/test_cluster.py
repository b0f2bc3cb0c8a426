"""Audits on a cluster of processes: the answers of this machine, faults, and nothing left half-written."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.auditing.loss_statistics import QUANTILE_ERROR
from perinstance.auditing.scattered_audit import ScatteredAudit
from perinstance.errors import ClusterTrouble, InvalidInput, InvalidTable
from perinstance.report import words
from tests.forked import start

dask = pytest.importorskip("dask", reason="the optional extra 'dask' is not installed")
dd = pytest.importorskip("dask.dataframe", reason="the optional extra 'dask' is not installed")
# Workers are forked from one process that has imported everything: starting one anew takes seconds.
dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
distributed = pytest.importorskip("distributed", reason="the optional extra 'dask' is not installed")

N = 6000
FEATURES = ["a", "b", "c"]
COLUMNS = {"target": "y", "ids": "id", "features": FEATURES, "delta": 1e-6}
RELEASE = pi.PosteriorSample(alpha=1.0, gamma=1.0)
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


def people():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(N, 4)), columns=[*FEATURES, "y"])
    frame.loc[[17, 4000], "a"] = [900.0, -3e5]  # the second holds up a direction: answered one by one
    frame["id"] = [f"p{k:05d}" for k in range(N)]
    frame["ward"] = rng.choice(["north", "south", None], N)
    frame["ill"] = np.where(frame["y"] + frame["b"] > 0, "yes", "no")
    return frame


FRAME = people()


def one_worker():
    return distributed.LocalCluster(n_workers=1, threads_per_worker=3, processes=False, dashboard_address=":0")


@pytest.fixture(scope="module", autouse=True)
def prepared_process():
    start("distributed", "dask.dataframe", "pandas", "perinstance.engines.dask.tables", "perinstance.auditing")


@pytest.fixture(scope="module")
def client():
    with two_processes() as cluster, distributed.Client(cluster) as one:
        yield one


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    FRAME[:3500].to_parquet(folder / "1.parquet", row_group_size=400, index=False)
    FRAME[3500:].to_parquet(folder / "2.parquet", row_group_size=2500, index=False)
    return folder


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr("perinstance.engines.dask.tables.PART_BYTES", 1000 * 8 * 4)


@pytest.fixture(scope="module")
def here():
    return pi.audit(RELEASE, FRAME, engine=pi.engines.Local(), **COLUMNS)


def same(audit, here):
    np.testing.assert_allclose(audit.losses, here.losses, rtol=1e-9, atol=1e-12)
    assert audit.ids.to_pylist() == here.ids.to_pylist()


def test_frames_and_parquet_give_the_answers_of_this_machine(client, parquet, here):
    same(pi.audit(RELEASE, dd.from_pandas(FRAME, npartitions=5), **COLUMNS), here)
    same(pi.audit(RELEASE, pi.scan(parquet), **COLUMNS), here)
    series = dd.from_pandas(FRAME, npartitions=3)
    found = pi.audit(RELEASE, series[FEATURES], series["y"], delta=1e-6)
    np.testing.assert_allclose(found.losses, here.losses, rtol=1e-9, atol=1e-12)


def test_words_recipes_and_other_releases(client, parquet):
    recipe = pi.Recipe(
        columns={"a": {"range": [-5, 5]}, "ward": {"categories": ["north", "south"], "missing": "other"}},
        target={"column": "y", "range": [-5, 5]},
    )
    given = {"recipe": recipe, "ids": "id", "delta": 1e-6}
    here = pi.audit(RELEASE, FRAME, engine=pi.engines.Local(), **given)
    same(pi.audit(RELEASE, dd.from_pandas(FRAME, npartitions=3), **given), here)
    same(pi.audit(RELEASE, pi.scan(parquet), **given), here)
    ill = {"target": "ill", "features": ["b", "c"], "ids": "id", "delta": 1e-6}
    for release, columns in (
        (pi.OutputPerturbation(Ridge(alpha=1.0), scale=0.1), {**COLUMNS, "features": ["b", "c"]}),
        (pi.OutputPerturbation(LogisticRegression(C=1.0), scale=0.1), ill),
    ):
        alone = pi.audit(release, FRAME[:900], engine=pi.engines.Local(), method="upper", **columns)
        found = pi.audit(release, dd.from_pandas(FRAME[:900], npartitions=2), method="upper", **columns)
        np.testing.assert_allclose(found.losses, alone.losses, rtol=1e-6)


def test_means_of_collections(client):
    mean = pi.NoisyMean(scale=0.1)
    here = pi.audit(mean, FRAME[FEATURES], engine=pi.engines.Local())
    frame = dd.from_pandas(FRAME, npartitions=3)
    found = pi.audit(mean, frame, features=FEATURES, ids="id")
    np.testing.assert_allclose(found.losses, here.losses, rtol=1e-9)
    assert found.ids.to_pylist() == FRAME["id"].tolist()
    arrays = frame[FEATURES].to_dask_array(lengths=True)
    np.testing.assert_allclose(pi.audit(mean, arrays).losses, here.losses, rtol=1e-9)
    with pytest.raises(InvalidTable, match="has no target"):
        pi.audit(mean, frame, target="y")


@pytest.mark.parametrize("kind", ["frame", "parquet"])
def test_losses_stay_in_the_folder(client, parquet, here, tmp_path, kind):
    table = dd.from_pandas(FRAME, npartitions=5) if kind == "frame" else pi.scan(parquet)
    draft = tmp_path / "losses" / ".part-00000.parquet.0123456789abcdef.part"  # of a worker that was killed
    audit = pi.audit(RELEASE, table, out=tmp_path / "losses", progress=lambda *_: draft.touch(), **COLUMNS)
    assert isinstance(audit, ScatteredAudit) and len(audit) == N and "p0" not in repr(audit) and not draft.exists()
    files = sorted((tmp_path / "losses").glob("part-*.parquet"))
    assert len(files) == len(audit.rows) and {oct(f.stat().st_mode)[-3:] for f in files} == {"600"}
    written = pd.concat([pq.read_table(file).to_pandas() for file in files])
    assert written["id"].tolist() == FRAME["id"].tolist()
    np.testing.assert_allclose(written["epsilon"], here.losses, rtol=1e-9, atol=1e-12)
    assert json.loads((tmp_path / "losses" / "_complete.json").read_text())["people"] == N
    assert pd.read_parquet(tmp_path / "losses")["epsilon"].tolist() == written["epsilon"].tolist()
    assert audit.summary().maximum == pytest.approx(here.summary().maximum, rel=1e-9)
    shares = [0.01, 0.5, 0.95, 0.999]
    assert (audit.quantile(shares) >= here.quantile(shares) * (1 - 1e-9)).all()
    np.testing.assert_allclose(audit.quantile(shares), here.quantile(shares), rtol=1.1 * QUANTILE_ERROR)
    assert audit.health.refined == here.health.refined > 0
    top = audit.most_exposed(5)
    assert top["person"].tolist() == FRAME["id"].iloc[np.argsort(-here.losses)[:5]].tolist()
    groups, true = audit.by("ward"), here.by(FRAME["ward"])
    assert groups["group"].tolist() == true["group"].tolist() and (groups["people"] == true["people"]).all()
    np.testing.assert_allclose(groups["maximum"], true["maximum"], rtol=1e-9)
    np.testing.assert_allclose(groups["mean"], true["mean"], rtol=1e-9)
    with pytest.raises(InvalidInput, match="not empty"):
        pi.audit(RELEASE, table, out=tmp_path / "losses", **COLUMNS)


def test_a_ledger_is_charged_with_what_a_cluster_found(client, here, tmp_path):
    """Everybody's pairs, not their losses at one delta: the totals of one release are its losses, at any delta."""
    audit = pi.audit(RELEASE, dd.from_pandas(FRAME, npartitions=5), out=tmp_path / "losses", **COLUMNS)
    ledger = pi.Ledger(tmp_path / "ledger")
    charged = ledger.charge(audit, key="cluster")
    assert charged.people == N and charged.kind == here.pairs.kind
    for delta in (1e-6, 1e-3):
        totals = ledger.totals(delta)
        np.testing.assert_allclose(totals.losses, here.pairs.epsilon(delta), rtol=1e-9, atol=1e-12)
        assert totals.ids.to_pylist() == FRAME["id"].tolist()
    with pytest.raises(InvalidInput, match="outside"):
        ledger.charge(replace(audit, inside=False), key="other")


def test_the_report_says_what_the_one_of_this_machine_says(client, here, tmp_path):
    audit = pi.audit(RELEASE, dd.from_pandas(FRAME, npartitions=5), out=tmp_path / "losses", **COLUMNS)
    page = audit.to_html(tmp_path / "report.html", groups=["ward"], target="y", dp=500.0, source="people").read_text()
    assert oct((tmp_path / "report.html").stat().st_mode)[-3:] == "600"
    alone = here.to_html(tmp_path / "alone.html", groups={"ward": FRAME["ward"]}, target="y", dp=500.0).read_text()

    def rows(text, label):
        table = text[text.index(f'aria-label="{label}"') :]
        return re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", table[: table.index("</table>")])

    exposed = rows(page, "Most exposed people")
    assert exposed == rows(alone, "Most exposed people") and "p04000" in exposed and "rare features" in str(exposed)
    names = ["north", "south", "missing"]
    there, true = rows(page, "Losses by group"), rows(alone, "Losses by group")
    assert {there[there.index(name) + 1] for name in names} == {true[true.index(name) + 1] for name in names}
    assert f"{words.loss(here.summary().maximum)}" in page and "at most 0.098% of themselves" in page

    shared = audit.to_html(tmp_path / "colleagues.html", groups="ward", everyone=700.0, redact=True).read_text()
    assert not re.search(r"p0\d{4}", shared) and words.loss(here.summary().maximum) not in shared
    with pytest.raises(InvalidInput, match="name columns"):
        audit.to_html(tmp_path / "no.html", groups=[FRAME["ward"]])
    with pytest.raises(InvalidInput):
        audit.to_html(tmp_path / "no.html", groups="nothing")


def test_bits_do_not_depend_on_the_number_of_workers(client, parquet, tmp_path):
    one = pi.audit(RELEASE, pi.scan(parquet), out=tmp_path / "two", **COLUMNS)
    with one_worker() as small, distributed.Client(small):
        pi.audit(RELEASE, pi.scan(parquet), out=tmp_path / "one", **COLUMNS)
    for number in range(len(one.rows)):
        left, right = (pq.read_table(tmp_path / name / f"part-{number:05d}.parquet") for name in ("one", "two"))
        assert left.equals(right)


def test_a_poisoned_row_is_named_once_and_nothing_is_left(client, tmp_path):
    bad = FRAME.copy()
    bad.loc[3700, "b"] = np.nan
    for out in (None, tmp_path / "losses"):
        with pytest.raises(InvalidTable, match=r"^partition 3: column 1 \('b'\), row 100: a missing value"):
            pi.audit(RELEASE, dd.from_pandas(bad, npartitions=5), out=out, **COLUMNS)
    assert list((tmp_path / "losses").iterdir()) == []
    twice = FRAME.copy()
    twice.loc[5000, "id"] = "p00010"  # one person with two rows, which only reading tells
    found = pi.audit(RELEASE, dd.from_pandas(twice, npartitions=5), out=tmp_path / "losses", **COLUMNS)
    here = pi.audit(RELEASE, twice, **COLUMNS)
    assert len(found) == len(here) == len(FRAME) - 1
    assert found.most_exposed(1)["epsilon"].iloc[0] == pytest.approx(here.losses.max(), rel=1e-9)


class Stumbling:
    """A step that fails once in each process and partition, as a disk may."""

    def __init__(self, marks):
        self.marks = str(marks)

    def __call__(self, number, blocks):
        mark = os.path.join(self.marks, str(number))
        if not os.path.exists(mark):
            open(mark, "w").close()
            raise OSError("the disk stumbled")
        return sum(len(block) for block in blocks)


def test_a_partition_that_fails_once_is_tried_again(client, parquet, tmp_path):
    sweep = pi.engines.dask.Dask().sweep(pi.scan(parquet).select_columns("y", "id", FEATURES))
    assert sum(sweep.each_partition(Stumbling(tmp_path), "map")) == N


def kill_one(client, rng):
    pids = list(client.run(os.getpid).values())
    os.kill(int(rng.choice(pids)), signal.SIGKILL)


@pytest.mark.parametrize(
    "kills", [pytest.param(2, id="sample"), pytest.param(100, id="hundred", marks=pytest.mark.slow)]
)
def test_killed_workers_cost_nothing_but_time(parquet, here, tmp_path, kills):
    rng = np.random.default_rng(kills)
    turn = 0
    while turn < kills:
        with two_processes() as cluster, distributed.Client(cluster) as client:
            start = time.perf_counter()
            pi.audit(RELEASE, pi.scan(parquet), out=tmp_path / f"calm {turn}", **COLUMNS)
            usual = time.perf_counter() - start
            both = True
            while both and turn < kills:
                killer = threading.Timer(float(rng.uniform(0, usual)), kill_one, (client, rng))
                killer.start()
                out = tmp_path / str(turn)
                audit = pi.audit(RELEASE, pi.scan(parquet), out=out, **COLUMNS)
                killer.join()
                assert sum(audit.rows) == N
                assert len(list(out.iterdir())) == len(audit.rows) + 1
                losses = np.concatenate([pq.read_table(f)["epsilon"] for f in sorted(out.glob("part-*"))])
                np.testing.assert_allclose(losses, here.losses, rtol=1e-9, atol=1e-12)
                shutil.rmtree(out)
                turn += 1
                both = turn < kills and returned(client)


@contextlib.contextmanager
def two_processes():
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    try:
        yield cluster
    finally:
        with contextlib.suppress(KeyError):  # Dask may look a killed worker up while it closes, and has forgotten it
            cluster.close()


def returned(client):
    """Whether Dask has started the killed worker again: one that dies while it starts it may give up."""
    try:
        client.wait_for_workers(2, timeout=60)
    except TimeoutError:
        return False
    return True


def test_a_scheduler_that_restarts_is_told(parquet, tmp_path):
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        sweep = pi.engines.dask.Dask().sweep(pi.scan(parquet).select_columns("y", "id", FEATURES))
        begun = tmp_path / "begun"

        def restart():  # not before a step runs, however long the machine takes until then
            until = time.monotonic() + 120
            while not begun.exists() and time.monotonic() < until:
                time.sleep(0.05)
            client.restart()

        stopper = threading.Thread(target=restart)
        stopper.start()
        with pytest.raises(ClusterTrouble, match="start the audit again"):
            for _ in sweep.each_partition(Slow(begun), "map"):
                pass
        stopper.join()


class Slow:
    """A step that says when it begins, and takes a while."""

    def __init__(self, begun):
        self.begun = str(begun)

    def __call__(self, number, blocks):
        open(self.begun, "w").close()
        time.sleep(1.0)
        return 0


def test_tables_and_folders_that_cannot_be(client, tmp_path):
    frame = dd.from_pandas(FRAME, npartitions=3)
    with pytest.raises(InvalidTable, match="Dask series"):
        pi.audit(RELEASE, frame[FEATURES], FRAME["y"])
    with pytest.raises(InvalidTable, match="one of its columns"):
        pi.audit(RELEASE, frame, target="y", ids=FRAME["id"], features=FEATURES)
    with pytest.raises(InvalidTable, match="partitions"):
        pi.audit(RELEASE, frame[FEATURES], dd.from_pandas(FRAME["y"], npartitions=2))
    with pytest.raises(InvalidTable, match="no rows"):
        pi.audit(RELEASE, frame[frame["a"] > 1e9], target="y", features=FEATURES)
    with pytest.raises(InvalidInput, match="one file"):
        pi.audit(RELEASE, FRAME[FEATURES], FRAME["y"], out=tmp_path / "folder")
    with pytest.raises(InvalidInput, match="bucket"):
        pi.audit(RELEASE, frame, out="s3://losses/here", **COLUMNS)
    with pytest.raises(InvalidTable, match="text"):
        pi.audit(RELEASE, frame, target="y", features=["a", "ward"])


def test_empty_partitions_are_nobody(client):
    frame = dd.from_pandas(FRAME, npartitions=4)
    some = frame[frame["id"] < "p02000"]
    audit = pi.audit(RELEASE, some, **COLUMNS)
    alone = pi.audit(RELEASE, FRAME[FRAME.index < 2000], engine=pi.engines.Local(), **COLUMNS)
    np.testing.assert_allclose(audit.losses, alone.losses, rtol=1e-9, atol=1e-12)


def test_parquet_behind_a_url(parquet, here):
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    for path in sorted(parquet.iterdir()):
        files.pipe(f"/people/{path.name}", path.read_bytes())
    files.pipe("/people/_marker.parquet", b"no data")
    same(pi.audit(RELEASE, pi.scan("memory://people"), engine=pi.engines.Local(), **COLUMNS), here)
    same(pi.audit(RELEASE, pi.scan(f"file://{parquet}"), engine=pi.engines.dask.Dask(), **COLUMNS), here)
    for url, match in (("memory://nobody", "no Parquet"), ("nonsense://x", "cannot be opened")):
        with pytest.raises(InvalidTable, match=match):
            pi.scan(url)
