"""What has been changed behind the ledger's back is named, and nobody else may read it."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import stat
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import perinstance as pi
from perinstance.errors import InvalidInput, LedgerDamaged, LedgerTrouble, UnsafeFile
from perinstance.ledger.log import event_log
from perinstance.pairs import GaussianShift
from perinstance.releases import NoisyMean
from tests.forked import forked


@pytest.fixture
def place(tmp_path):
    ledger = pi.Ledger(tmp_path / "ledger")
    for k in range(3):
        ledger.charge_pairs(["a", "b"], GaussianShift([1.0, 0.5 + k]), key=f"release {k}")
    return tmp_path / "ledger"


def sql(place, *statements):
    connection = sqlite3.connect(place / "log.sqlite")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


SWAP = (
    "UPDATE ledger_events SET entry = 99 WHERE entry = 2",
    "UPDATE ledger_events SET entry = 2 WHERE entry = 3",
    "UPDATE ledger_events SET entry = 3 WHERE entry = 99",
)


@pytest.mark.parametrize(
    ("statements", "named"),
    [
        (
            ["UPDATE ledger_events SET body = replace(body, 'committed', 'cancelled') WHERE entry = 3"],
            "event 3 .* changed",
        ),
        (["UPDATE ledger_events SET key = 'other' WHERE entry = 2"], "event 2 .* changed"),
        (["UPDATE ledger_events SET at = '2020' WHERE entry = 2"], "event 2 .* changed"),
        (["DELETE FROM ledger_events WHERE entry = 2"], "event 2 .* missing"),
        (["DELETE FROM ledger_events WHERE entry = 4"], "ends after event 3, its head says 4"),
        (["DELETE FROM ledger_events"], "ends after event 0"),
        (SWAP, "event 2 .* does not follow"),
        (["DELETE FROM ledger_head"], "head"),
        (["INSERT INTO ledger_head VALUES (2, 1, 4, 'x')"], "2 heads"),
    ],
)
def test_a_log_that_was_changed_is_named(place, statements, named):
    ledger = pi.Ledger(place)
    sql(place, *statements)
    found = ledger.verify()
    assert not found.ok and any(re.search(named, problem) for problem in found.problems)
    with pytest.raises(LedgerDamaged, match=named):
        ledger.totals()
    with pytest.raises(LedgerTrouble):
        ledger.charge_pairs(["a"], GaussianShift([1.0]), key="more")


def damages(whole, rng):
    """Yield 160 single flipped bits, 100 truncations and 20 zeroed pages of a file."""
    for at, bit in zip(rng.integers(len(whole), size=160), rng.integers(8, size=160), strict=True):
        yield whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]
    for end in rng.integers(len(whole), size=100):
        yield whole[:end]
    for page in rng.integers(len(whole) // 4096 + 1, size=20):
        yield (whole[: 4096 * page] + bytes(4096) + whole[4096 * (page + 1) :])[: len(whole)]


def test_no_damaged_file_is_read(tmp_path):
    """Also where the time of its last change was set back: whatever is asked is refused, and verify names the file."""
    place, rng = tmp_path / "ledger", np.random.default_rng(0)
    ledger = pi.Ledger(place)
    for k in range(2):
        ledger.charge_pairs([f"p{i}" for i in range(1500)], GaussianShift(rng.random(1500)), key=f"{k}")
    path = place / "charges" / ledger.releases()[1].stored.file
    whole, times = path.read_bytes(), path.stat()
    readers = (
        lambda: ledger.totals(),
        lambda: ledger.totals(method="upper"),
        lambda: ledger.person("p7"),
        lambda: ledger.overview(),
        lambda: ledger.rename({"p7": "other"}),
        lambda: ledger.charge_pairs(["a"], GaussianShift([1.0]), key="1"),
    )
    for turn, damaged in enumerate(damages(whole, rng)):
        if damaged == whole:
            continue
        path.write_bytes(damaged)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(LedgerDamaged, match="damaged"):
            readers[turn % len(readers)]()
        if turn % 20 == 0:
            assert "release '1'" in ledger.verify().problems[0]
    path.unlink()
    assert "missing" in ledger.verify().problems[0]
    with pytest.raises(LedgerDamaged, match="missing"):
        ledger.totals()
    path.write_bytes(whole)
    path.chmod(0o600)
    assert ledger.verify().ok and len(ledger.totals()) == 1500


def test_pages_carry_checksums(place):
    """Any reader of Parquet can ask whether a disk has changed them."""
    (path, *_) = (place / "charges").iterdir()
    table = pq.read_table(path, page_checksum_verification=True)
    whole = path.read_bytes()
    at = whole.index(np.float64(1.0).tobytes())
    path.write_bytes(whole[:at] + bytes(1) + whole[at + 1 : at + 7] + bytes([1]) + whole[at + 8 :])
    assert not pq.read_table(path).equals(table)
    with pytest.raises(OSError, match="CRC|checksum"):
        pq.read_table(path, page_checksum_verification=True)


def test_a_secret_is_needed_to_continue(tmp_path):
    secret = os.urandom(32)
    ledger = pi.Ledger(tmp_path / "l", secret=secret)
    ledger.charge_pairs(["a"], GaussianShift([1.0]), key="k")
    assert pi.Ledger(tmp_path / "l", secret=secret).verify().ok
    with pytest.raises((InvalidInput, LedgerDamaged), match="secret"):
        pi.Ledger(tmp_path / "l")
    with pytest.raises(LedgerDamaged, match="secret"):
        pi.Ledger(tmp_path / "l", secret=os.urandom(32))
    with pytest.raises(InvalidInput, match="16 bytes"):
        pi.Ledger(tmp_path / "m", secret=b"short")


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_nobody_else_may_read_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        ledger = pi.Ledger(tmp_path / "l")
        ledger.charge_pairs(["a"], GaussianShift([1.0]), key="k")
        ledger.totals(method="upper")
    finally:
        os.umask(before)
    for path in (tmp_path / "l", *(tmp_path / "l").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path.name


#: as a user who may not write (root may write everywhere)
def opened_by_somebody_else(backup: str, place: str) -> None:
    pi.Ledger(place).totals()  # imports, while they can be read
    pi.Ledger(place).person("a")
    if os.getuid() == 0:
        os.seteuid(65534)
    os.getuid = os.geteuid
    ledger = pi.Ledger(backup)
    assert ledger.verify().ok and len(ledger.totals()) == 2 and ledger.person("a").epsilon > 0
    try:
        ledger.charge_pairs(["a"], GaussianShift([1.0]), key="more")
    except LedgerTrouble as error:
        print(error)


def test_a_read_only_ledger_can_be_opened_and_verified(place):
    with tempfile.TemporaryDirectory() as folder:  # pytest's own is closed to other users
        os.chmod(folder, 0o755)
        backup = Path(folder) / "backup"
        shutil.copytree(place, backup)
        for path in (*backup.rglob("*"), backup):
            if os.getuid() == 0:
                os.chown(path, 65534, 65534)
            path.chmod(0o500 if path.is_dir() else 0o400)
        code, out, err = forked(opened_by_somebody_else, str(backup), str(place))
        for path in (backup, *backup.rglob("*")):
            path.chmod(0o700)
    assert code == 0, err
    assert "read-only" in out


def test_links_and_open_folders_are_refused(place, tmp_path):
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(UnsafeFile, match="link"):
        pi.Ledger(tmp_path / "link")
    ledger = pi.Ledger(place)
    path = place / "charges" / ledger.releases()[0].stored.file
    moved = tmp_path / "moved"
    path.rename(moved)
    path.symlink_to(moved)
    assert "link" in ledger.verify().problems[0]
    with pytest.raises(UnsafeFile, match="link"):
        ledger.totals()
    path.unlink()
    moved.rename(path)
    log = place / "log.sqlite"
    log.rename(tmp_path / "log")
    log.symlink_to(tmp_path / "log")
    with pytest.raises(UnsafeFile, match="link"):
        pi.Ledger(place)
    log.unlink()
    (tmp_path / "log").rename(log)
    path.chmod(0o644)
    assert "open to others" in ledger.verify().problems[0]
    path.chmod(0o600)
    place.chmod(0o755)
    with pytest.raises(UnsafeFile, match="open to others"):
        pi.Ledger(place)


def test_the_order_of_events_does_not_hang_on_the_clock(place, monkeypatch):
    class Back(event_log.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(1999, 1, 1, tzinfo=tz)

    monkeypatch.setattr(event_log, "datetime", Back)
    ledger = pi.Ledger(place)
    ledger.charge_pairs(["a"], GaussianShift([1.0]), key="later")
    assert [release.key for release in ledger.releases()][-1] == "later"
    assert ledger.releases()[-1].at.startswith("1999") and ledger.verify().ok


@pytest.mark.parametrize(
    ("statement", "refused", "named"),
    [
        ("UPDATE ledger_head SET format = 0", LedgerDamaged, "format that never was"),
        ("UPDATE ledger_head SET format = -1", LedgerDamaged, "format that never was"),
        ("UPDATE ledger_head SET format = 'x'", LedgerDamaged, "format that never was"),
        ("UPDATE ledger_head SET format = 2", LedgerTrouble, "upgrade"),
    ],
)
def test_a_log_of_another_format_is_refused(place, statement, refused, named):
    sql(place, statement)
    with pytest.raises(refused, match=named):
        pi.Ledger(place)


def test_what_acts_inside_the_log_or_waits_is_told(place):
    ledger = pi.Ledger(place)
    assert ledger.verify().reserved == ()
    ledger.reserve_pairs(["a"], GaussianShift([1.0]), key="waits", mechanism="a mean")
    assert ledger.verify().reserved == ("waits",) and ledger.verify().ok
    ledger.commit("waits")
    assert ledger.verify().reserved == ()
    sql(place, "CREATE TRIGGER theirs AFTER INSERT ON ledger_events BEGIN DELETE FROM ledger_events; END")
    assert "trigger" in ledger.verify().problems[0] and "theirs" in ledger.verify().problems[0]


def test_nobody_is_admitted_by_shrunk_losses(tmp_path):
    path, release = tmp_path / "l", NoisyMean(scale=2.0, statistic="sum", noise="gaussian")
    X, ids = np.linspace(0.1, 1.0, 20)[:, None], [f"p{i}" for i in range(20)]
    ledger = pi.Ledger(path, filter=pi.ledger.RenyiBudget(8.0, 1.5))
    for key in ("first", "second"):
        pi.Ledger(path).admit(release, X, ids=ids, key=key)
    assert ledger.releases()[-1].people == (X[:, 0] ** 2 <= 1.5 / 2).sum() < 20
    stored = path / "charges" / ledger.releases()[0].stored.file
    table = pq.read_table(stored)  # every number half as large
    pq.write_table(table.set_column(1, "distance", pc.divide(table.column("distance"), 2.0)), stored)
    with pytest.raises(LedgerDamaged, match="damaged"):
        pi.Ledger(path).admit(release, X, ids=ids, key="third")
    assert len(ledger.releases()) == 2
