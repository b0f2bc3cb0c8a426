"""Rows of two tables that belong together: matched by their pandas index, never by position alone."""

from __future__ import annotations

from typing import Any

from perinstance.errors import InvalidTable


def in_order_of(X: Any, y: Any, what: str = "y") -> Any:
    """Return ``y`` in the order of the rows of ``X``.

    Only where both have a pandas index and the two differ there is something to do: the same labels in another order
    are matched, anything else is refused.
    """
    ours: Any = getattr(X, "index", None)
    theirs: Any = getattr(y, "index", None)
    if not (hasattr(ours, "equals") and hasattr(theirs, "equals")) or ours.equals(theirs):
        return y
    if len(ours) == len(theirs) and ours.is_unique and theirs.is_unique and ours.isin(theirs).all():
        return y.reindex(ours)
    raise InvalidTable(
        f"X and {what} have different pandas indexes, so it is not clear which rows belong together; "
        f"align them (X.join, {what}.reindex(X.index)), or pass {what}.to_numpy() to take them by position"
    )
