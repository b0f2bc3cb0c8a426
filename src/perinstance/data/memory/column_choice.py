"""Which columns of a table are the target, the ids and the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perinstance.errors import InvalidTable


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which columns are what, by number."""

    features: tuple[int, ...]
    target: int | None
    ids: int | None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The features, then the target: what is read as numbers."""
        return self.features if self.target is None else (*self.features, self.target)

    @property
    def wanted(self) -> tuple[int, ...]:
        """All chosen columns, as a batch of a file has them: the ids are last."""
        return self.numbers if self.ids is None else (*self.numbers, self.ids)


def choose_columns(labels: Sequence[Any], target: Any, ids: Any, features: Any = None) -> Chosen:
    """Find target, ids and features among the columns of a table.

    >>> choose_columns(["person", "age", "bmi"], target="bmi", ids="person")
    Chosen(features=(1,), target=2, ids=0)
    """
    where = {label: number for number, label in enumerate(labels)}

    def find(label: Any, what: str) -> int:
        try:
            return where[label]
        except (KeyError, TypeError):
            if isinstance(label, (list, tuple, set)):
                got = f"a {type(label).__name__} of {len(label)}"
                raise InvalidTable(f"{what} must be one name, got {got}; pass the name itself") from None
            raise InvalidTable(f"{what} is not among the {len(labels)} columns of the table; check its name") from None

    at_target = None if target is None else find(target, "the target column")
    at_ids = None if ids is None else find(ids, "the column of ids")
    if at_target is not None and at_target == at_ids:
        raise InvalidTable("the target and the ids are the same column; name two different ones")
    if features is None:
        used = [number for number in range(len(labels)) if number not in (at_target, at_ids)]
    else:
        if isinstance(features, str):
            raise InvalidTable("features= is a list of names, got one name; put it in brackets")
        used = [find(label, f"feature {k} of features=") for k, label in enumerate(features)]
        if len(set(used)) < len(used) or at_target in used or at_ids in used:
            raise InvalidTable("features= names a column twice, or the target, or the ids; name each feature once")
    return Chosen(tuple(used), at_target, at_ids)
