"""A recipe as a TOML file: read, written, and drafted from the names and types of a table's columns.

Nothing else of the data goes into a draft: a category list, a range or a count that was read off it would be published
with the recipe, and would move with every person. What is to be filled in from public knowledge is marked; a recipe
with such a mark is not loaded.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from perinstance.data.checks.cells import type_word
from perinstance.data.recipes.arrow_cells import ReadCells, read_days, read_numbers
from perinstance.data.recipes.cell_rules import CellRules, rules_to_try
from perinstance.data.recipes.column_kinds import FILL_IN
from perinstance.errors import InvalidInput

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the oldest Python
    import tomli as tomllib

TypeWord = Literal["number", "yes or no", "date", "text"]

_HEAD = f"""\
# A first draft of a public recipe, made from the names and types of the columns, and from how most cells of a column
# are written. Nothing else was taken from the data.
#
# Replace every "{FILL_IN} ..." by what is publicly known: a code book, the law, a clinical range. Never look it up in
# the data: what is read off the data is published with the recipe. Delete the columns that are not to be used.
#
# missing = "refuse" stops at a missing cell; instead, write the number, word or date that it is to count as.
"""

_LINES: dict[str, tuple[str, ...]] = {
    "number": (
        f'range = ["{FILL_IN} the lowest possible number", "{FILL_IN} the highest"]  # clipped, scaled to [-1, 1]',
        '# unit = "mg/dl", na = ["k.A."], thousands = ".", currency = ["EUR"], censored = "limit"  # a line each',
    ),
    "yes or no": (
        'yes = ["yes", "y", "true", "1"]  # check these words',
        'no = ["no", "n", "false", "0"]',
    ),
    "date": (
        f'dates = ["{FILL_IN} the first possible day, as 2015-01-01", "{FILL_IN} the last"]  # scaled to [-1, 1]',
        '# format = "%d.%m.%Y"  # if dates are texts that are not written as 2015-01-31',
    ),
    "text": (
        f'categories = ["{FILL_IN} the words that can occur"]  # every other word counts as "other"',
        '# for yes or no, instead: yes = ["yes"] and no = ["no"]',
    ),
}

_REFUSED = 'missing = "refuse"'
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
    tables = {"target": record["target"]} if "target" in record else {}
    tables |= {f"columns.{toml_key(name)}": declared for name, declared in record.get("columns", {}).items()}
    for heading, table in tables.items():
        lines += ["", f"[{heading}]", *(f"{toml_key(key)} = {toml_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


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


def draft_text(
    words: Mapping[str, TypeWord],
    target: str | None = None,
    decimal: str = ".",
    delimiter: str | None = None,
    encoding: str | None = None,
    rules: Mapping[str, CellRules] | None = None,
) -> str:
    """Write the TOML of a first draft; ``words`` say what the type of each column of the table tells."""
    rules = rules or {}
    if target is not None and target not in words:
        raise InvalidInput("the target is not among the columns of the table; check its name")
    lines = [_HEAD, "intercept = true  # adds a column of ones", f"decimal = {toml_value(decimal)}"]
    if delimiter is not None:
        lines.append(f"delimiter = {toml_value(delimiter)}")
    if encoding is not None:
        lines.append(f"encoding = {toml_value(encoding)}  # check it: bytes alone do not tell")
    if target is not None:
        word = "yes or no" if words[target] == "text" else words[target]
        lines += ["", "[target]", f"column = {toml_value(target)}", *_LINES[word], *_written(rules, target), _REFUSED]
    for name, word in words.items():
        if name != target:
            lines += ["", f"[columns.{toml_key(name)}]", *_LINES[word], *_written(rules, name), _REFUSED]
    return "\n".join(lines) + "\n"


def _written(rules: Mapping[str, CellRules], name: str) -> list[str]:
    plain = rules[name].plain() if name in rules else {}
    return [f"{key} = {toml_value(value)}  # as most cells are written" for key, value in plain.items()]


def word_of_type(kind: pa.DataType) -> TypeWord:
    """Say what a column with this type holds."""
    if pa.types.is_boolean(kind):
        return "yes or no"
    words: dict[str, TypeWord] = {"": "number", "decimals": "number", "dates or times": "date"}
    return words.get(type_word(kind), "text")


def rules_of_texts(texts: pa.Array, decimal: str) -> CellRules:
    """Say how most of some texts write numbers: the fewest declarations by which more than half can be read."""
    texts = pc.cast(texts, pa.string())
    wanted = (len(texts) - int(read_numbers(texts, decimal).missing.sum())) / 2
    for rules in rules_to_try(decimal):
        cells = read_numbers(rules.cleaned(texts, decimal), decimal)
        if (~cells.unreadable & ~cells.missing).sum() > wanted:
            least = max(wanted / 5, 1)  # a tenth: no single person's cell decides
            marked = {one: pc.sum(pc.match_substring(texts, one)).as_py() or 0 for one in rules.currency}
            used = tuple(one for one, count in marked.items() if count > least)
            return replace(rules, currency=used)
    return CellRules()


def word_of_texts(texts: pa.Array, decimal: str) -> TypeWord:
    """Say what most of some texts are: a CSV file has no types. One person's cell cannot tip the answer alone."""
    texts = pc.cast(texts, pa.string())
    days = (read_days(texts, form) for form in (None, "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"))

    def mostly(cells: ReadCells) -> bool:
        return 2 * cells.unreadable.sum() < len(texts) - cells.missing.sum()

    if mostly(read_numbers(rules_of_texts(texts, decimal).cleaned(texts, decimal), decimal)):
        return "number"
    return "date" if any(map(mostly, days)) else "text"
