"""Independent releases on the same people, exactly (MATH 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, FEW_ROUNDINGS, SMALLEST
from perinstance.pairs.arguments import check_parts, real_array
from perinstance.pairs.base import Pairs, PairSchema
from perinstance.pairs.bounded import Dominated
from perinstance.pairs.gaussian_shift import GaussianShift
from perinstance.pairs.kinds import kind_codes, weakest_codes
from perinstance.pairs.laplace_shift import LaplaceShift
from perinstance.pairs.sums.coordinates import LossCoordinates


class Composed(Pairs):
    """Several releases on the same people, drawn independently: the losses add, person by person.

    Gaussian shifts add in quadrature; everything else by inverting the product of the characteristic functions, which
    are in closed form. The parameters of all releases must have been fixed in advance for the total to be a guarantee.
    Somebody with so many different Laplace distances that they cannot be multiplied out (more than 24, or more than
    4,095 releases of one distance next to another, and no Gaussian shift of a twentieth of their sum) gets an
    ``"upper"`` bound. So does whoever took a sampled step (see ``sampled_gaussian.py``), and everybody with a
    ``Dominated`` release: it counts as its shift, the offsets and the tails are added to the result (see
    ``bounded.py``).

    Examples
    --------
    >>> from perinstance.pairs import LaplaceShift, PosteriorSamplePair, GaussianShift
    >>> both = PosteriorSamplePair([0.01, 0.1], [1.0, 10.0]) + LaplaceShift([0.1, 0.0])
    >>> both.epsilon(1e-6).round(4)
    array([ 0.5575, 20.0228])
    >>> (GaussianShift([3.0]) + GaussianShift([4.0])).distance
    array([5.])
    """

    __slots__ = ("_all", "_parts")
    FORMAT = ("composed", 1)

    def __init__(self, parts: Sequence[Pairs]) -> None:
        self._parts = _flattened(parts)
        self._all = LossCoordinates.stack([part.coordinates() for part in self._parts])
        upper = self._all.rounded | self._all.bounded | self._all.samples  # sampled_gaussian.py
        bounded = np.where(upper, "upper", "exact")
        self._codes = weakest_codes(kind_codes(bounded, len(bounded)), *(part._codes for part in self._parts))

    @property
    def parts(self) -> tuple[Pairs, ...]:
        """The releases, none of them composed itself."""
        return self._parts

    def __len__(self) -> int:
        return len(self._parts[0])

    def __getitem__(self, index: Any) -> Composed:
        return Composed([part[index] for part in self._parts])

    @classmethod
    def concatenate(cls, parts: list[Composed]) -> Composed:
        """Put vectors of composed pairs behind each other; they must consist of the same types in the same order."""
        check_parts(cls, parts)
        shapes = {str(part.schema()) for part in parts}
        if len(shapes) > 1:
            raise InvalidInput(f"only compositions of the same releases can be concatenated, got {sorted(shapes)}")
        columns = zip(*(part.parts for part in parts), strict=True)
        return cls([type(column[0]).concatenate(list(column)) for column in columns])

    def to_columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of each release, behind its name and number: ``posterior1_leverage``, ``shift2_kind``."""
        return {
            f"{part.FORMAT[0]}{i}_{name}": values
            for i, part in enumerate(self._parts, start=1)
            for name, values in part.to_columns().items()
        }

    def schema(self) -> PairSchema:
        """Say what ``to_columns`` writes: the releases, in their order."""
        return PairSchema(*self.FORMAT, tuple(part.schema() for part in self._parts))

    def coordinates(self) -> LossCoordinates:
        """Those of all releases, side by side."""
        return self._all


def compose(pairs: Sequence[Pairs]) -> Pairs:
    """Compose independent releases on the same people, in the simplest form that is exact.

    Shifts become one shift, releases that cost nobody anything drop out, and what is left alone stays what it is.
    """
    parts = _flattened(pairs)
    shifts = [part for part in parts if isinstance(part, GaussianShift)]
    rest = [part for part in parts if not isinstance(part, GaussianShift)]
    if len(shifts) > 1:
        distance = _lengths(np.stack([part.distance for part in shifts]))
        shifts = [GaussianShift(distance, weakest_codes(*(part._codes for part in shifts)))]
    merged = shifts + rest
    if len(merged) == 1:
        return merged[0]
    live = [part for part in merged if part.coordinates().costs.any()]
    codes = weakest_codes(*(part._codes for part in merged))
    kept = live or merged[:1]
    if (weakest_codes(*(part._codes for part in kept)) == codes).all():
        merged = kept
    return merged[0] if len(merged) == 1 else Composed(merged)


def _lengths(distances: Floats) -> Floats:
    """Return the root of the sum of squares of each column, rounded up; of one distance that distance."""
    longest = distances.max(axis=0)
    alone = ((distances > 0).sum(axis=0) <= 1) | np.isinf(longest)
    with np.errstate(under="ignore", over="ignore"):  # in units of the longest nothing overflows
        shares = distances / np.where(alone, 1.0, longest)
        total = np.sqrt(np.square(shares, out=shares).sum(axis=0))
        return np.where(alone, longest, longest * total * (1.0 + FEW_ROUNDINGS * len(distances)) + SMALLEST)


def _flattened(pairs: object) -> tuple[Pairs, ...]:
    parts: list[Pairs] = []
    if not isinstance(pairs, Iterable) or isinstance(pairs, Pairs):
        raise InvalidInput(f"a list of pairs is composed, got {type(pairs).__name__}; pass [one, other]")
    for pair in pairs:
        if not isinstance(pair, Pairs):
            raise InvalidInput(f"only pairs can be composed, got {type(pair).__name__}")
        parts.extend(pair.parts)
    if not parts:
        raise InvalidInput("nothing to compose: got an empty list; pass at least one vector of pairs")
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise InvalidInput(f"releases must concern the same people, got lengths {lengths}; align them person by person")
    return tuple(parts)


def pairs_of_promise(epsilon: ArrayLike, delta: ArrayLike, people: int) -> Pairs:
    """Return pairs, labelled ``upper``, that lose at least what an (epsilon, delta) promise of another tool allows.

    Two distributions with losses up to epsilon have a trade-off curve above the chords through ``(0, 1)``, ``(p, p)``
    and ``(1, 0)``, ``p = 1/(1 + e^epsilon)`` (Wasserman and Zhou 2010). The curve of a Laplace shift D is convex and
    symmetric, so it lies below those chords if it meets ``(p, p)``: ``D = 2 log((1 + e^epsilon)/2)``, a little more
    than epsilon while that is small. delta is the probability of anything at all.

    >>> pairs_of_promise(0.5, 0.0, 1).epsilon(1e-6).round(3)
    array([0.562])
    """
    e = np.broadcast_to(real_array("epsilon of the promise", epsilon, people), (people,))
    d = np.broadcast_to(real_array("delta of the promise", delta, people), (people,))
    wrong = ~((e >= 0) & (d >= 0) & (d < 1))
    if wrong.any():
        got = f"epsilon = {e[wrong][0]:g} and delta = {d[wrong][0]:g}"
        raise InvalidInput(
            f"a promise has epsilon >= 0 and delta in [0, 1), got {got}; check what the other tool states"
        )
    # log((1 + e^epsilon)/2) without cancellation: epsilon/2 + log cosh(epsilon/2)
    half = e / 2
    log_cosh = half + np.log1p(np.expm1(-2 * half) / 2)
    distance = 2 * (half + log_cosh) * BOUND_UP
    pure = LaplaceShift(distance, "upper")
    return Composed([pure, Dominated(np.zeros(people), np.zeros(people), d)]) if d.any() else pure
