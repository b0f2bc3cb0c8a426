"""A recipe as a TOML file."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from perinstance.errors import InvalidInput

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the oldest Python
    import tomli as tomllib

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LARGEST = 16 << 20  # bytes; a recipe is written by a person


def read_recipe_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the tables of a TOML file."""
    place = Path(path)
    try:
        if place.stat().st_size > _LARGEST:
            raise InvalidInput(f"{place.name!r} is too large for a recipe")
        text = place.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput(f"the recipe {place.name!r} is not UTF-8; save it as UTF-8") from None
    except (OSError, ValueError) as error:  # a NUL in the path
        reason = getattr(error, "strerror", None) or "the path cannot be used"
        raise InvalidInput(f"the recipe {place.name!r} cannot be opened ({reason}); check the path") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"the recipe {place.name!r} is not TOML: {error}") from None


def recipe_text(record: dict[str, Any]) -> str:
    """Write plain types as TOML: first what is said of the whole table, then one table per column."""
    lines = ["# A public recipe: fixed in advance, from public knowledge, never from the data.", ""]
    lines += [f"{key} = {toml_value(value)}" for key, value in record.items() if not isinstance(value, dict)]
    if "target" in record:
        lines += ["", "[target]", *table_lines(record["target"])]
    for name, declared in record.get("columns", {}).items():
        lines += ["", f"[columns.{toml_key(name)}]", *table_lines(declared)]
    return "\n".join(lines) + "\n"


def table_lines(declared: dict[str, Any]) -> list[str]:
    """Write one table."""
    return [f"{toml_key(key)} = {toml_value(value)}" for key, value in declared.items()]


def toml_key(name: str) -> str:
    """Write a key, in quotes where it needs them.

    >>> toml_key("age"), toml_key("blood pressure")
    ('age', '"blood pressure"')
    """
    return name if _BARE.fullmatch(name) else toml_value(name)


def toml_value(value: Any) -> str:
    """Write a text, number, truth value or list; JSON's spelling of these is TOML's, but for the character DEL."""
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(one) for one in value) + "]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, bool | int | float | str):
        return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
    raise InvalidInput(f"a recipe holds texts, numbers, truth values and lists of them, got {type(value).__name__}")
