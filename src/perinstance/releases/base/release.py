"""What the audit asks of a release. Nothing else of a release is known on the floors above."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from perinstance.folds.block import Block
from perinstance.folds.sweep import People, Sweep
from perinstance.pairs.interface.kinds import Method


@runtime_checkable
class Release(Protocol):
    """A randomized estimator that knows the pair of every person."""

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> Any:
        """Fit without noise, with everyone, by as many folds as it takes. The answer is confidential."""

    def people(self, fit: Any, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block, who are in the data (``inside``) or are not."""

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the few people that ``people`` left open; may fold again. Linear releases leave nobody open."""
