"""Losses on their way to a file: rows leave as soon as they are final, in order, in runs of one length.

A block whose people are all answered is final. People left open are answered after the walk, so from the first block
with such a person on nothing leaves until then: only the numbers that the audit keeps anyway wait for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.data import LossWriter
from perinstance.engines.protocol import TableSweep
from perinstance.folds.sweep import People

#: rows written at once; the file does not depend on how the table was cut into blocks
ROWS = 1 << 17


class LossStream:
    """What of one audit is written already, and what waits. ``who`` is the sweep that knows the ids."""

    def __init__(self, writer: LossWriter, who: TableSweep, has_ids: bool) -> None:
        self._writer, self._who = writer, who
        # ids that only reading tells are known, and known to be different, after the first pass
        self._flows = who.ids is not None or not has_ids
        self._waiting: list[dict[str, NDArray]] = []

    def add(self, people: People, epsilon: NDArray) -> None:
        """Take the next block; write what fills a run."""
        if people.open is not None and people.open.any():
            self._flows = False
            self._waiting.clear()  # ``finish`` gets these rows again
        if not self._flows:
            return
        numbers = {"epsilon": epsilon, "leverage": people.leverage, "residual": people.residual}
        self._waiting.append({**numbers, "kind": people.pairs.kinds})
        if sum(len(block["kind"]) for block in self._waiting) < ROWS:
            return
        columns = {name: np.concatenate([block[name] for block in self._waiting]) for name in self._waiting[0]}
        whole = len(columns["kind"]) // ROWS * ROWS
        for start in range(0, whole, ROWS):
            self._write({name: values[start : start + ROWS] for name, values in columns.items()})
        self._waiting = [{name: values[whole:].copy() for name, values in columns.items()}]

    def finish(self, columns: dict[str, NDArray]) -> None:
        """Write the rows that have not left yet, given everybody's columns."""
        self._waiting.clear()
        for start in range(self._writer.n_rows, len(columns["kind"]), ROWS):
            self._write({name: values[start : start + ROWS] for name, values in columns.items()})

    def _write(self, columns: dict[str, NDArray]) -> None:
        ids, first = self._who.ids, self._writer.n_rows
        run = slice(first, first + len(columns["kind"]))
        names = {"row": np.arange(run.start, run.stop)} if ids is None else {"id": ids[run]}
        self._writer.write({**names, **columns})
