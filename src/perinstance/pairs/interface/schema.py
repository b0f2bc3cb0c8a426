"""What a file must say besides the columns: which pair wrote them, and in which version of its format."""

from __future__ import annotations

import re
from dataclasses import dataclass

from perinstance.errors import InvalidInput

_ONE = re.compile(r"([a-z_]+)/([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class PairSchema:
    """The name of a pair and the version of its columns; of a composition also those of its parts.

    As text it is ``"shift/1"`` or ``"composed/1(posterior/1,laplace/1)"``: one line of a file's metadata.

    Examples
    --------
    >>> from perinstance.pairs import Laplace, Posterior
    >>> str((Posterior([0.1], [1.0]) + Laplace([0.5])).schema())
    'composed/1(posterior/1,laplace/1)'
    """

    name: str
    version: int
    parts: tuple[PairSchema, ...] = ()

    def __str__(self) -> str:
        parts = ",".join(str(part) for part in self.parts)
        return f"{self.name}/{self.version}" + (f"({parts})" if parts else "")

    @classmethod
    def parse(cls, text: str) -> PairSchema:
        """Read what ``str`` wrote."""
        head, bracket, rest = text.partition("(")
        if not bracket:
            return cls(*_one(head, text))
        if not rest.endswith(")"):
            raise _unreadable(text)
        return cls(*_one(head, text), tuple(cls(*_one(part, text)) for part in rest[:-1].split(",")))


def _one(part: str, text: str) -> tuple[str, int]:
    found = _ONE.fullmatch(part)
    if found is None:
        raise _unreadable(text)
    return found[1], int(found[2])


def _unreadable(text: str) -> InvalidInput:
    return InvalidInput(
        f"schema must read like 'shift/1' or 'composed/1(posterior/1,laplace/1)', got {text[:80]!r}; "
        "pass the text that str(pairs.schema()) gave"
    )
