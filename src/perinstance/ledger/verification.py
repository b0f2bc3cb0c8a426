"""Whether a ledger is what was written: the chain of the log, its head, every file, who may read them.

Running sums fit the name of their file. Without a secret anybody can write a name that fits: then they are compared
with what the charges add up to.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from pathlib import Path

from perinstance.data.confidential.private_files import refuse_wider
from perinstance.errors import LedgerDamaged, PerinstanceError
from perinstance.ledger.budgets import Budget
from perinstance.ledger.files.charge_files import is_as_logged
from perinstance.ledger.log.charged_releases import releases_of
from perinstance.ledger.log.event_log import Event, EventLog
from perinstance.ledger.totals.running_sums import ORDERS, too_small
from perinstance.ledger.totals.sealed_sums import as_written, is_sealed, newest_sums, sums_files


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


def verify(log: EventLog, root: Path, folder: Path, budget: Budget | None) -> Verification:
    """Check everything and name what is wrong."""
    problems = log.check()
    events = [] if problems else log.events()
    head = log.head()
    releases = releases_of(events)
    for release in releases.values():
        wrong = _file_problem(folder / release.stored.file, release.stored.digest)
        if wrong:
            problems.append(f"release {release.key!r}: {wrong}")
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        problems.append("the folder of charges is open to others; close it with chmod 700 and ask who has read it")
    problems.extend(_running_problems(root, log))
    if not problems and log.secret is None and _too_small(log, root, folder, events, budget):
        problems.append("running sums are below what was charged: they were changed; delete running-*.parquet")
    expected = {release.stored.file for release in releases.values()}
    there = sorted(path.name for path in folder.iterdir()) if not problems else []
    leftovers = tuple(name for name in there if name not in expected)
    reserved = tuple(release.key for release in releases.values() if release.state == "reserved")
    return Verification(tuple(problems), leftovers, head.entries, head.digest, reserved)


def refuse_damage(found: Verification) -> None:
    """Raise what verification found."""
    if not found.ok:
        raise LedgerDamaged("; ".join(found.problems))


def _running_problems(root: Path, log: EventLog) -> list[str]:
    """Say which files of running sums are not what was written; they count nowhere, and are made anew."""
    problems = []
    for path in sums_files(root):
        try:
            refuse_wider(path)
            if is_sealed(path) and not as_written(path, log.seal) and path.exists():
                problems.append(f"the running sums {path.name} were changed; delete the file, it is made anew")
        except FileNotFoundError:
            continue  # another process has written newer ones
        except PerinstanceError as error:
            problems.append(str(error))
    return problems


def _too_small(log: EventLog, root: Path, charges: Path, events: list[Event], budget: Budget | None) -> bool:
    """Tell whether running sums that would count are below what was charged."""
    file, entry = newest_sums(root, events, ORDERS, log.seal)
    if file is None:
        return False
    try:
        return too_small(file, charges, events[:entry], budget)
    finally:
        file.close()


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
