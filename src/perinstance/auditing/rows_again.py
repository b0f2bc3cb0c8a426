"""What the losses alone do not tell, from the audited table once more: rows beyond declared bounds, rare features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance.auditing.raw_tables import read_again, refuse_other_people
from perinstance.auditing.refit_check import picked_rows
from perinstance.engines import Local
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.numerics.array_types import Floats
from perinstance.record_tables import ShownAsTable

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit
    from perinstance.engines.protocol import TableSweep

MOST_FEATURES = 2000  # of a table whose rare features are named: their second moments are one matrix
NAMED = 3  # features that are named for each person
LEAST_SHARE = 0.05  # of the leverage, of a feature that is named


@dataclass(frozen=True, slots=True)
class RowsBeyond(ShownAsTable):
    """How many people lie beyond declared bounds. Confidential."""

    people: int  #: of the table
    features: int  #: whose row is longer than its bound
    targets: int  #: whose target is larger than its bound
    either: int

    def __add__(self, other: RowsBeyond) -> RowsBeyond:
        return RowsBeyond(
            self.people + other.people,
            self.features + other.features,
            self.targets + other.targets,
            self.either + other.either,
        )

    def __repr__(self) -> str:
        return "RowsBeyond(confidential)"  # a repr ends up in logs


@dataclass(frozen=True, slots=True)
class RareFeatures(ShownAsTable):
    """The features that make one person's row rare. Confidential."""

    position: int
    names: tuple[str, ...]
    shares: tuple[float, ...]  #: of the leverage, that would go if the feature were left out


@contextmanager
def _reading(
    audit: Audit, X: Any, y: Any, columns: dict[str, Any]
) -> Iterator[tuple[TableSweep, tuple[str, ...] | None]]:
    source = read_again(audit, X, y, **columns)
    sweep = Local(threads=1).sweep(source)
    try:
        if audit.inside:
            refuse_other_people(audit, source, sweep)
        yield sweep, source.names
    finally:
        sweep.close()


def rows_beyond(audit: Audit, x_bound: ArrayLike, y_bound: float, X: Any, y: Any = None, **columns: Any) -> RowsBeyond:
    """Count the people of a table who break ``||x|| <= x_bound`` (a box: each column its own) or ``|y| <= y_bound``."""
    bound = np.asarray(x_bound, dtype=np.float64)

    def count(block: Block) -> RowsBeyond:
        rows = np.asarray(block.X, dtype=np.float64)
        far = (np.abs(rows) > bound).any(axis=1) if bound.ndim else np.linalg.norm(rows, axis=1) > float(bound)
        high = np.abs(np.asarray(block.y, dtype=np.float64)) > y_bound
        return RowsBeyond(len(rows), int(far.sum()), int(high.sum()), int((far | high).sum()))

    with _reading(audit, X, y, columns) as (sweep, _):
        return sweep.fold(count)


def rare_features(audit: Audit, count: int, X: Any, y: Any = None, **columns: Any) -> tuple[RareFeatures, ...]:
    """Name what is rare about the rows of the ``count`` most exposed people.

    Without column j the leverage ``x'G^-1 x``, ``G = X'X`` (centred when the model has an intercept), is smaller by
    ``u_j^2 / (G^-1)_jj`` with ``u = G^-1 x``; the features for which that is most are named.
    """
    if not audit.inside:
        raise InvalidInput("rare features are those of people of the table; these are outsiders")
    positions = np.argsort(-audit.losses, kind="stable")[:count].tolist()
    with _reading(audit, X, y, columns) as (sweep, names):
        if sweep.n_features > MOST_FEATURES:
            return ()
        moments: Floats = sweep.fold(_moments)
        rows, _ = picked_rows(sweep, positions, len(audit))
    n, total, G = moments[-1, -1], moments[-1, :-1], moments[:-1, :-1]
    if audit.release.mechanism().fit_intercept:
        G, rows = G - np.outer(total, total) / n, rows - total / n
    named = [f"column {j}" for j in range(len(G))] if names is None else list(names)
    inverse = np.linalg.pinv(G, hermitian=True)
    u, scale = rows @ inverse, np.diag(inverse)
    whole = np.einsum("ij,ij->i", rows, u)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.nan_to_num(u**2 / scale / whole, posinf=0.0)  # a constant column, a row of zeros: nothing
    return tuple(_largest(at, part, named) for at, part in zip(positions, np.minimum(shares, 1.0), strict=True))


def _moments(block: Block) -> Floats:
    """``[X 1]'[X 1]`` of one block."""
    rows = np.column_stack([np.asarray(block.X, dtype=np.float64), np.ones(len(block.y))])
    return rows.T @ rows


def _largest(position: int, shares: Floats, names: list[str]) -> RareFeatures:
    order = [int(j) for j in np.argsort(-shares, kind="stable")[:NAMED] if shares[j] >= LEAST_SHARE]
    return RareFeatures(position, tuple(names[j] for j in order), tuple(float(shares[j]) for j in order))
