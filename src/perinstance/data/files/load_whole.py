"""Columns of a scanned file, read whole: labels, a target of two words, a table to publish from, a recipe's draft.

Releases that promise need all rows and must refuse none of them. Names and types are checked, and every row has the
file's columns. Beyond that nothing that a row holds is a reason to stop, because a refusal would tell about it: a cell
that is missing, or no number in a file without types (CSV), is NaN, and a file may have no rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from sklearn.base import clone

from perinstance.data.files.csv_text import DelimitedReader, guessed_marks
from perinstance.data.files.file_source import scan
from perinstance.data.files.reader import Reader, check_types
from perinstance.data.memory.columns import MISSING
from perinstance.data.recipes.arrow_cells import as_arrow, read_days, read_numbers
from perinstance.data.recipes.cell_rules import rules_to_try, texts_of
from perinstance.data.recipes.column_kinds import DeclaredDates, DeclaredYesNo
from perinstance.data.recipes.preparation import Preparation
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.recipes.recipe_file import draft_text, rules_of_texts, toml_value, word_of_texts, word_of_type
from perinstance.data.source import BLOCK_BYTES, Chosen, choose_columns, rows_per_block
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.folds.ids import is_text, refuse_duplicates
from perinstance.numerics.array_types import Floats

_LABEL_ROWS = 1 << 16  # of labels read at a time
_DRAFT_ROWS = 10_000  # of a CSV file, to tell numbers, dates and words apart


@dataclass(frozen=True, slots=True)
class Loaded:
    """Features and target in memory; NaN is a missing cell. Confidential."""

    names: tuple[str, ...]
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    ids: tuple[str, ...] | None = None  #: whose row each is, where that is a column


def load(
    scanned: Reader,
    target: Any,
    ids: Any = None,
    features: Any = None,
    recipe: Recipe | None = None,
    rows_per_person: int | None = None,
) -> Loaded:
    """Read the columns of a scanned file, by a recipe where there is one.

    An id that repeats is refused, unless a release declares how many rows of a person it uses: a promise that holds for
    a row would be false to people of several rows.
    """
    people = None if ids is None else tuple(scanned.read_ids(ids, repeats=True))
    if people is not None and rows_per_person is None:
        refuse_duplicates(pa.chunked_array([people], pa.large_string()), or_declare=True)
    labels, reader = scanned.labels, replace(scanned, lenient=True) if isinstance(scanned, DelimitedReader) else scanned
    if recipe is not None:
        if scanned.unnamed:
            raise InvalidTable("a recipe names columns, and a .npy file has no names; write a CSV or Parquet file")
        features = list(recipe.columns) if recipe.columns is not None else features
        target = target or recipe.target_column
    chosen = replace(choose_columns(labels, target, ids, features), ids=None)
    if not chosen.features or chosen.target is None:
        raise InvalidTable("the file needs a target, and at least one feature besides target and ids")
    if recipe is None:
        check_types(reader, chosen.numbers)
        recipe = Recipe(decimal=getattr(reader, "decimal", "."))
    if recipe.target is None:
        recipe = clone(recipe).set_params(target={"column": str(labels[chosen.target]), "as_is": True})
    names = [f"x{k}" if scanned.unnamed else str(labels[at]) for k, at in enumerate(chosen.features)]
    columns = tuple(str(name) for name in recipe.get_feature_names_out(names))
    X, y = [np.empty((0, len(columns)))], [np.empty(0)]
    for batch in reader.batches(chosen, rows_per_block(len(columns), BLOCK_BYTES), 1, raw=True):
        X.append(recipe.rows(pa.table(batch.columns[:-1], names=names), 0, refuse=False))
        y.append(recipe.target_numbers(batch.columns[-1], 0, refuse=False))
    return Loaded(columns, np.concatenate(X), np.concatenate(y), people)


def read_labels(scanned: Any, column: str) -> NDArray[np.str_]:
    """Read one column of a scanned file as texts, one per person; a missing label becomes ``"missing"``."""
    labels = getattr(scanned, "labels", None)
    if labels is None or isinstance(labels[0], int):
        raise InvalidTable("a .npy file has no column of labels; pass one label per person to to_html(groups=...)")
    if column not in labels:
        raise InvalidTable(
            f"the column to group by is not among the {len(labels)} columns of the table; check its name"
        )
    chosen = Chosen(features=(), target=None, ids=labels.index(column))
    codes: dict[str, int] = {}
    member = [np.empty(0, dtype=np.int64)]
    for batch in scanned.counted(chosen, _LABEL_ROWS):
        try:
            texts = pc.fill_null(pc.cast(batch.column(0), pa.large_string()), MISSING).dictionary_encode()
        except pa.ArrowException:
            raise InvalidTable("the column to group by holds neither text nor numbers; choose another") from None
        words = [name if name.strip() else MISSING for name in texts.dictionary.to_pylist()]  # a CSV file has no nulls
        own = np.array([codes.setdefault(name, len(codes)) for name in words], dtype=np.int64)
        member.append(own[texts.indices.to_numpy(zero_copy_only=False)])
    return np.array(list(codes), dtype=object)[np.concatenate(member)]


def two_classes(scanned: Reader, target: Any) -> Preparation | None:
    """Return what reads the target if it is two words; None when it is anything else, which is read as numbers.

    The classes of a classifier are published with it, so they are no secret; finding them takes a pass over the column.
    """
    labels, types = scanned.columns, scanned.types
    if scanned.unnamed or target not in labels:
        return None
    kind = pa.string() if types is None else types[labels.index(target)]
    if not is_text(kind.value_type if pa.types.is_dictionary(kind) else kind):
        return None
    words = sorted(set(read_labels(scanned, target).tolist()))
    if len(words) != 2 or MISSING in words or all(_is_number(word) for word in words):
        return None
    return None if words[0].lower() == words[1].lower() else yes_or_no(target, *words)


class WordOrMissing(Recipe):
    """A recipe whose target is missing, not refused, where it is none of the declared words."""

    def target_numbers(self, array: pa.Array, start: int, refuse: bool = True) -> Floats:
        """See ``Recipe``; nothing is refused."""
        return super().target_numbers(array, start, refuse=False)


def yes_or_no(target: Any, no: str, yes: str, others_missing: bool = False) -> Preparation:
    """Return what reads a target of these two words as 0 and 1; other words are refused, or missing."""
    declared = {"column": target, "no": [no], "yes": [yes]}
    return Preparation((Recipe(),), WordOrMissing(target=declared) if others_missing else Recipe(target=declared))


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def draft_of_file(
    path: str | os.PathLike[str],
    target: str | None = None,
    leave_out: tuple[str, ...] = (),
    decimal: str | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
) -> str:
    """Return the TOML of a recipe's first draft; of a CSV file, what most cells of a column are stands for its type.

    Marks that are not given are those by which most columns can be read: no single person's cell decides.
    """
    if decimal not in (None, ".", ","):
        raise InvalidInput("decimal must be '.' or ','")
    mark, written = guessed_marks(path)
    mark, encoding = delimiter or mark, encoding or written
    scanned = scan(path, delimiter=mark, encoding=encoding)
    labels = scanned.labels
    if scanned.unnamed:
        raise InvalidInput("a .npy file holds numbers without names; a recipe needs a table with names")
    if any(name not in labels for name in leave_out):
        raise InvalidInput("a column to leave out is not among the columns of the table; check its name")
    used = [at for at, name in enumerate(labels) if name not in leave_out]
    names = [labels[at] for at in used]
    if scanned.types is not None:
        words = [word_of_type(scanned.types[at]) for at in used]
        return draft_text(dict(zip(names, words, strict=True)), target, decimal or ".")
    first = next(scanned.batches(Chosen(tuple(used), None, None), _DRAFT_ROWS, 1, raw=True), None)
    texts = [pa.array([], pa.string()) for _ in used] if first is None else first.columns
    point = decimal or max(".,", key=lambda one: sum(word_of_texts(text, one) == "number" for text in texts))
    words = [word_of_texts(text, point) for text in texts]
    rules = {
        name: rules_of_texts(text, point)
        for name, text, word in zip(names, texts, words, strict=True)
        if word == "number"
    }
    stated = None if encoding == "utf-8" else encoding
    return draft_text(dict(zip(names, words, strict=True)), target, point, mark, stated, rules)


def recipe_problems(scanned: Reader, recipe: Recipe) -> list[tuple[str, str]]:
    """Read a whole file by a recipe, and return all that it cannot read: each column, and a sentence without a cell.

    It says how many cells there are in the whole file, the row of the first as the file counts, and what to declare.
    """
    if scanned.unnamed:
        raise InvalidTable("a recipe names columns, and a .npy file has no names; write a CSV or Parquet file")
    kinds = recipe.declared_kinds()
    absent = [name for name in kinds if name not in scanned.columns]
    if absent:
        raise InvalidTable(f"the table lacks {', '.join(absent)}, which the recipe names; check the names")
    reader = replace(scanned, lenient=True) if isinstance(scanned, DelimitedReader) else scanned
    chosen = Chosen(tuple(scanned.columns.index(name) for name in kinds), None, None)
    counts: dict[tuple[str, bool], list[int]] = {}
    readable: dict[str, NDArray[np.int64]] = {}
    start = scanned.first_row
    for batch in reader.batches(chosen, rows_per_block(len(kinds), BLOCK_BYTES), 1, raw=True):
        for (name, kind), column in zip(kinds.items(), batch.columns, strict=True):
            array = kind.rules.cleaned(as_arrow(column), recipe.decimal, texts_of("na", recipe.na))
            cells = kind.read(array, recipe.decimal)
            for lost, missing in ((cells.unreadable, False), (cells.missing & (kind.missing is None), True)):
                if lost.any():
                    found = counts.setdefault((name, missing), [0, start + int(lost.argmax())])
                    found[0] += int(lost.sum())
            if cells.unreadable.any():
                left = array.filter(pa.array(cells.unreadable))
                readable[name] = readable.get(name, 0) + _readable_by(kind, left, recipe.decimal)
        start += batch.num_rows
    problems = []
    for (name, missing), (count, row) in counts.items():
        advice = _advice(kinds[name], missing, count, readable.get(name), recipe.decimal)
        told = f"{count:,} cell{'s'[: count != 1]} {'missing' if missing else 'cannot be read'}"
        problems.append((name, f"{name!r}: {told}, row {row} first; {advice}"))
    return problems


_FORMS = ("%Y-%m-%d", "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%Y%m%d", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M")


def _readable_by(kind: Any, cells: pa.Array, decimal: str) -> NDArray[np.int64]:
    """Count which of some unreadable cells each other declaration would read."""
    if isinstance(kind, DeclaredDates):
        return np.array([(~read_days(cells, form).unreadable).sum() for form in _FORMS], dtype=np.int64)
    if isinstance(kind, DeclaredYesNo) or not is_text(cells.type):
        return np.zeros(1, dtype=np.int64)
    tried = [read_numbers(way.cleaned(cells, decimal), decimal) for way in rules_to_try(decimal)]
    tried.append(read_numbers(cells, "," if decimal == "." else "."))
    return np.array([(~one.unreadable & ~one.missing).sum() for one in tried], dtype=np.int64)


def _advice(kind: Any, missing: bool, count: int, readable: Any, decimal: str) -> str:
    """Say what to declare, by what most of the cells would be read by."""
    if missing:
        return "declare missing = ..., the answer for them"
    best = 0 if readable is None else int(np.argmax(readable))
    most = 0 if readable is None else int(readable[best])
    read = f" reads {most:,} of them"
    rest = "" if most == count else "; list words that mean missing in na = [...]"
    if isinstance(kind, DeclaredDates):
        return f'format = "{_FORMS[best]}"{read}{rest}' if most else "list words that mean missing in na = [...]"
    if isinstance(kind, DeclaredYesNo):
        return "list their words in yes, no or na"
    if not most:
        return "list words that mean missing in na = [...], or declare the column as categories"
    tried = rules_to_try(decimal)
    if best == len(tried):
        return f"another decimal mark{read}{rest}"
    plain = tried[best].plain() | ({"currency": ["..."]} if tried[best].currency else {})
    declared = ", ".join(f"{key} = {toml_value(value)}" for key, value in plain.items())
    return f"{declared}{read}{rest}"
