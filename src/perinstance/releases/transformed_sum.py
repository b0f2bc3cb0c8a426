"""A concave function of a sum, with noise: the loss of a record grows slowly with its size (establishment statistics).

``f(S) + N(0, scale^2)`` with S a sum of records that are not negative, f the logarithm of ``S + offset`` or the square
root. A record x moves f by ``f(S) - f(S - x)``. Increments of a concave function fall, so whatever the others hold that
is at most ``f(x) - f(0)``: a bound from the record alone, the *policy* of the release, which may be public. It grows
like log x or sqrt x, where noise on the sum itself would cost x.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import one_of, positive
from perinstance.errors import InvalidTable
from perinstance.folds.block import Block
from perinstance.folds.exact_column_sums import UNIT_BITS
from perinstance.folds.sweep import People, Sweep
from perinstance.models.column_means import MeanFit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import Charged, charge
from perinstance.numerics.rounding import LARGEST, NORM_UP, SMALLEST, UNIT
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Method
from perinstance.releases.base.log_ratios import OwnRowLoss, PublicFacts, one_pair, one_row
from perinstance.releases.base.publishing import Law
from perinstance.releases.base.release import Mechanism
from perinstance.releases.base.row_sums import lengths
from perinstance.releases.base.rows_per_person import refuse_rows_of_people, rows_words
from perinstance.releases.noisy_mean import ColumnStatistic
from perinstance.sampling import GRID, Noisy, exact_sums
from perinstance.sampling.ball_arithmetic import Ball, exact

TRANSFORMS = ("log", "sqrt")


class SlowScalingSum(ColumnStatistic):
    """The logarithm or the square root of each column's sum, plus Gaussian noise; there is no target.

    Records are amounts: negative ones count as zero.

    Parameters
    ----------
    transform
        ``"log"``, of the sum plus ``offset``, or ``"sqrt"``.
    scale
        The standard deviation of the noise, on the transformed sum.
    offset
        Of the logarithm: a **public** amount > 0; records far below it cost in proportion to their size.
    grid
        The public power of two to whose multiples ``fit`` rounds.
    rows_per_person
        How many rows of a person are used at most, where people may have several; ``fit`` is then given ``ids``. Of who
        has more so many are drawn. None: a row is a person, and an id that repeats is refused.

    Attributes
    ----------
    value_
        What was published: one transformed, noisy sum per column.
    total_
        An estimate of each sum without bias, which follows from ``value_`` alone.

    Examples
    --------
    >>> import perinstance as pi
    >>> release = pi.SlowScalingSum(transform="log", scale=0.5, offset=1.0)
    >>> release.policy([1.0, 10.0, 1e6]).round(3)  # the distance of a record, whatever the others are
    array([ 1.386,  4.796, 27.631])
    """

    def __init__(
        self,
        transform: str = "log",
        scale: float = 1.0,
        offset: float = 1.0,
        grid: float = GRID,
        rows_per_person: int | None = None,
    ) -> None:
        self.transform = transform
        self.scale = scale
        self.offset = offset
        self.grid = grid
        self.rows_per_person = rows_per_person

    def mechanism(self) -> Mechanism:
        """Describe the release: transformed sums plus independent noise."""
        transform, scale, offset = self._declared()
        inside = f"log(sum + {offset:g})" if transform == "log" else "the square root of a sum"
        return Mechanism(
            name="SlowScalingSum",
            moved="transformed sum",
            family="output",
            noise="gaussian",
            scale=scale,
            words=(f"{inside} of amounts, with gaussian noise of scale ", scale, *rows_words(self)),
            needs_target=False,
        )

    def policy(self, records: ArrayLike) -> Floats:
        """Return the largest distance, in units of the noise, of a record of each size: ``(f(x) - f(0)) / scale``."""
        transform, scale, offset = self._declared()
        x = np.maximum(np.asarray(records, dtype=np.float64), 0.0)
        with np.errstate(over="ignore", under="ignore"):
            most = _increment(transform, offset, np.zeros_like(x), x) * NORM_UP + SMALLEST
            return np.where(x > 0.0, np.nextafter(most / scale, np.inf), 0.0)

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> MeanFit:
        """Add up without a rounding error, in one pass."""
        fit = super().confidential_fit(sweep)
        beyond = [j for j, total in enumerate(fit.units) if total > int(LARGEST) << UNIT_BITS]
        if beyond:
            raise InvalidTable(f"column {beyond[0]}: its sum is beyond the largest float; use a larger unit")
        return fit

    def people(self, fit: MeanFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block. ``residual`` is the length of the row."""
        transform, scale, offset = self._declared()
        X, one = self.amounts(block.X), 1 << UNIT_BITS
        high = np.array([total / one for total in fit.units])  # the sums as pairs of floats
        low = np.array([float(Fraction(total, one) - Fraction(h)) for total, h in zip(fit.units, high, strict=True)])
        # without the person: exact where x is close to the sum (Sterbenz), a unit or two elsewhere, but for the pair's
        # own rounding, which counts where next to nothing is left
        others = np.maximum((high - X) + low, 0.0) if inside else np.broadcast_to(high, X.shape)
        fewer = np.maximum(others - high * (8 * UNIT * UNIT), 0.0) if inside else others
        distance, most = (_lengths(_increment(transform, offset, w, X)) for w in (others, fewer))
        found = _charged(distance, scale, X, most - distance)
        with np.errstate(divide="ignore"):
            leverage = np.full(len(X), np.float64(1.0) / (fit.n_people - inside))
        return People(leverage, _lengths(X), self.pairs_of(found, X.shape[1]))

    def sizes(self, fit: MeanFit, sums: Floats, counts: NDArray[np.int64], inside: bool) -> Floats:
        """Return the lengths of the sums of a person's rows."""
        return _lengths(sums)

    def amounts(self, X: NDArray) -> Floats:
        """Return records with zeros in place of negative ones."""
        return np.maximum(np.asarray(X, dtype=np.float64), 0.0)

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return the policy's loss for one record: it holds whatever the others are."""
        refuse_rows_of_people(self, "the loss that follows from one row")
        transform, scale, offset = self._declared()
        X = self.amounts(one_row(x))
        found = _charged(_lengths(_increment(transform, offset, np.zeros_like(X), X)), scale, X)
        return one_pair(GaussianShift(found.value, "upper"), delta, ("negative_as_zero",))

    def value_of(self, total: Any, people: int) -> Ball:
        """Enclose the logarithm or the square root of an exact sum."""
        return (exact(total) + arb(float(self.offset))).log() if self.transform == "log" else exact(total).sqrt()

    def ideal(self, X: NDArray) -> Noisy:
        """Return the transformed sums, enclosed at any precision, and the noise: what ``fit`` draws from."""
        center = [partial(self.value_of, total, len(X)) for total in exact_sums(self.amounts(X))]
        return Noisy(center, self._declared()[1])

    def law(self, fit: MeanFit) -> Law:
        """Return the transformed sums and the noise."""
        transform, scale, offset = self._declared()
        total = np.array([units / (1 << UNIT_BITS) for units in fit.units])
        return Law(np.log(total + offset) if transform == "log" else np.sqrt(total), scale * np.eye(len(total)))

    def fit(self, X: Any, y: Any = None, ids: Any = None, **refused: Any) -> SlowScalingSum:
        """Publish one draw: ``value_``, and ``total_``, which follows from it."""
        transform, scale, offset = self._declared()
        super().fit(X, y, ids, **refused)
        with np.errstate(over="ignore"):
            logarithm = np.exp(self.value_ - scale**2 / 2) - offset
        self.total_ = logarithm if transform == "log" else self.value_**2 - scale**2
        return self

    def _declared(self) -> tuple[str, float, float]:
        transform = one_of("transform", self.transform, TRANSFORMS)
        return transform, positive("scale", self.scale), positive("offset", self.offset)


def _increment(transform: str, offset: float, others: Floats, x: Floats) -> Floats:
    """``f(others + x) - f(others)``, without cancellation; no sum on the way leaves the range of floats."""
    with np.errstate(over="ignore", under="ignore"):
        if transform == "log":
            base = others + offset
            share = np.where(np.isinf(base), (x / 4.0) / (others / 4.0 + offset / 4.0), x / base)
            # beyond the largest share the logarithm is a difference, which does not cancel
            return np.where(np.isinf(share), np.log(np.where(x > 0.0, x, 1.0)) - np.log(base), np.log1p(share))
        root = np.hypot(np.sqrt(others), np.sqrt(x)) + np.sqrt(others)
        return np.divide(x, root, out=np.zeros_like(x), where=root > 0)


def _lengths(moves: Floats) -> Floats:
    """Return the norm of each row, whose squares neither overflow nor underflow."""
    power = np.frexp(np.abs(moves).max(axis=1, initial=0.0))[1]
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(lengths(np.ldexp(moves, -power[:, None])), power)


def _charged(distance: Floats, scale: float, X: Floats, more: Floats | float = 0.0) -> Charged:
    """Divide by the scale, and charge a dozen roundings of each column's increment and those of the norm.

    A quotient next to underflow is off by ``SMALLEST``, in every column, before it is divided by the scale.
    """
    with np.errstate(over="ignore", under="ignore"):
        value = distance / scale
        more = np.nextafter((more + 2 * X.shape[1] * SMALLEST) / scale, np.inf)
        lost = np.where(X.any(axis=1), value * ((X.shape[1] + 24) * UNIT) + more + SMALLEST, 0.0)
    return charge(value, lost)
