"""Whether a table that is read once more has the people who were audited, in their order.

What is asked about a person after an audit is read from their row by its position. A table that was sorted meanwhile
would answer for somebody else, so it is refused by what both sides carry: ids, or else the index of a pandas table.
Tables with neither are compared by their length alone.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from perinstance.data.source import Source
from perinstance.engines.protocol import TableSweep
from perinstance.errors import InvalidInput


def refuse_other_people(audit: Any, table: Source, sweep: TableSweep) -> None:
    """Refuse a table whose ids (or index) are not those of the audit; ``sweep`` goes over the table."""
    if audit.ids is not None and table.has_ids:
        if sweep.ids is None:  # they are known after a pass
            sweep.fold(lambda block: len(block))
        same = sweep.ids is not None and _texts(audit.ids).equals(_texts(sweep.ids))
    else:
        before, now = audit.flavour.index, table.flavour.index
        same = before is None or now is None or before.equals(now)
    if not same:
        raise InvalidInput(
            "the table has other people than the audit, or the same ones in another order; pass the table that was "
            "audited, with its rows in the same order"
        )


def _texts(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    return ids.cast(pa.large_string())
