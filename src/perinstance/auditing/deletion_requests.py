"""Somebody asks to be deleted: whose row can be forgotten while the published output stays as it is.

If what was published is (epsilon, delta)-pDP for a set of people, the output of a training without them is as likely,
up to (epsilon, delta), as the one that is out there: leaving it in place is an (epsilon, delta) certificate that
their rows were deleted. For several people at once the loss is that of the group, exactly (``analysis.group``); it is
neither the sum nor the largest of the single losses, and need not grow with the group. Confidential, all of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perinstance.auditing.map_people import WithoutPeople, walk_people
from perinstance.auditing.rows_again import audited_table, picked_people
from perinstance.checked_numbers import is_whole, non_negative
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.models.linear.ridge import LinearFit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import ESTIMATE
from perinstance.numerics.rounding import ROUNDS_UP
from perinstance.pairs import GaussianShift, LaplaceShift, Pairs
from perinstance.pairs.kinds import KINDS, Kind, is_bound, weakest
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.log_ratios import MovesTogether

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
    _refuse_outsiders(audit)
    codes = audit.pairs.codes
    possible = (audit.losses <= epsilon) & (codes != ESTIMATE)
    return Deletions(epsilon, audit.delta, possible, audit.losses, codes, audit.ids, audit.flavour)


def deletions_together(
    audit: Audit, people: Sequence[Any], epsilon: float, X: Any, y: Any = None, **columns: Any
) -> DeletedTogether:
    """Answer for several requests at once: all of them, a greedy order, and for a few people the largest set."""
    epsilon = non_negative("epsilon", epsilon)
    _refuse_outsiders(audit)
    asked = positions_of(audit, people)
    with audited_table(audit, X, y, columns) as sweep:
        group = _group_pairs(audit, asked, sweep)
        known: dict[frozenset[int], tuple[float, Kind]] = {}

        def loss(some: Sequence[int]) -> float:
            key = frozenset(some)
            if key not in known:
                pairs = audit.pairs[some[0]] if len(key) == 1 else group(sorted(key))
                known[key] = float(pairs.epsilon(audit.delta)[0]), pairs.kind
            found, kind = known[key]
            return found if is_bound(kind) else np.inf

        order: list[int] = []  # whoever leaves the group's loss smallest comes next
        losses: list[float] = []
        while left := [at for at in asked if at not in order]:
            best = min(left, key=lambda at: loss([*order, at]))
            if not loss([*order, best]) <= epsilon:
                break
            order.append(best)
            losses.append(loss(order))
        largest: tuple[int, ...] | None = None
        if len(asked) <= FEW:  # every subset, the largest first; among equals the one that loses least
            best_of_size = (min(combinations(asked, k), key=loss) for k in range(len(asked), 0, -1))
            largest = next((some for some in best_of_size if loss(some) <= epsilon), ())
        together = loss(asked)
    kind = weakest([kind for _, kind in known.values()])
    possible = together <= epsilon
    return DeletedTogether(asked, epsilon, audit.delta, together, possible, tuple(order), tuple(losses), largest, kind)


def republished(audit: Audit, people: Sequence[Any], X: Any, y: Any = None, **columns: Any) -> Republished:
    """Audit a second publication without these people, and compose it with the first for everybody who stays."""
    _refuse_outsiders(audit)
    deleted = positions_of(audit, people)
    stay = np.delete(np.arange(len(audit)), deleted)
    if not len(stay):
        raise InvalidInput("nobody would be left to publish about; take the output down instead")
    with audited_table(audit, X, y, columns) as sweep:
        rest: Any = WithoutPeople(sweep, deleted)
        fit = audit.release.confidential_fit(rest, "auto")
        again = walk_people(audit.release, fit, rest, rest, True, audit.delta)
    if len(again.epsilon) != len(stay):
        raise InvalidInput(f"the table has other rows than the {len(audit)} people audited; pass the audited table")
    both = audit.pairs[stay] + again.pairs
    return Republished(deleted, stay, audit.losses[stay], both.epsilon(audit.delta), audit.delta, both.kind)


def positions_of(audit: Audit, people: Any) -> tuple[int, ...]:
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


def _refuse_outsiders(audit: Audit) -> None:
    if not audit.inside:
        raise InvalidInput("only people of the table can be deleted from it; these are outsiders")


def _group_pairs(audit: Audit, asked: tuple[int, ...], sweep: Any) -> Callable[[list[int]], Pairs]:
    """Return what gives the one pair of some of these people."""
    from perinstance.analysis import group_pairs

    mechanism, fit, pairs = audit.release.mechanism(), audit.fit, audit.pairs
    release: Any = audit.release
    together = isinstance(release, MovesTogether)
    if not together and mechanism.own_row and isinstance(pairs, GaussianShift | LaplaceShift):
        # single distances that hold in every table add up (triangle inequality)
        distances = pairs.to_columns()["distance"]
        return lambda some: type(pairs)([float(distances[some].sum()) * ROUNDS_UP], weakest("upper", pairs[some].kind))
    if not together and (not isinstance(fit, LinearFit) or mechanism.family == "adaptive"):
        raise RefusedModel(
            f"the loss of several people at once is known for ridge regression and for releases whose loss follows "
            f"from a person's own row, not for this {mechanism.name}; ask for one person at a time"
        )
    people = picked_people(sweep, asked, len(audit))

    def of_group(some: list[int]) -> Pairs:
        group = people.people_picked(np.array([asked.index(position) for position in some]))
        X, y = group.X, group.y
        if together:
            return release.moved_together(fit, X)
        with contextlib.suppress(NumericalTrouble):
            found = group_pairs(release, fit, X, y)
            if found.kind == "exact":
                return found
        return group_pairs(release, fit, X, y, sweep=sweep)  # every digit, at the price of a pass

    return of_group
