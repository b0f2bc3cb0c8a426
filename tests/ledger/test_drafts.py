"""What a killed process leaves half-written holds ids: the next writer and whoever is forgotten take it along."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import perinstance as pi
from perinstance.errors import LedgerConflict, LedgerTrouble
from perinstance.ledger.totals import running_sums, sealed_sums
from perinstance.pairs import Shift

#: killed while the sums are written; when they are whole, before they have their name; while a charge is written; when
#: its file is whole, before the log has it; the same while others are renamed
KILLED = """
import os, sys
import perinstance as pi
from perinstance.data.confidential import private_files
from perinstance.ledger.log import event_log
from perinstance.ledger.totals import sealed_sums
ledger = pi.Ledger(sys.argv[1])
end = lambda *_: os._exit(9)
if sys.argv[2] == "hashing":
    sealed_sums._sealed_name = end
elif sys.argv[2] in ("charged", "renamed"):
    event_log.OpenLog.append = end
else:
    private_files.os.replace = end
if sys.argv[2] in ("charging", "charged"):
    ledger.charge_pairs(["anna-secret"], pi.pairs.Shift([1.0]), key="broken off")
if sys.argv[2] == "renamed":
    ledger.rename({"bob": "bert"})
ledger.totals(method="upper")
"""


@pytest.fixture
def place(tmp_path):
    ledger = pi.Ledger(tmp_path / "ledger")
    for k in range(2):
        ledger.charge_pairs(["anna-secret", "bob"], Shift([1.0, 0.5 + k]), key=f"release {k}")
    return tmp_path / "ledger"


def drafts(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob(".*") if path.is_file())


def holders(place: Path) -> list[str]:
    """Return the names of the files that hold the id."""
    return [path.name for path in place.rglob("*") if path.is_file() and b"anna-secret" in path.read_bytes()]


def grow_old(path: Path) -> None:
    past = path.stat().st_mtime - 2 * sealed_sums.STALE
    os.utime(path, (past, past))


def killed(place: Path, moment: str) -> Path:
    """Return the draft that a process leaves that is killed at this moment."""
    kill(place, moment)
    (draft,) = drafts(place)
    return draft


def kill(place: Path, moment: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(place), moment], capture_output=True, timeout=600)
    assert done.returncode == 9, done.stderr


@pytest.mark.parametrize("moment", ["writing", "hashing"])
def test_the_next_writer_deletes_old_drafts(place, moment):
    draft = killed(place, moment)
    ledger = pi.Ledger(place)
    ledger.totals(method="upper")
    assert drafts(place) == [draft]  # somebody may be writing it
    grow_old(draft)
    ledger.charge_pairs(["bob"], Shift([1.0]), key="more")
    ledger.totals(method="upper")
    assert not drafts(place) and ledger.verify().ok


@pytest.mark.parametrize("moment", ["writing", "hashing"])
def test_whoever_is_forgotten_is_in_no_draft(place, moment):
    killed(place, moment)
    ledger = pi.Ledger(place)
    ledger.totals(method="upper")
    assert len(holders(place)) == 4  # two charges, the sums, the draft
    ledger.forget("anna-secret")
    assert not drafts(place) and not holders(place) and ledger.verify().ok


@pytest.mark.parametrize("moment", ["charging", "charged", "renamed"])
def test_what_a_killed_writer_leaves_is_gone_once_the_ledger_is_opened(place, moment):
    """Half-written, or whole and unknown to the log: of one release, or of two that were being renamed."""
    before = holders(place)
    kill(place, moment)
    left = set(holders(place)) - set(before)
    assert len(left) == (2 if moment == "renamed" else 1)
    ledger = pi.Ledger(place)
    assert holders(place) == before and not drafts(place) and not ledger.verify().leftovers
    assert ledger.verify().ok and len(ledger.releases()) == 2 and ledger.person("bob").epsilon > 0


@pytest.mark.parametrize("last", ["INSERT", "COMMIT"])
def test_what_a_full_disk_leaves_is_gone_once_the_ledger_is_opened(place, monkeypatch, last):
    """A commit that fails may have been made: only the log knows."""

    class Full(sqlite3.Connection):
        def execute(self, statement, *values):
            if statement.startswith(last) and "INSERT" in written:
                raise sqlite3.OperationalError("database or disk is full")
            written.add("INSERT" if list(place.glob("charges/*")) != there else "")
            return super().execute(statement, *values)

    ledger, there, written = pi.Ledger(place), list(place.glob("charges/*")), set()
    with monkeypatch.context() as patch, pytest.raises(LedgerTrouble, match="disk is full"):
        connect = sqlite3.connect
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=Full))
        ledger.charge_pairs(["anna-secret"], Shift([1.0]), key="more")
    assert len(holders(place)) == (2 if last == "INSERT" else 3) and len(ledger.releases()) == 2
    pi.Ledger(place)
    assert len(holders(place)) == 2 and not ledger.verify().leftovers


def test_files_that_the_log_has_not_written_stay_when_a_ledger_is_opened(place, tmp_path):
    """Those of another ledger, and of charges that an older copy of the log does not know: they may be all there is."""
    log, other = (place / "log.sqlite").read_bytes(), pi.Ledger(tmp_path / "other")
    other.charge_pairs(["eve"], Shift([1.0]), key="theirs")
    ledger = pi.Ledger(place)
    ledger.charge_pairs(["x"], Shift([1.0]), key="after the copy")
    ledger.charge_pairs(["anna-secret"], Shift([1.0]), key="later")
    theirs, later = other.releases()[0].stored.file, ledger.releases()[-1].stored.file
    shutil.copy(tmp_path / "other" / "charges" / theirs, place / "charges" / theirs)
    (place / "log.sqlite").write_bytes(log)
    ledger = pi.Ledger(place)
    assert ledger.verify().leftovers == tuple(sorted([theirs, later])) and len(ledger.releases()) == 2
    ledger.forget("anna-secret")
    assert ledger.verify().leftovers == (theirs,) and not holders(place)


def test_a_charge_at_work_keeps_its_file_while_others_open_the_ledger(place, monkeypatch):
    from perinstance.ledger.files import sorted_pairs

    write = sorted_pairs.SortedPairs.write

    def opened(self, folder, tag):
        stored = write(self, folder, tag)
        assert pi.Ledger(place).verify().leftovers == (stored.file,)
        return stored

    monkeypatch.setattr(sorted_pairs.SortedPairs, "write", opened)
    pi.Ledger(place).charge_pairs(["eve"], Shift([2.0]), key="at work")
    assert pi.Ledger(place).person("eve").epsilon > 0 and not pi.Ledger(place).verify().leftovers


def test_a_forgetting_that_was_broken_off_is_finished_by_the_next(place, monkeypatch):
    from perinstance.ledger import renaming

    ledger = pi.Ledger(place)
    ledger.totals(method="upper")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(renaming, "delete_sums", lambda root: (_ for _ in ()).throw(KeyboardInterrupt))
        ledger.forget("anna-secret")
    assert holders(place)
    ledger.forget("anna-secret")
    assert not holders(place) and ledger.verify().ok


def test_sums_that_are_written_while_somebody_is_forgotten_do_not_stay(place, monkeypatch):
    """The writer has read the log, and opened the charges, before the ids have changed."""
    ledger, tables = pi.Ledger(place), running_sums._tables

    def interrupted(*arguments):
        yield from tables(*arguments)
        pi.Ledger(place).forget("anna-secret")

    with monkeypatch.context() as patch, pytest.raises(LedgerConflict, match="meanwhile"):
        patch.setattr(running_sums, "_tables", interrupted)
        ledger.totals(method="upper")
    assert not drafts(place) and not holders(place)
    assert len(ledger.totals(method="upper")) == 2 and ledger.verify().ok


def test_a_failure_leaves_no_draft(place, monkeypatch):
    monkeypatch.setattr(sealed_sums, "_sealed_name", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pi.Ledger(place).totals(method="upper")
    assert not drafts(place)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed on Linux")
def test_no_draft_is_open_when_it_is_moved(place, monkeypatch):
    """Other systems refuse to move an open file."""
    replace, moved = os.replace, []

    def watched(source, target):
        names = {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}
        moved.append((Path(target).name, os.path.realpath(source) in names))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    pi.Ledger(place).totals(method="upper")
    sealed = [is_open for name, is_open in moved if name.startswith("running-")]
    assert sealed == [False] and not any(is_open for _, is_open in moved)
