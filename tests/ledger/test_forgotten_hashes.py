"""The log keeps hashes of files for ever: nobody who was forgotten can be found again by trying names."""

from __future__ import annotations

import hashlib
import sqlite3

import pytest

import perinstance as pi
from perinstance.errors import LedgerConflict
from perinstance.ledger.files import sorted_pairs
from perinstance.ledger.files.sorted_pairs import SortedPairs
from perinstance.pairs import Shift

IDS, LOSSES = ["anna", "bob", "carol"], [1.0, 0.25, 3.0]


@pytest.fixture
def ledger(tmp_path):
    ledger = pi.Ledger(tmp_path / "ledger")
    ledger.charge_pairs(IDS, Shift(LOSSES), key="survey")
    return ledger


def without_salt(monkeypatch):
    """Write files as earlier versions did."""
    token = sorted_pairs.secrets.token_hex
    monkeypatch.setattr(sorted_pairs.secrets, "token_hex", lambda n: "" if n == 32 else token(n))


def all_logged(tmp_path):
    with sqlite3.connect(tmp_path / "ledger" / "log.sqlite") as log:
        return "".join(str(row) for row in log.execute("SELECT * FROM ledger_events").fetchall())


def guesses(name: str) -> list[str]:
    """All that can be computed of the file with everything known but the salt: content, bytes, row groups."""
    people = SortedPairs.of([name, *IDS[1:]], Shift(LOSSES))
    return [people.content(""), sorted_pairs.hashed_ids(people.table.column("id"))]


def test_nobody_is_found_again_by_guessing_their_name(ledger, tmp_path):
    assert ledger.forget("anna") == 1
    logged = all_logged(tmp_path)
    assert not any(guess[:16] in logged for guess in guesses("anna"))
    assert ledger.verify().ok and not any(b"anna" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def test_the_guess_would_be_right_without_a_salt(tmp_path, monkeypatch):
    """What the test above looks for is really what an unsalted file would have left."""
    without_salt(monkeypatch)
    ledger = pi.Ledger(tmp_path / "ledger")
    ledger.charge_pairs(IDS, Shift(LOSSES), key="survey")
    ledger.forget("anna")
    assert guesses("anna")[0] in all_logged(tmp_path)


def test_the_same_file_twice_has_other_hashes(tmp_path):
    one, other = (SortedPairs.of(IDS, Shift(LOSSES)).write(tmp_path, "0" * 16) for _ in range(2))
    assert one.content != other.content and one.digest != other.digest
    assert one.digest == f"blake2b:{hashlib.blake2b((tmp_path / one.file).read_bytes()).hexdigest()}"


def test_the_same_charge_is_still_known(ledger):
    again = ledger.charge_pairs(IDS[::-1], Shift(LOSSES[::-1]), key="survey")
    assert again == ledger.releases()[0] and len(ledger.releases()) == 1
    with pytest.raises(LedgerConflict, match="another charge"):
        ledger.charge_pairs(IDS, Shift([1.0, 0.25, 3.5]), key="survey")
    with pytest.raises(LedgerConflict, match="another charge"):
        ledger.charge_pairs(["anna", "bob", "carl"], Shift(LOSSES), key="survey")


def test_ledgers_of_earlier_versions(tmp_path, monkeypatch):
    """They are verified, know their charges again, and get a salt where somebody is renamed."""
    with monkeypatch.context() as patch:
        without_salt(patch)
        patch.setattr(sorted_pairs.hashlib, "blake2b", hashlib.sha256)
        patch.setattr(sorted_pairs._HashingFile, "digest", property(lambda file: file._told.hexdigest()))
        ledger = pi.Ledger(tmp_path / "ledger")
        ledger.charge_pairs(IDS, Shift(LOSSES), key="survey")
    assert ledger.verify().ok and len(ledger.releases()[0].stored.digest) == 64 and len(ledger.totals()) == 3
    assert ledger.charge_pairs(IDS, Shift(LOSSES), key="survey").people == 3
    with pytest.raises(LedgerConflict, match="another charge"):
        ledger.charge_pairs(IDS, Shift([1.0, 0.25, 3.5]), key="survey")
    before = ledger.releases()[0].stored.content
    ledger.rename({"bob": "bert"})
    assert ledger.verify().ok and ledger.releases()[0].stored.content != before
    assert ledger.charge_pairs(["anna", "bert", "carol"], Shift(LOSSES), key="survey").people == 3
    assert SortedPairs.of(["anna", "bert", "carol"], Shift(LOSSES)).content("") not in all_logged(tmp_path)
