"""Classes of a target that are written as words: their codes are those that ``fit`` gives them, the order of words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data.checks.cells import refuse_null
from perinstance.errors import InvalidTable

_MOST = 1000  # classes


class DeclaredWords(tuple[str, ...]):
    """Classes that a release declared: whatever else stands in a table is missing, as it is when the release is made.

    >>> coded_target(["yes", "maybe", None, "no"], DeclaredWords(("no", "yes"))).codes.tolist()
    [1.0, nan, nan, 0.0]
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CodedTarget:
    """Positions of words among the classes of the table; see ``Vector``."""

    codes: NDArray[np.float64]
    words: tuple[str, ...]

    def rows(self, start: int, stop: int) -> NDArray:
        """Return some rows as float64."""
        return self.codes[start:stop]

    def __len__(self) -> int:
        return len(self.codes)


def coded_target(values: Any, words: tuple[str, ...] | None, label: str = "the target") -> CodedTarget:
    """Code a column of words; ``words`` are the classes of the table that was fitted, None when this is it."""
    array = np.asarray(values, dtype=object)
    if isinstance(words, DeclaredWords):
        code = {word: float(at) for at, word in enumerate(words)}
        cells = (code.get(one, np.nan) if isinstance(one, str) else np.nan for one in array)
        return CodedTarget(np.fromiter(cells, np.float64, len(array)), words)
    absent = np.array([one is None or one != one or str(one) in ("<NA>", "NaT") for one in array], dtype=bool)
    if absent.any():
        refuse_null(label, int(absent.argmax()))
    if not all(isinstance(one, str) for one in array):
        raise InvalidTable(f"{label} mixes words and numbers; write all its classes alike")
    found, codes = np.unique(array.astype(str), return_inverse=True)
    if words is not None:
        unknown = ~np.isin(found, words)
        if unknown.any():
            raise InvalidTable(f"{label} has a class that the table does not have; ask about classes of the table")
        codes = np.searchsorted(words, found)[codes]
    elif len(found) > _MOST:
        raise InvalidTable(f"{label} has {len(found)} different words; is it a name rather than a class?")
    return CodedTarget(codes.astype(np.float64), tuple(found.tolist()) if words is None else words)


def refuse_numbers(words: tuple[str, ...] | None, label: str = "the target") -> None:
    """Refuse a target of numbers, by its type, where classes were declared in words: nobody would have one of them."""
    if isinstance(words, DeclaredWords):
        raise InvalidTable(
            f"{label} holds numbers, and the release declares its classes in words ({' and '.join(words)}); declare "
            "numbers, or pass the target in words"
        )
