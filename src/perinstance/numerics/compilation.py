"""How the numerical functions are compiled: once a machine, kept on disk for their owner, without the interpreter lock.

Compiled code is kept in one folder: ``NUMBA_CACHE_DIR`` where it is set, else the system's place for caches of this
user. Reading it means running it, so the folder and its files must belong to this user and nobody else may write
there; where that is not so, code is compiled anew in memory, and one line says why. A file is found by a hash of all
it depends on (the sources it is compiled from among them), so that nothing goes stale and processes do not disturb
each other, which numba's own index of files, ``njit(cache=True)``, does not promise.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import njit
from numba.core import sigutils
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from perinstance.errors import CodeNotKept
from perinstance.numerics.compile_notice import announce

PACKAGE = Path(__file__).parents[1]

# ``fastmath`` is always said: who says nothing gets it from whatever function is compiled first that calls it.
_EXACT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": False}
_OPTIONS: dict[str, Any] = {**_EXACT, "fastmath": {"contract"}}
_REORDERED: dict[str, Any] = {**_EXACT, "fastmath": {"reassoc", "contract", "nsz"}}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function for floats and arrays of floats.

    Division by zero gives infinity, as in numpy. Products and sums may be fused (which only makes them more
    accurate), nothing else is rearranged. Where no folder can be written the compiled code lives in memory only.
    """
    return _compiled(function, _OPTIONS)


def exact_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function that recovers its own rounding errors: there a fused product is a wrong one."""
    return _compiled(function, _EXACT)


def sum_kernel(function: Callable[..., Any]) -> Any:
    """Compile long sums, which may be added in any order; NaN and infinity keep their meaning."""
    return _compiled(function, _REORDERED)


def piece(function: Callable[..., Any]) -> Any:
    """Compile a function that is always copied into the loop that calls it, which a SIMD loop needs."""
    return njit(forceinline=True, **_OPTIONS)(function)


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    compiled = njit(**options)(function)
    if hasattr(compiled, "_cache"):  # a plain function under NUMBA_DISABLE_JIT
        compiled._cache = KernelCache(function)
    return compiled


class KernelCache(NullCache):
    """The compiled code of one function on disk, one file for each signature: what numba asks and tells of it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, or None: then numba compiles and calls ``save_overload``."""
        target_context.refresh()  # functions that numba knows by now
        folder = folder_of_code()
        if folder is not None:
            path, arguments = self._file(folder, sig, target_context.codegen())
            try:
                found = CompileResult._rebuild(target_context, *pickle.loads(_own_content(path)))
                if tuple(found.signature.args) == arguments:
                    return found
            except Exception:  # noqa: S110 - a missing, foreign or damaged file: compile
                pass
        announce()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was just compiled, as a whole file or not at all: others may write the same one now."""
        folder = folder_of_code()
        if folder is None or data.library.has_dynamic_globals or data.lifted:  # it holds addresses of this process
            return
        path, _ = self._file(folder, sig, data.codegen)
        try:
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")  # of mode 0600
            with os.fdopen(handle, "wb") as file:
                file.write(dumps(data._reduce()))
            os.replace(temporary, path)
        except OSError:  # the disk is full, or the folder has gone: the code still runs
            return

    def _file(self, folder: Path, sig: Any, codegen: Any) -> tuple[Path, tuple[Any, ...]]:
        arguments = tuple(sigutils.normalize_signature(sig)[0])
        code = self.function.__code__
        name = f"{self.function.__module__.removeprefix('perinstance.')}.{self.function.__qualname__}"
        depends_on = (
            name,
            code.co_firstlineno,
            hashlib.sha256(code.co_code).hexdigest(),
            source_hash(Path(code.co_filename)),
            tuple(str(argument) for argument in arguments),
            codegen.magic_tuple(),  # processor and its features
            numba.__version__,
            llvmlite.__version__,
            sys.implementation.cache_tag,
        )
        digest = hashlib.sha256(repr(depends_on).encode()).hexdigest()[:24]
        return folder / f"{re.sub('[<>]', '', name)}-{digest}.nbc", arguments


_IMPORTS = re.compile(rb"^\s*from (perinstance[\w.]*) import|^\s*import (perinstance[\w.]*)", re.MULTILINE)


@cache
def source_hash(file: Path) -> str:
    """Return a hash of a source file and of all files of this package that it imports, and those, and so on."""
    whole, seen, waiting = hashlib.sha256(), set(), [file]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        waiting += _imported(one)
    for one in sorted(seen):
        whole.update(_content(one))
    return whole.hexdigest()


@cache
def _content(file: Path) -> bytes:
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:  # a prompt, or a package without its sources
        return b""


@cache
def _imported(file: Path) -> list[Path]:
    """Return the files of this package that a file imports; of a folder all, for its names come from any of them."""
    try:
        found = _IMPORTS.findall(file.read_bytes())
    except OSError:
        return []
    files: list[Path] = []
    for name in {(a or b).decode() for a, b in found}:
        place = PACKAGE.joinpath(*name.split(".")[1:])
        files += sorted(place.glob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    return files


def _user_folder() -> Path:
    """Return the system's place for caches of this user; RuntimeError where nobody knows their home."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "perinstance" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "perinstance"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perinstance"


@cache
def folder_of_code() -> Path | None:
    """Return the folder that compiled code is read from and written to, made if need be; None, said once, if none."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    try:
        folder = Path(chosen) / "perinstance" if chosen else _user_folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = _not_only_ours(folder.stat(), "the folder")
        if not reason and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            reason = "the folder cannot be written"
    except (OSError, RuntimeError):
        reason = "no folder for it can be made"
    if not reason:
        return folder
    warnings.warn(
        f"compiled code is not kept, so it is compiled anew in each process: {reason}; "
        "set NUMBA_CACHE_DIR to a folder of your own that nobody else can write",
        CodeNotKept,
        stacklevel=2,
    )
    return None


def _not_only_ours(found: os.stat_result, what: str) -> str:
    """Return why a folder or file must not be trusted with code that is run, or nothing."""
    if not hasattr(os, "geteuid"):
        return ""
    if found.st_uid != os.geteuid():
        return f"{what} belongs to somebody else"
    return f"others can write {what}" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


def _own_content(path: Path) -> bytes:
    """Return the content of a file of compiled code that nobody else wrote; PermissionError if they could have."""
    with open(path, "rb") as file:
        if reason := _not_only_ours(os.fstat(file.fileno()), "the file"):
            raise PermissionError(reason)
        return file.read()
