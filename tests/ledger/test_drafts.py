"""What a killed process or a full disk leaves half-written holds ids: the next to open the ledger deletes it.

And what is kept for ever, the log's hashes of files, tells nobody who was forgotten.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

import perinstance as pi
from perinstance.data import private_files
from perinstance.errors import LedgerTrouble
from perinstance.ledger import renaming
from perinstance.ledger.files import sorted_pairs
from perinstance.ledger.files.sorted_pairs import SortedPairs
from perinstance.ledger.log import event_log
from perinstance.pairs import GaussianShift
from tests.forked import forked


def killed(place: str, moment: str) -> None:
    """Be killed while a charge is written; when its file is whole, before the log has it; while others are renamed."""
    ledger = pi.Ledger(place)

    def end(*_):
        os._exit(9)

    if moment == "charging":
        private_files.os.replace = end
    event_log.OpenLog.append = end
    if moment == "renamed":
        ledger.rename({"bob": "bert"})
    ledger.charge_pairs(["anna-secret"], GaussianShift([1.0]), key="broken off")


@pytest.fixture
def place(tmp_path):
    ledger = pi.Ledger(tmp_path / "ledger")
    for k in range(2):
        ledger.charge_pairs(["anna-secret", "bob"], GaussianShift([1.0, 0.5 + k]), key=f"release {k}")
    return tmp_path / "ledger"


def drafts(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob(".*") if path.is_file())


def holders(place: Path) -> list[str]:
    """Return the names of the files that hold the id."""
    return [path.name for path in place.rglob("*") if path.is_file() and b"anna-secret" in path.read_bytes()]


def kill(place: Path, moment: str) -> None:
    code, _, err = forked(killed, str(place), moment)
    assert code == 9, err


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
        ledger.charge_pairs(["anna-secret"], GaussianShift([1.0]), key="more")
    assert len(holders(place)) == (2 if last == "INSERT" else 3) and len(ledger.releases()) == 2
    pi.Ledger(place)
    assert len(holders(place)) == 2 and not ledger.verify().leftovers


def test_files_that_the_log_has_not_written_stay_when_a_ledger_is_opened(place, tmp_path):
    """Those of another ledger, and of charges that an older copy of the log does not know: they may be all there is."""
    log, other = (place / "log.sqlite").read_bytes(), pi.Ledger(tmp_path / "other")
    other.charge_pairs(["eve"], GaussianShift([1.0]), key="theirs")
    ledger = pi.Ledger(place)
    ledger.charge_pairs(["x"], GaussianShift([1.0]), key="after the copy")
    ledger.charge_pairs(["anna-secret"], GaussianShift([1.0]), key="later")
    theirs, later = other.releases()[0].stored.file, ledger.releases()[-1].stored.file
    shutil.copy(tmp_path / "other" / "charges" / theirs, place / "charges" / theirs)
    (place / "log.sqlite").write_bytes(log)
    ledger = pi.Ledger(place)
    assert ledger.verify().leftovers == tuple(sorted([theirs, later])) and len(ledger.releases()) == 2
    ledger.forget("anna-secret")
    assert ledger.verify().leftovers == (theirs,) and not holders(place)


def test_a_charge_at_work_keeps_its_file_while_others_open_the_ledger(place, monkeypatch):
    write = sorted_pairs.SortedPairs.write

    def opened(self, folder, tag):
        stored = write(self, folder, tag)
        assert pi.Ledger(place).verify().leftovers == (stored.file,)
        return stored

    monkeypatch.setattr(sorted_pairs.SortedPairs, "write", opened)
    pi.Ledger(place).charge_pairs(["eve"], GaussianShift([2.0]), key="at work")
    assert pi.Ledger(place).person("eve").epsilon > 0 and not pi.Ledger(place).verify().leftovers


def test_a_forgetting_that_was_broken_off_is_finished_by_the_next(place, monkeypatch):
    ledger = pi.Ledger(place)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(renaming, "delete_unlogged", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        ledger.forget("anna-secret")
    assert holders(place)
    ledger.forget("anna-secret")
    assert not holders(place) and ledger.verify().ok


IDS, LOSSES = ["anna", "bob", "carol"], [1.0, 0.25, 3.0]


@pytest.mark.parametrize("salted", [True, False])
def test_nobody_is_found_again_by_guessing_their_name(tmp_path, monkeypatch, salted):
    """All but the salt is known; were that too, the guess would be right."""
    if not salted:
        token = sorted_pairs.secrets.token_hex
        monkeypatch.setattr(sorted_pairs.secrets, "token_hex", lambda n: "00" if n == 32 else token(n))
    ledger = pi.Ledger(tmp_path / "ledger")
    ledger.charge_pairs(IDS, GaussianShift(LOSSES), key="survey")
    assert ledger.forget("anna") == 1
    with sqlite3.connect(tmp_path / "ledger" / "log.sqlite") as log:
        logged = "".join(str(row) for row in log.execute("SELECT * FROM ledger_events").fetchall())
    people = SortedPairs.of(IDS, GaussianShift(LOSSES))
    guesses = [people.content("00"), sorted_pairs.hashed_ids(people.table.column("id"))]
    assert [guess[:16] in logged for guess in guesses] == [not salted, False]
    assert ledger.verify().ok and not any(b"anna" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def test_the_same_file_twice_has_other_hashes(tmp_path):
    one, other = (SortedPairs.of(IDS, GaussianShift(LOSSES)).write(tmp_path, "0" * 16) for _ in range(2))
    assert one.content != other.content and one.digest != other.digest
    assert one.digest == f"blake2b:{hashlib.blake2b((tmp_path / one.file).read_bytes()).hexdigest()}"
