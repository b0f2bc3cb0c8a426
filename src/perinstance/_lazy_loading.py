"""Names of a package that are loaded when first used.

The stub beside a package's ``__init__.py`` is the one list of its public names: type checkers and editors read it, and
so does this module, at run time (the convention of Scientific Python, SPEC 1). One line there registers a name::

    from .noisy_mean import NoisyMean as NoisyMean
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any


def load_when_used(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``, as its stub ``__init__.pyi`` states them."""
    homes = _homes(package)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if homes[name] == ".":
            return importlib.import_module(f".{name}", package)
        return getattr(importlib.import_module(homes[name], package), name)

    return load, lambda: sorted(homes), sorted(homes)


def _homes(package: str) -> dict[str, str]:
    """Return public name -> the module it is imported from, relative to the package; ``.`` for a module inside it.

    ``from .room import *`` takes over what the stub of a room lists.
    """
    module: Any = sys.modules[package]
    folder = os.path.dirname(module.__file__)
    homes: dict[str, str] = {}
    for home, name in _imports(module.__loader__, folder):
        if name == "*":
            homes |= dict.fromkeys((n for _, n in _imports(module.__loader__, os.path.join(folder, home[1:]))), home)
        else:
            homes[name] = home
    return homes


def _imports(loader: Any, folder: str) -> list[tuple[str, str]]:
    """Read a stub's imports: by the loader, as from a zip archive; a parser would take most of an import's time."""
    stub = loader.get_data(os.path.join(folder, "__init__.pyi")).decode()
    lines = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    return [(home, name) for _, home, _, name, *_ in lines]
