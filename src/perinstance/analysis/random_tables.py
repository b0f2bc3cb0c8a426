"""Losses over data sets that vary: of one person (``one_person``), or of people who are drawn too
(``over_random_tables``). What comes back is a Monte-Carlo sample of losses, which tells how far to trust it. All data
sets within bounds are for ``personal_dp``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, ndtri

from perinstance.analysis.loss_moments import Moments, check_level, moments
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs.arguments import delta_array
from perinstance.pairs.kinds import Kind, weakest
from perinstance.record_tables import ShownAsTable


def one_person(
    release: Any, x: ArrayLike, y: float, datasets: Iterable[tuple[ArrayLike, ArrayLike]], delta: float = 1e-6
) -> LossSample:
    """Return the losses of one person who joins each of some data sets."""
    delta = float(delta_array(delta, 1, zero=False))
    row, target = np.asarray(x, dtype=np.float64)[None, :], np.array([float(y)])
    if not (np.isfinite(row).all() and np.isfinite(target).all()):
        raise InvalidInput("the person must be a row of finite numbers and a finite target, got NaN or infinity")
    found, kind = _each(release, ((X, others, row, target) for X, others in datasets), delta)
    if not len(found):
        raise InvalidInput("there is no data set to join: pass at least one (X, y)")
    return LossSample(found[:, 0], delta, kind, ("the person is fixed", "the data sets are the ones given"))


def _each(release: Any, tables: Iterable[tuple[ArrayLike, ...]], delta: float) -> tuple[Floats, Kind]:
    """Return the losses of rows with targets that join tables (X, y), a row for each table, and their weakest kind."""
    pairs = [joined(release, *table) for table in tables]
    return np.array([np.asarray(p.epsilon(delta)) for p in pairs]), weakest(p.kind for p in pairs)


def joined(release: Any, *table: ArrayLike) -> Any:
    """Return the pairs of outsiders who would join a data set one at a time; ``table`` is X, y, their rows, targets."""
    X, y, rows, targets = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in table)
    rows = np.atleast_2d(rows)
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


@dataclass(frozen=True, slots=True)
class Between(ShownAsTable):
    """A Monte-Carlo number with its interval."""

    estimate: float
    low: float
    high: float
    level: float
    kind: Kind = "estimate"


@dataclass(frozen=True, slots=True)
class LossSample(ShownAsTable):
    """Losses of a person (or of random people) over data sets that were drawn independently. Confidential."""

    epsilon: Floats  #: (draws,) or (draws, people)
    delta: float
    kind: Kind  #: of each loss; what is said about the distribution is an estimate
    assumptions: tuple[str, ...]

    @property
    def largest(self) -> float:
        """The largest loss that occurred: attained, not a bound."""
        return float(self.epsilon.max())

    def mean(self, level: float = 0.95) -> Between:
        """Return the mean with a normal interval over the draws (people of one draw share a data set)."""
        check_level(level)
        each = self.epsilon if self.epsilon.ndim == 1 else self.epsilon.mean(axis=1)
        centre = float(each.mean())
        spread = float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else np.inf
        half = float(ndtri(0.5 + level / 2)) * spread
        return Between(centre, centre - half, centre + half, level)

    def quantile(self, share: float, level: float = 0.95, person: int = 0) -> Between:
        """Return a quantile with the interval that order statistics give, whatever the distribution.

        The i-th smallest of n is below the quantile with probability ``P(Binomial(n, share) >= i)``. The losses must be
        independent for that: with several people per draw, ask about one of them (``person``).
        """
        check_level(level)
        if not 0 < share < 1:
            raise InvalidInput(f"share must lie in (0, 1), got {share:g}; the median is 0.5")
        each = np.sort(self.epsilon if self.epsilon.ndim == 1 else self.epsilon[:, person])
        n, side = len(each), (1 - level) / 2
        below = bdtr(np.arange(n, dtype=np.float64), n, share)  # P(Binomial <= i)
        low = int(np.searchsorted(below, side)) - 1
        high = int(np.searchsorted(below, 1 - side)) + 1
        bottom, top = float(each[low]) if low >= 0 else 0.0, float(each[high]) if high < n else np.inf
        return Between(float(attained_quantile(each, share)), bottom, top, level)

    def moments(self, k: int = 2) -> Moments:
        """Return raw moments of all losses that occurred; an estimate of those of the distribution."""
        return moments(self.epsilon, k, delta=self.delta, kind="estimate")


def over_random_tables(
    release: Any,
    sampler: Callable[[np.random.Generator], tuple[ArrayLike, ArrayLike]],
    outsiders: tuple[ArrayLike, ArrayLike] | Callable[[np.random.Generator], tuple[ArrayLike, ArrayLike]],
    delta: float = 1e-6,
    *,
    draws: int = 200,
    rng: np.random.Generator | None = None,
) -> LossSample:
    """Draw data sets and return the losses of people who would join each of them.

    ``sampler(rng)`` draws the data set (X, y) that the people join. ``outsiders`` are the people ``(X, y)``, fixed; or
    a sampler of them, called once per draw.
    """
    delta = float(delta_array(delta, 1, zero=False))
    if draws < 1:
        raise InvalidInput(f"draws must be at least 1, got {draws}")
    rng = np.random.default_rng() if rng is None else rng
    people = outsiders if callable(outsiders) else lambda _: outsiders
    found, kind = _each(release, ((*sampler(rng), *people(rng)) for _ in range(draws)), delta)
    assumptions = ("data sets are independent draws of the sampler", "each person joins a data set without them")
    return LossSample(found, delta, kind, assumptions)
