"""What needs the audited table once more. Confidential, all of it.

Rows beyond declared bounds, rare features, a few people by refitting, and what one published output told of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.auditing.map_people import WithoutPeople, answer_open, together
from perinstance.auditing.raw_tables import outsiders_of, read_again, refuse_other_names, refuse_other_people
from perinstance.engines import Local, LocalSweep
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.models.linear.ridge import DualFit, LinearFit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import ESTIMATE, EXACT
from perinstance.numerics.rounding import REALISED_ERROR
from perinstance.pairs.kinds import KINDS, Kind, weakest, weakest_of_codes
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.log_ratios import HasDensity, LogRatios
from perinstance.releases.base.release import people_with_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from perinstance.auditing.result import Audit
    from perinstance.data.source import Flavour
    from perinstance.engines.protocol import TableSweep

MOST_FEATURES = 2000  # of a table whose rare features are named: their second moments are one matrix
NAMED = 3  # features that are named for each person
LEAST_SHARE = 0.05  # of the leverage, of a feature that is named


@contextmanager
def audited_table(audit: Audit, X: Any, y: Any, columns: dict[str, Any]) -> Iterator[LocalSweep]:
    """Read the audited table in one thread; one with other people, or the same in another order, is refused."""
    table = read_again(audit, X, y, **columns)
    with Local(threads=1).sweep(table) as sweep:
        if audit.inside:
            refuse_other_people(audit, table, sweep)
        yield sweep


def picked_people(sweep: TableSweep, positions: Sequence[int], n: int) -> Block:
    """Pick some people's rows out of the blocks, in the order asked for; the table must have ``n`` people."""
    found: dict[int, Block] = {}
    first = 0
    for block in sweep.map(lambda block: block):
        for at in positions:
            if first <= at < first + block.n_people:
                found[at] = block.people_picked(np.array([at - first]))
        first += block.n_people
    if first != n:
        raise InvalidInput(f"the table has {first} people and the audit {n}; pass the table that was audited")
    return together([found[at] for at in positions])


@dataclass(frozen=True, slots=True)
class Recheck(ShownAsTable):
    """One person, twice. Confidential."""

    name: str  #: which person: "most exposed", "median", "least exposed"
    position: int
    epsilon: float  #: by the formula
    refitted: float  #: by refitting without the person
    kind: Kind  #: the weaker of the two

    @property
    def difference(self) -> float:
        """The relative difference of the two."""
        if self.epsilon == self.refitted:
            return 0.0
        return abs(self.epsilon - self.refitted) / max(abs(self.epsilon), abs(self.refitted))


def recheck(audit: Audit, X: Any, y: Any = None, **columns: Any) -> tuple[Recheck, ...]:
    """Refit without the most exposed, the median and the least exposed person, and ask what adding them would cost.

    An audit goes from one fit with everyone to what holds without the person; this fits without them and adds them, as
    somebody outside the data. The two share the sweep and the pairs, but not the downdate.
    """
    if not audit.inside:
        raise InvalidInput("only people of the table can be left out of it; these are outsiders")
    order = np.argsort(audit.losses, kind="stable")
    finite = order[np.isfinite(audit.losses[order])].tolist() if len(audit) > 1 else []
    places = (("most exposed", -1), ("median", len(finite) // 2), ("least exposed", 0)) if finite else ()
    chosen: dict[int, str] = {}  # in a tiny table they may be the same person
    for name, place in places:
        chosen.setdefault(finite[place], name)
    answers: list[Recheck] = []
    if not chosen:
        return ()
    with audited_table(audit, X, y, columns) as sweep:
        asked = picked_people(sweep, list(chosen), len(audit))
        for k, (at, name) in enumerate(chosen.items()):
            rest, person = WithoutPeople(sweep, [at]), asked.people_picked(np.array([k]))
            fit = audit.release.confidential_fit(rest, "exact")
            people = people_with_rows(audit.release, fit, person, inside=False)
            if people.open is not None and people.open.any():
                people = answer_open(audit.release, fit, rest, person, inside=False)
            refitted = float(people.pairs.epsilon(audit.delta)[0])
            kind = weakest(audit.pairs[at].kind, people.pairs.kind)
            answers.append(Recheck(name, at, float(audit.losses[at]), refitted, kind))
    return tuple(answers)


@dataclass(frozen=True, slots=True)
class RowsBeyond(ShownAsTable):
    """How many people lie beyond declared bounds. Confidential."""

    people: int  #: of the table
    features: int  #: of whom a row is longer than its bound
    targets: int  #: of whom a target is larger than its bound
    either: int

    def __add__(self, other: RowsBeyond) -> RowsBeyond:
        return RowsBeyond(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __repr__(self) -> str:
        return "RowsBeyond(confidential)"  # a repr ends up in logs


def rows_beyond(audit: Audit, x_bound: ArrayLike, y_bound: float, X: Any, y: Any = None, **columns: Any) -> RowsBeyond:
    """Count the people of a table who break ``||x|| <= x_bound`` (a box: each column its own) or ``|y| <= y_bound``."""
    bound = np.asarray(x_bound, dtype=np.float64)

    def count(block: Block) -> RowsBeyond:
        rows = np.asarray(block.X, dtype=np.float64)
        far = (np.abs(rows) > bound).any(axis=1) if bound.ndim else np.linalg.norm(rows, axis=1) > float(bound)
        high = np.abs(np.asarray(block.y, dtype=np.float64)) > y_bound
        if block.starts is not None:
            far, high = (np.logical_or.reduceat(part, block.starts[:-1]) for part in (far, high))
        return RowsBeyond(block.n_people, int(far.sum()), int(high.sum()), int((far | high).sum()))

    with audited_table(audit, X, y, columns) as sweep:
        return sweep.fold(count)


@dataclass(frozen=True, slots=True)
class RareFeatures(ShownAsTable):
    """The features that make one person's row rare. Confidential."""

    position: int
    names: tuple[str, ...]
    shares: tuple[float, ...]  #: of the leverage, that would go if the feature were left out
    id: str | None = None  #: whose row it is, where people have ids


def rare_features(audit: Audit, count: int, X: Any, y: Any = None, **columns: Any) -> tuple[RareFeatures, ...]:
    """Name what is rare about the rows of the ``count`` most exposed people.

    Without column j the leverage ``x'G^-1 x``, ``G = X'X`` (centred when the model has an intercept), is smaller by
    ``u_j^2 / (G^-1)_jj`` with ``u = G^-1 x``; the features for which that is most are named. Several rows add up.
    """
    if not audit.inside:
        raise InvalidInput("rare features are those of people of the table; these are outsiders")

    def moments(block: Block) -> NDArray:
        rows = np.column_stack([np.asarray(block.X, dtype=np.float64), np.ones(len(block))])
        return rows.T @ rows

    positions = np.argsort(-audit.losses, kind="stable")[:count].tolist()
    with audited_table(audit, X, y, columns) as sweep:
        if sweep.n_features > MOST_FEATURES:
            return ()
        sums, names = sweep.fold(moments), sweep.source.names
        asked = picked_people(sweep, positions, len(audit))
        rows, starts = asked.X, np.arange(len(asked)) if asked.starts is None else asked.starts[:-1]
    n, total, G = sums[-1, -1], sums[-1, :-1], sums[:-1, :-1]
    if audit.release.mechanism().fit_intercept:
        G, rows = G - np.outer(total, total) / n, rows - total / n
    inverse = np.linalg.pinv(G, hermitian=True)
    u, scale = rows @ inverse, np.diag(inverse)
    whole = np.add.reduceat(np.einsum("ij,ij->i", rows, u), starts)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = np.add.reduceat(u**2, starts)
        shares = np.nan_to_num(squares / scale / whole, posinf=0.0)  # a constant column, a row of zeros: nothing
    found = []
    for at, part in zip(positions, np.minimum(shares, 1.0), strict=True):
        order = [int(j) for j in np.argsort(-part, kind="stable")[:NAMED] if part[j] >= LEAST_SHARE]
        called = tuple(f"column {j}" if names is None else names[j] for j in order)
        person = None if audit.ids is None else str(audit.ids[at].as_py())
        found.append(RareFeatures(at, called, tuple(float(part[j]) for j in order), person))
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Realised:
    """``L = log q/p``, with over without, of each person at what was published: their odds move by ``e^L``.

    Positive: the output speaks for the person being in the data. Realised losses of several releases on the same people
    add up (``a + b``, ``sum([a, b])``), whether or not one was chosen after looking at another.
    """

    losses: Floats  #: one L per person, as a plain array
    errors: Floats  #: how far each may be from the truth; infinite where no bound is proved
    ids: pa.ChunkedArray | None
    flavour: Flavour
    releases: int = 1  #: how many are summed

    def __len__(self) -> int:
        return len(self.losses)

    def __repr__(self) -> str:
        return f"Realised({len(self):,} people, confidential)"  # no value: a repr ends up in logs

    @property
    def codes(self) -> NDArray[np.uint8]:
        """Of each person: 0 exact, 2 estimate; exact where ``e^L`` is known to a millionth."""
        return np.where(self.errors <= REALISED_ERROR, EXACT, ESTIMATE).astype(np.uint8)

    @property
    def kinds(self) -> NDArray[np.str_]:
        """Of each person: ``"exact"`` or ``"estimate"``."""
        return np.array(KINDS)[self.codes]

    @property
    def kind(self) -> Kind:
        """The weakest claim among all people."""
        return weakest_of_codes(self.codes)

    @property
    def log_ratio(self) -> Any:
        """Of each person: L, in the caller's flavour of table."""
        return self.flavour.series(self.losses, "log_ratio")

    def odds(self, prior: float = 0.5) -> Any:
        """Return the odds "in : out" of somebody who had this prior, after the output."""
        from perinstance.analysis import posterior_odds

        return self.flavour.series(posterior_odds(-self.losses, prior), "odds")

    def __add__(self, other: Realised) -> Realised:
        """Sum two releases on the same people."""
        if not isinstance(other, Realised):
            return NotImplemented
        same = (self.ids is None) == (other.ids is None) and (self.ids is None or self.ids.equals(other.ids))
        if len(self) != len(other) or not same:
            raise InvalidInput("realised losses are summed over the same people in the same order, got others")
        with np.errstate(invalid="ignore"):
            total = self.losses + other.losses
        errors = self.errors + other.errors + np.spacing(np.where(np.isfinite(total), np.abs(total), 0.0))
        return Realised(total, errors, self.ids, self.flavour, self.releases + other.releases)

    def __radd__(self, other: int) -> Realised:
        """Let ``sum`` begin with zero."""
        return self if other == 0 else NotImplemented

    def to_frame(self) -> Any:
        """Return id (if any), log_ratio, error and kind, one row per person. Confidential."""
        columns: dict[str, Any] = {} if self.ids is None else {"id": self.ids}
        return self.flavour.frame({**columns, "log_ratio": self.losses, "error": self.errors, "kind": self.kinds})


def realised(audit: Any, published: Any, X: Any, y: Any = None, *, outsiders: Any = None, **columns: Any) -> Realised:
    """Read the audited table once more and ask the release for everybody's log ratio at what was published."""
    release: Any = audit.release
    if audit.inside == (outsiders is not None):
        raise InvalidInput(
            "outsiders= are the people outside: pass them, as to audit, for an audit of outsiders and for no other"
        )
    linear = isinstance(audit.fit, LinearFit | DualFit) and release.mechanism().family != "adaptive"
    if audit.n_rows is not None and (outsiders is not None or not linear):
        raise RefusedModel(
            "what one output told of people with several rows is known of those of the table, of linear models; ask "
            "for audit.epsilon, which holds for every output"
        )
    if not isinstance(release, HasDensity):
        raise RefusedModel(f"no density is known for what {release.mechanism().name} publishes, so no realised loss")
    with audited_table(audit, X, y, columns) as sweep:
        refuse_other_names(published, sweep.source)
        if outsiders is None:
            found: LogRatios = release.log_ratios(sweep, published, None)
        else:
            asked = read_again(audit, *outsiders_of(outsiders))
            with Local(threads=1).sweep(asked) as outside:
                refuse_other_people(audit, asked, outside)
                found = release.log_ratios(sweep, published, outside)
    if len(found.value) != len(audit):
        raise InvalidInput(
            f"the table has {len(found.value)} rows and the audit {len(audit)} people; pass the audited table"
        )
    return Realised(found.value, found.error, audit.ids, audit.flavour)
