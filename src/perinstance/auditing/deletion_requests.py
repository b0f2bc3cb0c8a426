"""Somebody asks to be deleted: whose row can be forgotten while the published output stays as it is.

If what was published is (epsilon, delta)-pDP for a set of people, the output of a training without them is as likely,
up to (epsilon, delta), as the one that is out there: leaving it in place is an (epsilon, delta) certificate that
their rows were deleted. For several people at once the loss is that of the group, exactly (``analysis.group``); it is
neither the sum nor the largest of the single losses, and need not grow with the group. Confidential, all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perinstance.auditing.map_people import walk_people
from perinstance.auditing.raw_tables import read_again, refuse_other_people
from perinstance.auditing.refit_check import WithoutRows, picked_rows
from perinstance.checked_numbers import is_whole, non_negative
from perinstance.engines import Local
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.models.linear.ridge import LinearFit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import ESTIMATE
from perinstance.numerics.rounding import ROUNDS_UP
from perinstance.pairs import GaussianShift, LaplaceShift, Pairs
from perinstance.pairs.kinds import KINDS, Kind, is_bound, weakest
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.noisy_sums import MovesTogether

if TYPE_CHECKING:
    import pyarrow as pa

    from perinstance.auditing.result import Audit
    from perinstance.data.source import Flavour

FEW = 10  #: people whose every subset is looked at: 1,023 groups


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Deletions:
    """Of each person, alone: whether their row can be forgotten without touching what was published. Confidential."""

    epsilon: float  #: the certificate that is asked for
    delta: float
    possible: NDArray[np.bool_]
    losses: Floats
    codes: NDArray[np.uint8]  #: 0 exact, 1 upper, 2 estimate; an estimate certifies nothing
    ids: pa.ChunkedArray | None
    flavour: Flavour

    def __len__(self) -> int:
        return len(self.possible)

    def __repr__(self) -> str:
        return f"Deletions({len(self):,} people, confidential)"  # counts would tell: a repr ends up in logs

    @property
    def count(self) -> int:
        """How many people could be forgotten, each by themselves. Not all of them at once."""
        return int(self.possible.sum())

    def to_frame(self) -> Any:
        """Return id (if any), possible, epsilon and kind, one row per person. Confidential."""
        columns: dict[str, Any] = {} if self.ids is None else {"id": self.ids}
        columns |= {"possible": self.possible, "epsilon": self.losses, "kind": np.array(KINDS)[self.codes]}
        return self.flavour.frame(columns)


@dataclass(frozen=True, slots=True)
class DeletedTogether(ShownAsTable):
    """Several requests at once, by positions in the table. Confidential."""

    people: tuple[int, ...]  #: who asked
    epsilon: float  #: the certificate that is asked for
    delta: float
    loss: float  #: of all of them at once
    possible: bool  #: whether all of them can be forgotten while the output stays
    order: tuple[int, ...]  #: greedily, from whom the group loses least; every beginning of it keeps the certificate
    order_losses: tuple[float, ...]  #: of the first one, the first two, ... together
    largest: tuple[int, ...] | None  #: a largest set that keeps the certificate; None beyond ten people
    kind: Kind  #: of ``loss`` and the others: the weakest

    @property
    def rest(self) -> tuple[int, ...]:
        """Those for whom the output has to be published again, after the best that is known."""
        kept = self.order if self.largest is None else self.largest
        return tuple(at for at in self.people if at not in kept)

    def __repr__(self) -> str:
        return f"DeletedTogether({len(self.people)} people, confidential)"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Republished(ShownAsTable):
    """What publishing again without some people costs those who stay: both outputs are out there. Confidential."""

    deleted: tuple[int, ...]
    positions: NDArray[np.int64]  #: of those who stay
    before: Floats  #: their losses so far
    after: Floats  #: with the second output too, composed exactly
    delta: float
    kind: Kind

    def __repr__(self) -> str:
        return f"Republished({len(self.before):,} people, confidential)"


def deletions(audit: Audit, epsilon: float) -> Deletions:
    """Tell of each person, alone, whether the output may stay: their loss is proved to be at most epsilon."""
    epsilon = non_negative("epsilon", epsilon)
    _inside(audit)
    codes = audit.pairs.codes
    possible = (audit.losses <= epsilon) & (codes != ESTIMATE)
    return Deletions(epsilon, audit.delta, possible, audit.losses, codes, audit.ids, audit.flavour)


def deletions_together(
    audit: Audit, people: Sequence[Any], epsilon: float, X: Any, y: Any = None, **columns: Any
) -> DeletedTogether:
    """Answer for several requests at once: all of them, a greedy order, and for a few people the largest set."""
    epsilon = non_negative("epsilon", epsilon)
    _inside(audit)
    asked = positions_of(audit, people)
    table = read_again(audit, X, y, **columns)
    with closing(Local(threads=1).sweep(table)) as sweep:
        refuse_other_people(audit, table, sweep)
        group = _group_pairs(audit, asked, sweep)
        known: dict[frozenset[int], tuple[float, Kind]] = {}

        def loss(some: Sequence[int]) -> float:
            key = frozenset(some)
            if key not in known:
                pairs = audit.pairs[next(iter(key))] if len(key) == 1 else group(sorted(key))
                known[key] = float(pairs.epsilon(audit.delta)[0]), pairs.kind
            found, kind = known[key]
            return found if is_bound(kind) else np.inf

        order, losses = _greedy(asked, epsilon, loss)
        largest = _largest(asked, epsilon, loss) if len(asked) <= FEW else None
        together = loss(asked)
    kind = weakest([kind for _, kind in known.values()])
    return DeletedTogether(asked, epsilon, audit.delta, together, together <= epsilon, order, losses, largest, kind)


def republished(audit: Audit, people: Sequence[Any], X: Any, y: Any = None, **columns: Any) -> Republished:
    """Audit a second publication without these people, and compose it with the first for everybody who stays."""
    _inside(audit)
    deleted = positions_of(audit, people)
    stay = np.delete(np.arange(len(audit)), deleted)
    if not len(stay):
        raise InvalidInput("nobody would be left to publish about; take the output down instead")
    table = read_again(audit, X, y, **columns)
    with closing(Local(threads=1).sweep(table)) as sweep:
        refuse_other_people(audit, table, sweep)
        rest: Any = WithoutRows(sweep, deleted)
        fit = audit.release.confidential_fit(rest, "auto")
        again = walk_people(audit.release, fit, rest, rest, True, audit.delta)
    if len(again.epsilon) != len(stay):
        raise InvalidInput(f"the table has other rows than the {len(audit)} people audited; pass the audited table")
    both = audit.pairs[stay] + again.pairs
    return Republished(deleted, stay, audit.losses[stay], both.epsilon(audit.delta), audit.delta, both.kind)


def positions_of(audit: Audit, people: Sequence[Any]) -> tuple[int, ...]:
    """Return positions; people are named by position, or by their id as written where the table has ids."""
    if isinstance(people, str) or not isinstance(people, Sequence | np.ndarray) or not len(people):
        raise InvalidInput("people must be a list of positions, or of ids where the audited table has them; got none")
    names: dict[str, int] = {}
    if audit.ids is not None and any(isinstance(one, str) for one in people):
        names = {name: at for at, name in enumerate(audit.ids.to_pylist())}
    found = []
    for k, one in enumerate(people):
        at = names.get(one, -1) if isinstance(one, str) else int(one) if is_whole(one) else -1
        if not 0 <= at < len(audit):
            raise InvalidInput(f"entry {k} of people names nobody of the audited table; pass positions from 0, or ids")
        found.append(at)
    if len(set(found)) < len(found):
        raise InvalidInput("people names somebody twice")
    return tuple(found)


def _inside(audit: Audit) -> None:
    if not audit.inside:
        raise InvalidInput("only people of the table can be deleted from it; these are outsiders")


def _group_pairs(audit: Audit, asked: tuple[int, ...], sweep: Any) -> Callable[[list[int]], Pairs]:
    """Return what gives the one pair of some of these people."""
    from perinstance.analysis import group_pairs

    mechanism, fit = audit.release.mechanism(), audit.fit
    release: Any = audit.release
    if isinstance(release, MovesTogether):
        theirs, _ = picked_rows(sweep, list(asked), len(audit))
        return lambda some: release.moved_together(fit, theirs[[asked.index(position) for position in some]])
    if mechanism.own_row and type(audit.pairs) in (GaussianShift, LaplaceShift):
        return lambda some: _added(audit.pairs[np.array(some)])
    if not isinstance(fit, LinearFit) or mechanism.family == "adaptive":
        raise RefusedModel(
            f"the loss of several people at once is known for ridge regression and for releases whose loss follows "
            f"from a person's own row, not for this {mechanism.name}; ask for one person at a time"
        )
    rows, targets = picked_rows(sweep, list(asked), len(audit))
    at = {position: k for k, position in enumerate(asked)}

    def pairs(some: list[int]) -> Pairs:
        chosen = [at[position] for position in some]
        X, y = rows[chosen], targets[chosen]
        try:
            found = group_pairs(audit.release, fit, X, y)
            if found.kind == "exact":
                return found
        except NumericalTrouble:
            pass
        return group_pairs(audit.release, fit, X, y, sweep=sweep)  # every digit, at the price of a pass

    return pairs


def _added(pairs: Any) -> Pairs:
    """Bound a group whose single distances hold in every table: they add up (triangle inequality)."""
    distance = float(np.sum(pairs.to_columns()["distance"])) * ROUNDS_UP
    return type(pairs)([distance], weakest("upper", pairs.kind))


def _greedy(
    asked: tuple[int, ...], epsilon: float, loss: Callable[[Sequence[int]], float]
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Take whoever leaves the group's loss smallest, while it keeps the certificate."""
    order: list[int] = []
    losses: list[float] = []
    left = list(asked)
    while left:
        found = [loss([*order, at]) for at in left]
        k = int(np.argmin(found))
        if not found[k] <= epsilon:
            break
        order.append(left.pop(k))
        losses.append(found[k])
    return tuple(order), tuple(losses)


def _largest(asked: tuple[int, ...], epsilon: float, loss: Callable[[Sequence[int]], float]) -> tuple[int, ...]:
    """Look at every subset, the largest first; among equals the one that loses least."""
    for size in range(len(asked), 0, -1):
        best = min(combinations(asked, size), key=loss)
        if loss(best) <= epsilon:
            return best
    return ()
