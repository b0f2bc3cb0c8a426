"""What a killed process leaves half-written holds ids: the next writer and whoever is forgotten take it along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import perinstance as pi
from perinstance.errors import InvalidInput, LedgerConflict
from perinstance.ledger.totals import running_sums, sealed_sums
from perinstance.pairs import Shift

#: killed while the sums are written; when they are whole, before they have their name; while a charge is written; when
#: its file is whole, before the log has it; the same while others are renamed
KILLED = """
import os, sys
import perinstance as pi
from perinstance.data.confidential import private_files
from perinstance.ledger.totals import sealed_sums
ledger = pi.Ledger(sys.argv[1])
end = lambda *_: os._exit(9)
if sys.argv[2] == "hashing":
    sealed_sums._sealed_name = end
elif sys.argv[2] in ("charged", "renamed"):
    type(ledger._log).append = end
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


def test_an_old_draft_of_a_charge_goes_when_somebody_is_forgotten(place):
    draft = killed(place, "charging")
    ledger = pi.Ledger(place)
    ledger.rename({"bob": "bert"})
    assert drafts(place) == [draft]  # a charge that may be on its way is not stopped
    grow_old(draft)
    ledger.forget("anna-secret")
    assert not drafts(place) and not holders(place) and ledger.verify().ok


def test_whoever_is_forgotten_is_in_no_young_draft_of_a_charge(place):
    killed(place, "charging")
    ledger = pi.Ledger(place)
    ledger.forget("anna-secret")
    assert not drafts(place) and not holders(place) and ledger.verify().ok


@pytest.mark.parametrize("moment", ["charged", "renamed"])
def test_whoever_is_forgotten_is_in_no_file_that_never_counted(place, moment):
    """Whole, under its last name, and unknown to the log: of one release, or of two that were being renamed."""
    before = len(holders(place))
    kill(place, moment)
    ledger = pi.Ledger(place)
    assert len(holders(place)) == before + (1 if moment == "charged" else 2) == before + len(ledger.verify().leftovers)
    ledger.forget("anna-secret")
    assert not holders(place) and ledger.verify().ok and not ledger.verify().leftovers
    assert ledger.person("bob").epsilon > 0 and len(ledger.releases()) == 2


def test_a_file_that_never_counted_stays_while_others_are_forgotten(place):
    """Its writer may be at work."""
    kill(place, "charged")
    ledger = pi.Ledger(place)
    (leftover,) = ledger.verify().leftovers
    ledger.forget("bob")
    assert ledger.verify().leftovers == (leftover,)
    ledger.rename({"anna-secret": "anna"})
    assert not holders(place) and not ledger.verify().leftovers


def test_somebody_whose_only_charge_was_broken_off_is_forgotten(tmp_path):
    place = tmp_path / "ledger"
    ledger = pi.Ledger(place)
    kill(place, "charged")
    assert holders(place) and not ledger.releases()
    assert ledger.forget("anna-secret") == 0
    assert not holders(place) and ledger.verify().ok and len(ledger._log.events()) == 1
    with pytest.raises(InvalidInput, match="nobody of that name"):
        ledger.forget("anna-secret")


@pytest.mark.parametrize("late", [False, True])
def test_a_charge_at_work_while_somebody_in_it_is_forgotten_does_not_count_without_its_file(place, monkeypatch, late):
    """Before its file has its name, and after: it is refused, and counts when it is made again."""
    from perinstance.ledger.files import sorted_pairs

    ledger, write = pi.Ledger(place), sorted_pairs.SortedPairs.write
    replace = os.replace

    def forgotten(self, folder):
        stored = write(self, folder)
        patch.undo()
        pi.Ledger(place).forget("anna-secret")
        return stored

    def forgotten_before(source, target):
        patch.undo()
        pi.Ledger(place).forget("anna-secret")
        replace(source, target)

    with monkeypatch.context() as patch, pytest.raises(LedgerConflict, match="meanwhile"):
        if late:
            patch.setattr(sorted_pairs.SortedPairs, "write", forgotten)
        else:
            patch.setattr(os, "replace", forgotten_before)
        ledger.charge_pairs(["anna-secret", "eve"], Shift([1.0, 2.0]), key="at work")
    assert not drafts(place) and not holders(place) and ledger.verify().ok and not ledger.verify().leftovers
    ledger.charge_pairs(["anna-secret", "eve"], Shift([1.0, 2.0]), key="at work")
    assert ledger.verify().ok and ledger.person("eve").epsilon > 0


def test_a_forgetting_that_was_broken_off_is_finished_by_the_next(place, monkeypatch):
    from perinstance.ledger import renaming

    ledger = pi.Ledger(place)
    ledger.totals(method="upper")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(renaming, "delete_sums", lambda root: (_ for _ in ()).throw(KeyboardInterrupt))
        ledger.forget("anna-secret")
    assert holders(place)
    with pytest.raises(InvalidInput, match="nobody of that name"):
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
