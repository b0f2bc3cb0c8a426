"""Files of charges that no event names: left by a full disk or a killed process, or replaced by a rewriting.

They hold ids. A writer holds the lock of the log until the event is there that names its files, so under that lock they
belong to nobody. A file that begins with no digest of this log stays: it is another ledger's, in the wrong folder, or
the log is an older copy, restored from a backup, that does not know it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from perinstance.errors import LedgerTrouble
from perinstance.ledger.files.sorted_pairs import synchronise_folder
from perinstance.ledger.log.charged_releases import logged_files, releases_of
from perinstance.ledger.log.event_log import TAG, EventLog, OpenLog

#: the names that files of charges get: after which event, and a random number
CHARGE = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}\.parquet")


def delete_unlogged(folder: Path, log: OpenLog) -> list[str]:
    """Delete them, under the lock of the log; return their names."""
    current = {release.stored.file for release in releases_of(log.events).values()}
    once, own = logged_files(log.events), {event.digest[:TAG] for event in log.events}
    gone = []
    for path in folder.iterdir():
        broken_off = bool(CHARGE.fullmatch(path.name)) and path.name[:TAG] in own
        half_written = path.name.startswith(".") and path.suffix == ".part"
        if path.name not in current and (path.name in once or broken_off or half_written):
            path.unlink(missing_ok=True)
            gone.append(path.name)
    if gone:
        synchronise_folder(folder)
    return gone


def tidy(folder: Path, log: EventLog) -> None:
    """Delete them when a ledger is opened; not now if somebody is writing, or nothing can be written."""
    current = {release.stored.file for release in releases_of(log.events()).values()}
    if any(path.name not in current for path in folder.iterdir()):
        with suppress(LedgerTrouble, OSError), log.writing(patience=0.0) as now:
            delete_unlogged(folder, now)
