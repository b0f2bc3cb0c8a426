"""What the floors above ask of a release. Nothing else of it is known there."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from perinstance.errors import RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import People, Sweep
from perinstance.pairs.interface.kinds import Method
from perinstance.releases.base.mechanism import Mechanism


@runtime_checkable
class Release(Protocol):
    """A randomized estimator that knows the pair of every person."""

    def mechanism(self) -> Mechanism:
        """Describe the release in public terms."""

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> Any:
        """Fit without noise, with everyone, by as many folds as it takes. The answer is confidential."""

    def people(self, fit: Any, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block, who are in the data (``inside``) or are not."""

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the few people that ``people`` left open; may fold again. Linear releases leave nobody open."""


def is_release(release: Any) -> bool:
    """Tell whether something is a release; its class has the methods too, and is none."""
    return isinstance(release, Release) and not isinstance(release, type)


def instead_of_a_release(release: Any) -> str:
    """Say what was got where a release is asked for, and what to do where it is the class of one."""
    if isinstance(release, type):
        return f"the class {release.__name__}; make one: {release.__name__}()"
    return type(release).__name__


def mechanism_of(release: Any) -> Mechanism:
    """Return the public description of a release; what is not a release is refused."""
    if not is_release(release):
        raise RefusedModel(
            f"a release is analysed (PosteriorSample, OutputPerturbation, ...), got {instead_of_a_release(release)}"
        )
    described: Mechanism = release.mechanism()
    return described
