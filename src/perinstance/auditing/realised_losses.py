"""``audit.realised``: what one published output told about each person. Confidential, all of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perinstance.auditing.raw_tables import outsiders_of, read_again, refuse_other_names, refuse_other_people
from perinstance.auditing.rows_again import audited_table
from perinstance.engines import Local
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import ESTIMATE, EXACT
from perinstance.numerics.rounding import REALISED_ERROR
from perinstance.pairs.kinds import KINDS, Kind, weakest_of_codes
from perinstance.releases.base.log_ratios import HasDensity, LogRatios

if TYPE_CHECKING:
    import pyarrow as pa

    from perinstance.data.source import Flavour


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
    if audit.n_rows is not None:
        raise RefusedModel(
            "what one output told is known where every row is a person, and here people have several; ask for "
            "audit.epsilon, which holds for every output"
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
