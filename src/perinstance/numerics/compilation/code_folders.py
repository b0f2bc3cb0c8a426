"""Where compiled kernels lie: with the package, in the environment (``perinstance warm-up``), in the user's folder.

Nothing is ever written into the package: what pip does not know of would stay behind when it is uninstalled, as a
folder that can still be imported. A file is found by a hash of everything it depends on, so that copying, installing
or a changed clock make nothing stale, and a changed source never finds old code.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from perinstance.errors import CodeNotKept

PACKAGE = Path(__file__).parents[2]
#: compiled when the package was built, and installed with it
SHIPPED = PACKAGE / "_compiled"
#: folders of code of other versions that are left alone when a new one is made
OLD_VERSIONS = 8


def source_files() -> Iterator[Path]:
    """Yield the files that compiled code depends on: those with kernels, and the constants and errors below them."""
    for file in sorted(PACKAGE.rglob("*.py")):
        below = PACKAGE / "numerics" in file.parents or file == PACKAGE / "errors.py"
        if below or b"numba_compile" in file.read_bytes():
            yield file


@cache
def source_hash() -> str | None:
    """Return one hash of all those files, kernels call each other across rooms; None where there is no source."""
    whole = hashlib.sha256()
    try:
        for file in source_files():
            whole.update(f"{file.relative_to(PACKAGE).as_posix()}\0".encode())
            whole.update(hashlib.sha256(file.read_bytes()).digest())
    except OSError:
        return None
    return whole.hexdigest()[:16] if (PACKAGE / "numerics" / "numba_compile.py").is_file() else None


def environment_folder() -> Path:
    """Return the folder of everybody who uses this Python environment; ``perinstance warm-up`` writes it."""
    return Path(sysconfig.get_path("data")) / "share" / "perinstance"


def user_folder() -> Path | None:
    """Return this user's own folder: ``NUMBA_CACHE_DIR`` where it is set, else the system's place for caches."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return Path(chosen) / "perinstance"
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and nobody of this number in the list of users
        return None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "perinstance" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "perinstance"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "perinstance"


class Folders:
    """The folders of this process: where code is looked for, in this order, and where new code is kept."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said = False
        self._only: Path | None = None

    def use_only(self, folder: Path) -> None:
        """Read and write this folder and no other: what is prepared there is then complete by itself."""
        self._only = folder

    def to_read(self) -> list[Path]:
        """Return where code may lie; whether a folder exists is seen when a file is opened."""
        if source_hash() is None:
            return []
        if self._only is not None:
            return [self._only]
        own = user_folder()
        kept = [environment_folder(), *([] if own is None or not _trusted(own) else [own])]
        return [SHIPPED, *(folder / str(source_hash()) for folder in kept)]

    def to_write(self) -> Path | None:
        """Return where new code is kept, made if need be; None where nothing can be written."""
        if source_hash() is None or self._only is not None:
            return self._only
        own = user_folder()
        return None if own is None else writable(own)

    def say_nothing_is_kept(self) -> None:
        """Warn, once, that this process compiles for itself alone."""
        with self._lock:
            if self._said:
                return
            self._said = True
        warnings.warn(
            "no folder for compiled code can be written, so it is compiled anew each time; "
            "set NUMBA_CACHE_DIR to a folder that can be written, or run `perinstance warm-up` as the owner of this "
            "Python environment",
            CodeNotKept,
            stacklevel=2,
        )


FOLDERS = Folders()


def writable(home: Path) -> Path | None:
    """Return the folder for this version's code in ``home``, made if need be; None where that is not possible."""
    folder = home / str(source_hash())
    try:
        if not folder.is_dir():
            # Others may not look into a user's folder; a folder that somebody chose keeps the modes of its place.
            private = home == user_folder() and not os.environ.get("NUMBA_CACHE_DIR")
            home.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
            folder.mkdir(exist_ok=True)
            _drop_old_versions(home)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) and _trusted(home) else None


def _trusted(home: Path) -> bool:
    """Whether the folder is ours (root must not run what a user left there) or was chosen, by its owner's word."""
    if os.environ.get("NUMBA_CACHE_DIR") or not hasattr(os, "geteuid") or home == environment_folder():
        return True
    try:
        return home.stat().st_uid == os.geteuid()
    except OSError:
        return False


def _drop_old_versions(home: Path) -> None:
    names = [entry for entry in home.iterdir() if re.fullmatch("[0-9a-f]{16}", entry.name)]
    for old in sorted(names, key=lambda entry: entry.stat().st_mtime)[: -(OLD_VERSIONS + 1)]:
        shutil.rmtree(old, ignore_errors=True)
