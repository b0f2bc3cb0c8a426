"""The log in a real PostgreSQL, started on loopback for these tests; skipped with a notice where there is none."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import perinstance as pi
from perinstance.errors import InvalidInput, LedgerConflict, LedgerDamaged, LedgerTrouble
from perinstance.pairs import GaussianShift, LaplaceShift
from tests.cli.conftest import run, table  # noqa: F401 - fixtures
from tests.forked import forked
from tests.ledger import many_writers

pytest.importorskip("sqlalchemy", reason="needs perinstance[ledger]")
pytest.importorskip("psycopg", reason="needs perinstance[ledger]")

PROGRAMS = sorted(glob.glob("/usr/lib/postgresql/*/bin")) + [os.path.dirname(shutil.which("initdb") or "")]


def free_port() -> int:
    """Find a port that the system hands out to nobody: another test could have such a one before the server starts."""
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port
    pytest.skip("no port is free: the ledger was not tried on a server")


@pytest.fixture(scope="module")
def server():
    """A cluster of its own: programs refuse to run as root, so they run as the user that Debian makes for them.

    It has a folder outside pytest's, which every other session of pytest closes to that user.
    """
    programs = next((place for place in PROGRAMS if place and os.path.exists(f"{place}/initdb")), None)
    if programs is None:
        pytest.skip("PostgreSQL is not installed: the ledger was not tried on a server")
    folder = Path(tempfile.mkdtemp(prefix="perinstance-postgres-"))
    options = {}
    if os.getuid() == 0:
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("no user can run PostgreSQL here: the ledger was not tried on a server")
        os.chown(folder, user.pw_uid, user.pw_gid)
        options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data = folder / "data"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "cwd": folder, **options}
    subprocess.run([f"{programs}/initdb", "-D", data, "-U", "ledger", "-A", "trust"], check=True, **quiet)
    port = free_port()
    flags = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='{folder}'"
    control = [f"{programs}/pg_ctl", "-D", data, "-w"]
    subprocess.run([*control, "-l", folder / "log", "-o", flags, "start"], check=True, **quiet)
    yield f"postgresql://ledger@127.0.0.1:{port}/postgres"
    subprocess.run([*control, "-m", "immediate", "stop"], check=False, **quiet)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def address(server):
    import sqlalchemy

    engine = sqlalchemy.create_engine(server.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        for table in ("ledger_events", "ledger_head"):
            connection.execute(sqlalchemy.text(f"DROP TABLE IF EXISTS {table}"))
    engine.dispose()
    return server


def test_it_does_what_a_folder_does(address, tmp_path):
    ledger = pi.Ledger(address, store=tmp_path / "store")
    ledger.charge_pairs(["ann", "bob"], GaussianShift([0.3, 0.1]), key="it's January", fixed_in_advance=True)
    ledger.charge_pairs(["ann", "eve"], LaplaceShift([0.4, 0.1]), key="February", fixed_in_advance=True)
    beside = pi.Ledger(tmp_path / "folder")
    beside.charge_pairs(["ann", "bob"], GaussianShift([0.3, 0.1]), key="it's January", fixed_in_advance=True)
    beside.charge_pairs(["ann", "eve"], LaplaceShift([0.4, 0.1]), key="February", fixed_in_advance=True)
    assert ledger.totals().to_frame().equals(beside.totals().to_frame())
    assert pi.Ledger(address, store=tmp_path / "store").person("ann").entries[0].key == "it's January"
    ledger.forget("ann")
    assert len(ledger.totals()) == 3 and ledger.verify().ok
    with pytest.raises(LedgerConflict, match="another charge"):
        ledger.charge_pairs(["x"], GaussianShift([1.0]), key="February")


def test_changes_on_the_server_are_named(address, tmp_path):
    import sqlalchemy

    ledger = pi.Ledger(address, store=tmp_path / "store")
    ledger.charge_pairs(["a"], GaussianShift([1.0]), key="k")
    assert ledger.verify().ok
    engine = sqlalchemy.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE RULE theirs AS ON DELETE TO ledger_events DO INSTEAD NOTHING"))
        connection.execute(sqlalchemy.text("INSERT INTO ledger_head VALUES (2, 1, 2, 'x')"))
    assert [word in told for word, told in zip(("heads", "rule"), ledger.verify().problems, strict=True)] == [True] * 2
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("UPDATE ledger_events SET key = 'other' WHERE entry = 2"))
    engine.dispose()
    assert "event 2" in ledger.verify().problems[0]
    with pytest.raises(LedgerDamaged):
        ledger.totals()


@pytest.mark.parametrize("writers", [4, pytest.param(32, marks=pytest.mark.slow)])
def test_many_writers_at_once(address, tmp_path, writers):
    store = tmp_path / "store"
    code, told, err = forked(many_writers.main, writers, address, str(store))
    assert code == 0, err
    assert sorted(told.split()) == ["mine"] + ["theirs"] * (writers - 1)
    ledger = pi.Ledger(address, store=store)
    assert len(ledger.releases()) == 5 * writers + 1 and ledger.verify().ok


def test_addresses_that_cannot_be_used_say_so(tmp_path):
    with pytest.raises(InvalidInput, match="store="):
        pi.Ledger("postgresql://nobody@127.0.0.1:1/none")
    for wrong in ("nonsense://x", "postgresql://[::1", "postgresql://me@[::1/name"):
        with pytest.raises(InvalidInput, match="address"):
            pi.Ledger(wrong, store=tmp_path / "a")
    with pytest.raises(LedgerTrouble, match="check the server") as caught:
        pi.Ledger("postgresql://me:hunter2@127.0.0.1:1/none", store=tmp_path / "b")
    assert "hunter2" not in str(caught.value)


def test_commands_charge_a_ledger_on_a_server(address, table, run):  # noqa: F811 - fixtures
    book = ("--ledger", address, "--store", "store")
    assert run("ledger", "init", address, "--store", "store").code == 0
    asked = ("people.csv", "--target", "bmi", "--id", "person", "--feature", "age", *book, "-q", "--key")
    assert run("audit", *asked, "one").code == 0
    assert run("release", *asked, "two", "--epsilon", "1", "--x-bound", "5", "--y-bound", "5").code == 0
    read = ("people.csv", "--target", "bmi", "--id", "person", *book, "-q", "--key", "three", "--epsilon", "1")
    assert run("publish-losses", "model.json", *read, "--x-bound", "5").code == 0
    assert [release.key for release in pi.Ledger(address, store="store").releases()] == ["one", "two", "three"]
    without = run("audit", *asked[:7], "--ledger", address, "--key", "four")
    assert without.code == 2 and "--store" in without.err
    alone = run("audit", *asked[:7], "--store", "store")
    assert alone.code == 2 and "--store belongs to --ledger" in alone.err


def test_a_driver_that_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InvalidInput, match=r"needs psycopg; pip install 'perinstance\[ledger\]'"):
        pi.Ledger("postgresql://user@127.0.0.1:1/none", store=tmp_path / "store")
