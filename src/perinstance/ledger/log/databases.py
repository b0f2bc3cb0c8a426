"""Where the log lives: SQLite in the ledger's folder, or PostgreSQL through SQLAlchemy; one language for both.

A transaction is the only thing asked of them: it holds the write lock from its first statement on, and is on disk
when it ends. Every transaction has a connection of its own, so a ledger may be used by threads and after a fork.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from perinstance.data.private_files import refuse_wider
from perinstance.errors import InvalidInput, LedgerTrouble

PATIENCE = 120.0  #: seconds that a writer waits for the others
_BUSY = f"other processes have held the ledger for {PATIENCE:g} s; nothing was written; try again"
_LOCK_TIMEOUT = "55P03"  # what PostgreSQL says of a lock that was not given in time
_LOCK = 7_301_995  # the name of the writers' lock on a server: any fixed number
_EFFECTIVE = os.access in os.supports_effective_ids
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
Execute = Callable[..., list[tuple[Any, ...]]]  #: runs a statement in a transaction; values are named ``:like_this``


@dataclass(frozen=True, slots=True)
class SqliteDatabase:
    """One file, 0600, in write-ahead mode with full synchronisation."""

    OBJECTS: ClassVar[str] = "SELECT type, name FROM sqlite_master"
    path: Path

    @classmethod
    def create(cls, path: Path) -> SqliteDatabase:
        """Make the file, or take the one that is there."""
        try:
            if path.exists():
                raise FileExistsError
            os.close(os.open(path, _NEW, 0o600))
            os.chmod(path, 0o600)  # whatever the umask
        except FileExistsError:
            refuse_wider(path)
        except OSError as error:
            raise LedgerTrouble(
                f"the log of the ledger cannot be made ({error.strerror}); choose another folder"
            ) from None
        return cls(path)

    def _connect(self, write: bool, patience: float) -> sqlite3.Connection:
        if all(os.access(place, os.W_OK, effective_ids=_EFFECTIVE) for place in (self.path, self.path.parent)):
            return sqlite3.connect(self.path, timeout=patience, isolation_level=None)
        if write:
            raise sqlite3.OperationalError("readonly")
        ahead = self.path.with_name(f"{self.path.name}-wal")
        whole = "" if ahead.exists() and ahead.stat().st_size else "&immutable=1"  # no lock file can be made here
        address = f"{self.path.absolute().as_uri()}?mode=ro{whole}"
        return sqlite3.connect(address, uri=True, timeout=patience, isolation_level=None)

    @contextmanager
    def transaction(self, write: bool, patience: float = PATIENCE) -> Iterator[Execute]:
        """Hold the write lock from the start; readers see the last commit. A read-only log can be read."""
        refuse_wider(self.path)
        try:
            connection = self._connect(write, patience)
        except sqlite3.Error as error:
            raise LedgerTrouble(_sentence(error)) from None
        try:
            if write:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            yield lambda statement, **values: connection.execute(statement, values).fetchall()
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerTrouble(_sentence(error)) from None
        finally:
            connection.close()  # what was not committed is rolled back


def _sentence(error: sqlite3.Error) -> str:
    """Say what a failure of SQLite means for the curator; its text carries no value."""
    known = {
        "full": "the disk is full: nothing was written; make room and do it again",
        "readonly": "the ledger cannot be written (read-only); nothing was changed",
        "locked": _BUSY,
        "unable to open": "the log of the ledger cannot be opened; copy the whole ledger to a folder of your own",
        "malformed": "the log of the ledger is damaged; run verify, and restore it from a backup",
        "not a database": "the log of the ledger is damaged; run verify, and restore it from a backup",
        "disk i/o": "the disk failed while the log was used; nothing was written; check the disk, then run verify",
    }
    text = str(error).lower()
    return next((words for part, words in known.items() if part in text), f"the log of the ledger failed ({text})")


class ServerDatabase:
    """A PostgreSQL database, for a team; tables have the prefix ``ledger_``."""

    OBJECTS: ClassVar[str] = (
        "SELECT 'table', tablename FROM pg_tables WHERE schemaname = current_schema() "
        "UNION ALL SELECT 'rule', rulename FROM pg_rules WHERE tablename IN ('ledger_events', 'ledger_head') "
        "UNION ALL SELECT 'trigger', tgname FROM pg_trigger JOIN pg_class ON tgrelid = pg_class.oid "
        "WHERE NOT tgisinternal AND relname IN ('ledger_events', 'ledger_head')"
    )
    __slots__ = ("_engine",)

    def __init__(self, url: str) -> None:
        try:
            import sqlalchemy
        except ImportError:
            raise InvalidInput("a ledger in a database needs SQLAlchemy; pip install 'perinstance[ledger]'") from None
        try:
            address = sqlalchemy.make_url(url)
            if address.drivername == "postgresql":
                address = address.set(drivername="postgresql+psycopg")
            self._engine = sqlalchemy.create_engine(address, poolclass=sqlalchemy.pool.NullPool)
        except ImportError as error:
            raise InvalidInput(
                f"a ledger in a database needs {error.name}; pip install 'perinstance[ledger]'"
            ) from None
        except (sqlalchemy.exc.ArgumentError, sqlalchemy.exc.NoSuchModuleError, ValueError) as error:
            raise InvalidInput(
                f"the address of the ledger cannot be used ({type(error).__name__}); it reads "
                "postgresql://user@host/name and needs perinstance[ledger]"
            ) from None

    @contextmanager
    def transaction(self, write: bool, patience: float = PATIENCE) -> Iterator[Execute]:
        """Begin and commit; the server synchronises as it is configured to."""
        import sqlalchemy

        try:
            with self._engine.begin() as connection:

                def execute(statement: str, **values: Any) -> list[tuple[Any, ...]]:
                    result = connection.execute(sqlalchemy.text(statement), values)
                    return [tuple(row) for row in result] if result.returns_rows else []

                if write:
                    execute(f"SET LOCAL lock_timeout = {max(int(patience * 1000), 1)}")
                    execute("SET LOCAL synchronous_commit = on")
                    execute(f"SELECT pg_advisory_xact_lock({_LOCK})")  # one writer at a time, from the start on
                else:  # events and head as of one moment
                    execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                yield execute
        except sqlalchemy.exc.SQLAlchemyError as error:
            cause = getattr(error, "orig", None)
            if getattr(cause, "sqlstate", None) == _LOCK_TIMEOUT:
                raise LedgerTrouble(_BUSY) from None
            # its text holds the statement's values
            name = type(error if cause is None else cause).__name__
            raise LedgerTrouble(
                f"the database of the ledger failed ({name}); nothing was written; check the server"
            ) from None


#: a transaction of either holds the write lock from its start if it writes (a writer waits for the others, at most
#: ``patience`` seconds), and leaves nothing behind after an error; ``OBJECTS`` lists what is in it, triggers included
Database = SqliteDatabase | ServerDatabase
