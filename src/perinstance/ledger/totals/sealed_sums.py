"""The file of running sums, under a name that says what is in it: a changed one is seen, and counts nowhere.

    running-<seal>.parquet,    seal = SHA-256 of the file's digest       (HMAC-SHA-256 where the ledger has a secret)

It is no part of the log's chain, because everything in it can be computed again. Whoever can write a name that fits
(without a secret, everybody who can write) has to deal with verification, which adds the charges up.

A draft, of which a killed process may leave one behind, holds ids too: the next writer deletes old ones, and people who
get another name or none take all of them along, those that are being written included.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from perinstance.data.confidential.private_files import private_file
from perinstance.errors import LedgerConflict, LedgerDamaged, PerinstanceError
from perinstance.ledger.files.charge_files import ChargeFile, file_digest
from perinstance.ledger.log.event_log import Event

#: what is said to whoever comes too late
MEANWHILE = "another process has changed the ledger meanwhile; do it again"
#: turns words into a hash
Seal = Callable[[str], str]

#: names of drafts: while they are written, and until they are sealed
DRAFTS = ("..running.*.part", ".running.*.parquet")
#: seconds after which nobody is writing a draft any more that was not written to
STALE = 3600.0


def sums_metadata(events: Sequence[Event], orders: Sequence[float]) -> dict[bytes, bytes]:
    """Say which events the sums are of."""
    told = {"entry": len(events), "digest": events[-1].digest, "orders": list(orders)}
    return {
        b"ledger": json.dumps(told).encode(),
        b"perinstance": json.dumps({"pairs": "", "starts": [], "groups": []}).encode(),
    }


def write_sums(root: Path, schema: pa.Schema, tables: Iterable[dict[str, Any]], seal: Seal) -> ChargeFile:
    """Write the file, delete those before it and old drafts, and return it open: a newer one may take its place."""
    delete_old_drafts(root, *DRAFTS)
    before = sums_files(root)
    draft = root / f".running.{secrets.token_hex(8)}.parquet"
    try:
        with (
            private_file(draft) as out,
            pq.ParquetWriter(out, schema, compression="zstd", write_page_checksum=True) as writer,
        ):
            for columns in tables:
                writer.write_table(pa.table(columns, schema=schema))
        name = _sealed_name(draft, seal)
        os.replace(draft, root / name)  # nobody has it open: some systems move no file that is
        file = _opened(root, name)
    except FileNotFoundError:
        raise LedgerConflict(MEANWHILE) from None
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    for path in before:
        if path.name != name:
            path.unlink(missing_ok=True)
    return file


def _opened(root: Path, name: str) -> ChargeFile:
    try:
        return ChargeFile(root, name)
    except LedgerDamaged:
        (root / name).stat()  # deleted meanwhile, or really damaged
        raise


def delete_old_drafts(folder: Path, *patterns: str) -> None:
    """Delete what a killed process has left half-written; whoever still writes a younger one keeps it."""
    for pattern in patterns:
        for path in folder.glob(pattern):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > STALE:
                    path.unlink()


def sums_files(root: Path) -> list[Path]:
    """Return all files of running sums; one whose name says nothing is of an earlier version, and never read."""
    return sorted(root.glob("running*.parquet"))


def is_sealed(path: Path) -> bool:
    """Tell whether a file's name says what is in it."""
    return path.name.startswith("running-")


def delete_sums(root: Path) -> None:
    """Delete the file and all drafts: they hold ids that have changed."""
    for path in (*sums_files(root), *(path for pattern in DRAFTS for path in root.glob(pattern))):
        path.unlink(missing_ok=True)


def newest_sums(
    root: Path, events: Sequence[Event], orders: Sequence[float], seal: Seal
) -> tuple[ChargeFile | None, int]:
    """Return the file that counts up to the latest event, and up to which; None and 0 if all must be added up anew."""
    found = [(_valid_until(file, events, orders), file) for file in _unchanged(root, seal)]
    best = max(found, key=lambda told: told[0], default=None)
    for told in found:
        if told is not best or not told[0]:
            told[1].close()
    return (best[1], best[0]) if best is not None and best[0] else (None, 0)


def _unchanged(root: Path, seal: Seal) -> Iterator[ChargeFile]:
    """Open the files that are what was written."""
    for path in sums_files(root):
        with suppress(PerinstanceError):
            file = ChargeFile(root, path.name)
            if as_written(path, seal):
                yield file
            else:
                file.close()


def as_written(path: Path, seal: Seal) -> bool:
    """Tell whether a file is there and fits its name."""
    try:
        return path.name == _sealed_name(path, seal)
    except OSError:
        return False


def _sealed_name(path: Path, seal: Seal) -> str:
    return f"running-{seal('running sums ' + file_digest(path, 'sha256'))}.parquet"


def _valid_until(file: ChargeFile, events: Sequence[Event], orders: Sequence[float]) -> int:
    """Return up to which event a file counts; 0 if it does not."""
    with suppress(ValueError, TypeError, KeyError, IndexError):
        told = json.loads(file.footer.parquet.metadata[b"ledger"])
        entry = int(told["entry"])
        same = events[entry - 1].digest == told["digest"] and told["orders"] == list(orders)
        if same and entry > 0 and all(event.kind in ("charged", "committed") for event in events[entry:]):
            return entry
    return 0
