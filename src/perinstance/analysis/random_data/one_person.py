"""pDP for one: the person is fixed and the data set varies.

Over data sets that somebody can draw (``one``), over what is left when k random people of a table stay away
(``subsets``), or over all data sets in a bounded domain (``personal_dp``: personal differential privacy).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance.analysis.random_data.monte_carlo import LossSample
from perinstance.analysis.worst_case.worst_case_dp import personal_dp
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.numerics.array_types import Floats
from perinstance.pairs.interface.arguments import delta_array
from perinstance.pairs.interface.kinds import Kind, weakest

__all__ = ["one", "personal_dp", "subsets"]


def one(
    release: Any,
    x: ArrayLike,
    y: float,
    datasets: Iterable[tuple[ArrayLike, ArrayLike]],
    delta: float = 1e-6,
) -> LossSample:
    """Return the losses of one person who joins each of some data sets."""
    delta = float(delta_array(delta, 1, zero=False))
    row, target = np.asarray(x, dtype=np.float64)[None, :], np.array([float(y)])
    if not (np.isfinite(row).all() and np.isfinite(target).all()):
        raise InvalidInput("the person must be a row of finite numbers and a finite target, got NaN or infinity")
    losses: list[Any] = []
    kinds: list[Kind] = []
    for X, others in datasets:
        pairs = joined(release, np.asarray(X, dtype=np.float64), np.asarray(others, dtype=np.float64), row, target)
        losses.append(float(pairs.epsilon(delta)[0]))
        kinds.append(pairs.kind)
    if not losses:
        raise InvalidInput("there is no data set to join: pass at least one (X, y)")
    return LossSample(
        np.array(losses), delta, weakest(kinds), ("the person is fixed", "the data sets are the ones given")
    )


def joined(release: Any, X: Floats, y: Floats, rows: Floats, targets: Floats) -> Any:
    """Return the pairs of outsiders who would join the data set (X, y) one at a time."""
    if X.ndim != 2 or rows.shape[1] != X.shape[1] or len(rows) != len(targets):
        raise InvalidInput(
            f"people have {rows.shape[1]} features and {len(targets)} targets for {len(rows)} rows, the data set has "
            f"shape {X.shape}; they must be about the same features"
        )
    sweep = ArraySweep(X, y)
    fit = release.confidential_fit(sweep)
    people = release.people(fit, Block(rows, targets), inside=False)
    if people.open is None:
        return people.pairs
    done = release.refine(fit, sweep, Block(rows[people.open], targets[people.open]), inside=False).pairs
    parts, settled = [], iter(range(len(done)))
    for i, unsettled in enumerate(people.open):
        parts.append(done[next(settled)] if unsettled else people.pairs[i])
    return type(people.pairs).concatenate(parts)


def subsets(
    X: ArrayLike, y: ArrayLike, leave_out: int, draws: int, rng: np.random.Generator
) -> Iterator[tuple[Floats, Floats]]:
    """Yield what is left of a table when ``leave_out`` random people stay away."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if not 0 <= leave_out < len(X):
        raise InvalidInput(f"leave_out must lie in [0, {len(X) - 1}], got {leave_out}")
    for _ in range(draws):
        keep = np.sort(rng.permutation(len(X))[leave_out:])
        yield X[keep], y[keep]
