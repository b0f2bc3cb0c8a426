"""Whether a ledger is what was written: the chain of the log, its head, every file, who may read them."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from perinstance.data.private_files import refuse_wider
from perinstance.errors import PerinstanceError
from perinstance.ledger.files.charge_files import is_as_logged
from perinstance.ledger.log.charged_releases import releases_of
from perinstance.ledger.log.event_log import EventLog


@dataclass(frozen=True, slots=True)
class Verification:
    """What was found. ``head`` changes with every event: kept elsewhere, it tells whether a ledger was replaced."""

    problems: tuple[str, ...]
    leftovers: tuple[str, ...]  #: files that no event names: of other ledgers, or of charges that are being written
    events: int
    head: str
    reserved: tuple[str, ...]  #: keys of releases of which nobody has said yet whether they were published

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify(log: EventLog, folder: Path) -> Verification:
    """Check everything and name what is wrong."""
    problems = log.check()
    releases = releases_of([] if problems else log.events())
    for release in releases.values():
        wrong = _file_problem(folder / release.stored.file, release.stored.digest)
        if wrong:
            problems.append(f"release {release.key!r}: {wrong}")
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        problems.append("the folder of charges is open to others; close it with chmod 700 and ask who has read it")
    expected = {release.stored.file for release in releases.values()}
    there = sorted(path.name for path in folder.iterdir()) if not problems else []
    leftovers = tuple(name for name in there if name not in expected)
    reserved = tuple(release.key for release in releases.values() if release.state == "reserved")
    return Verification(tuple(problems), leftovers, *log.head(), reserved)


def _file_problem(path: Path, digest: str) -> str | None:
    try:
        refuse_wider(path)
        if not is_as_logged(path, digest):
            return f"the file {path.name} was changed; restore it from a backup"
    except FileNotFoundError:
        return f"the file {path.name} is missing; restore it from a backup"
    except PerinstanceError as error:
        return str(error)
    except OSError as error:
        return f"the file {path.name} cannot be read ({error.strerror})"
    return None
