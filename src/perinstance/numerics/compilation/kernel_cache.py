"""The compiled code of one kernel, on disk: one file for each signature, named by a hash of all it depends on.

It stands where numba has its own cache (``dispatcher._cache``), which knows one folder, decides about it when a module
is imported, and fails there ("no locator available") when nothing can be written.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core import sigutils
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from perinstance.numerics.compilation.code_folders import FOLDERS, source_hash


class KernelCache:
    """Reads what was compiled before and keeps what is compiled now; without any folder everything stays in memory."""

    cache_path: str | None = None  #: numba shows it in ``stats``

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled code for a signature, or None: then numba compiles and calls ``save_overload``."""
        target_context.refresh()  # functions that numba knows by now
        name, arguments = self._file(sig, target_context.codegen())
        for folder in FOLDERS.to_read():
            try:
                content = (folder / name).read_bytes()
            except OSError:
                continue
            try:
                found = CompileResult._rebuild(target_context, *pickle.loads(content))
            except Exception:  # noqa: S112 - a damaged file is like none: compile
                continue
            if tuple(found.signature.args) == arguments:
                return found
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was just compiled, where that is possible."""
        if data.library.has_dynamic_globals or data.lifted:
            return  # it holds addresses of this process
        name, _ = self._file(sig, data.codegen)
        folder = FOLDERS.to_write()
        try:
            if folder is None:
                raise PermissionError
            _write(folder / name, dumps(data._reduce()))
        except OSError:
            FOLDERS.say_nothing_is_kept()

    def enable(self) -> None:
        """Numba's protocol: this cache is never off."""

    def disable(self) -> None:
        """Numba's protocol: this cache is never off."""

    def flush(self) -> None:
        """Numba's protocol: a file whose hash no longer fits is never read, so there is nothing to forget."""

    def _file(self, sig: Any, codegen: Any) -> tuple[str, tuple[Any, ...]]:
        arguments = tuple(sigutils.normalize_signature(sig)[0])
        name = f"{self.function.__module__.removeprefix('perinstance.')}.{self.function.__qualname__}"
        depends_on = (
            name,
            self.function.__code__.co_firstlineno,
            hashlib.sha256(self.function.__code__.co_code).hexdigest(),
            source_hash(),
            tuple(str(argument) for argument in arguments),
            codegen.magic_tuple(),  # processor and its features
            numba.__version__,
            llvmlite.__version__,
            sys.implementation.cache_tag,
        )
        digest = hashlib.sha256(repr(depends_on).encode()).hexdigest()[:24]
        return f"{name.replace('<', '').replace('>', '')}-{digest}.nbc", arguments


def _write(path: Path, content: bytes) -> None:
    """Write a file as a whole or not at all: others may read, or write, the same one at this moment."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # as private as its folder: who may look into that may read
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
