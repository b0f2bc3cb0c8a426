"""Independent releases on the same people, exactly (MATH 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.double_double import plus, raised, root, two_product
from perinstance.numerics.numba_compile import exact_kernel
from perinstance.pairs.bounded_shift import Dominated
from perinstance.pairs.gaussian_shift import Shift
from perinstance.pairs.interface.arguments import Direction, delta_array, rate_array, real_array
from perinstance.pairs.interface.base import Pairs
from perinstance.pairs.interface.kinds import KINDS
from perinstance.pairs.laplace_shift import Laplace
from perinstance.pairs.loss_sums.coordinates import Spectrum
from perinstance.pairs.posterior_sample import Posterior
from perinstance.pairs.summed_pairs import SpectralPairs


class Composed(SpectralPairs):
    """Several releases on the same people, drawn independently: the losses add, person by person.

    Gaussian shifts add in quadrature; everything else by inverting the product of the characteristic functions, which
    are in closed form. The parameters of all releases must have been fixed in advance for the total to be a guarantee.
    Somebody with so many different Laplace distances that they cannot be multiplied out (more than 24, or more than
    4,095 releases of one distance beside another, and no Gaussian shift of a twentieth of their sum) gets an
    ``"upper"`` bound. So does everybody with a ``Dominated`` release: it counts as its shift, the offsets and the tails
    are added to the result (see ``dominated.py``).

    Examples
    --------
    >>> from perinstance.pairs import Laplace, Posterior, Shift
    >>> both = Posterior([0.01, 0.1], [1.0, 10.0]) + Laplace([0.1, 0.0])
    >>> both.epsilon(1e-6).round(4)
    array([ 0.5575, 20.0228])
    >>> (Shift([3.0]) + Shift([4.0])).distance
    array([5.])
    """

    __slots__ = ("_all", "_bounded", "_offset", "_parts", "_tail")

    def __init__(self, parts: Sequence[Pairs]) -> None:
        self._parts = _flattened(parts)
        self._all = Spectrum.stack([_spectrum_of(part) for part in self._parts])
        bounds = [part for part in self._parts if isinstance(part, Dominated)]
        nothing = np.zeros(len(self))
        #: Who has a release that is known from above only, what its loss may have on top, how likely that is not all.
        self._bounded: NDArray[np.bool_] = np.logical_or.reduce([_costs(part) for part in bounds] or [nothing > 0])
        self._offset = np.sum([part.offset for part in bounds] or [nothing], axis=0) * (1 + 1e-15)
        self._tail = np.sum([part.tail for part in bounds] or [nothing], axis=0) * (1 + 1e-15)
        weakest = np.maximum.reduce([part._codes for part in self._parts])
        upper = (self._all.rounded | self._bounded).astype(np.uint8) * np.uint8(KINDS.index("upper"))
        self._codes = np.maximum(weakest, upper)

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
        if not parts:
            raise InvalidInput("nothing to concatenate: got an empty list of pairs; pass at least one")
        shapes = {tuple(type(release).__name__ for release in part.parts) for part in parts}
        if len(shapes) > 1:
            raise InvalidInput(f"only compositions of the same releases can be concatenated, got {sorted(shapes)}")
        columns = zip(*(part.parts for part in parts), strict=True)
        return cls([type(column[0]).concatenate(list(column)) for column in columns])

    def _columns(self) -> dict[str, Floats]:
        return {
            f"{type(part).__name__.lower()}{i}_{name}": values
            for i, part in enumerate(self._parts, start=1)
            for name, values in part._columns().items()
        }

    def _spectrum(self) -> Spectrum:
        return self._all

    def delta(self, epsilon: ArrayLike, direction: Direction = "worst") -> Floats:
        """``sup_S P(S) - e^epsilon Q(S)`` for any real epsilon; never below the true value."""
        if not self._bounded.any():
            return super().delta(epsilon, direction)
        e = real_array("epsilon", epsilon, len(self)) + np.zeros(len(self))
        finite = np.where(np.isfinite(self._offset), self._offset, 0.0)
        moved = np.where(finite > 0, np.nextafter(e - finite, -np.inf), e)
        inner = np.minimum(super().delta(moved, direction) + self._tail, 1.0)
        return np.where(np.isinf(self._offset), 1.0, inner)

    def epsilon(self, delta: ArrayLike, direction: Direction = "worst") -> Floats:
        """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``; never below the true value."""
        if not self._bounded.any():
            return super().epsilon(delta, direction)
        d = delta_array(delta, len(self)) + np.zeros(len(self))
        left = np.where(self._tail > 0, np.nextafter(d - self._tail, -np.inf), d)
        known = (left > 0) | ((left == 0) & (self._tail == 0))
        inner = super().epsilon(np.where(known, left, 0.5), direction)
        return np.where(known, np.where(self._offset > 0, (inner + self._offset) * (1 + 4e-16), inner), np.inf)

    def renyi(self, alpha: ArrayLike, direction: Direction = "worst") -> Floats:
        """``K(alpha - 1)/(alpha - 1)``, the sum over the releases; infinite where one is known from above only."""
        return np.where(self._bounded, np.inf, super().renyi(alpha, direction))

    def zcdp(self) -> Floats:
        """Return the sum over the releases; infinite where two variances differ or a release is only bounded."""
        return np.where(self._bounded, np.inf, super().zcdp())

    def attack_power(self, false_positive_rate: ArrayLike) -> Floats:
        """``min_epsilon delta_QP(epsilon) + e^epsilon r``: the trade-off curve is the dual of the profile."""
        if not self._bounded.any():
            return super().attack_power(false_positive_rate)
        rate = rate_array(false_positive_rate, len(self)) + np.zeros(len(self))
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite offset, at a rate of zero too
            raised = np.where(np.isinf(self._offset), 1.0, rate * np.exp(self._offset) * (1 + 1e-15))
        power = super().attack_power(np.minimum(raised, 1.0)) + self._tail
        return np.maximum(np.minimum(power, 1.0), rate)


def compose(pairs: Sequence[Pairs]) -> Pairs:
    """Compose independent releases on the same people, in the simplest form that is exact.

    Shifts become one shift, releases that cost nobody anything drop out, and what is left alone stays what it is.
    """
    parts = _flattened(pairs)
    shifts = [part for part in parts if isinstance(part, Shift)]
    rest = [part for part in parts if not isinstance(part, Shift)]
    if len(shifts) > 1:
        distance = _lengths(np.stack([part.distance for part in shifts]))
        shifts = [Shift(distance, np.maximum.reduce([part._codes for part in shifts]))]
    merged = shifts + rest
    live = [part for part in merged if _costs(part).any()]
    graded = np.maximum.reduce([part._codes for part in merged])
    kept = live or merged[:1]
    if (np.maximum.reduce([part._codes for part in kept]) == graded).all():
        merged = kept
    return merged[0] if len(merged) == 1 else Composed(merged)


@exact_kernel
def _lengths(distances):  # pragma: no cover - compiled
    """Return the root of the sum of squares of each column, rounded up: by at most one unit in the last place."""
    k, n = distances.shape
    out = np.empty(n)
    for i in range(n):
        longest = distances[:, i].max()
        if longest == np.inf or (distances[:, i] > 0.0).sum() <= 1:
            out[i] = longest
            continue
        unit = 2.0 ** np.floor(np.log2(longest))  # nothing overflows; what is lost below is raised
        total, low = 0.0, 0.0
        for j in range(k):
            part = distances[j, i] / unit
            square, square_low = two_product(part, part)
            total, low = plus(total, low, square, square_low)
        high, rest = root(total, low)
        out[i] = unit * raised(high, rest + 1e-30 * high)
    return out


def _flattened(pairs: Sequence[Pairs]) -> tuple[Pairs, ...]:
    parts: list[Pairs] = []
    for pair in pairs:
        if not isinstance(pair, Pairs):
            raise InvalidInput(f"only pairs can be composed, got {type(pair).__name__}")
        parts.extend(pair.parts if isinstance(pair, Composed) else [pair])
    if not parts:
        raise InvalidInput("nothing to compose: got an empty list; pass at least one vector of pairs")
    lengths = [len(part) for part in parts]
    if len(set(lengths)) > 1:
        raise InvalidInput(f"releases must concern the same people, got lengths {lengths}; align them person by person")
    return tuple(parts)


def _costs(part: Pairs) -> NDArray[np.bool_]:
    """Of each person: whether the release costs her anything."""
    costs = _spectrum_of(part).costs
    return costs | (part.offset > 0) | (part.tail > 0) if isinstance(part, Dominated) else costs


def _spectrum_of(part: Pairs) -> Spectrum:
    """Return the coordinates of a release; of one that is known from above only, those of its shift."""
    if isinstance(part, Shift | Dominated):
        return Spectrum.gaussian(np.zeros((len(part), 1)), part.distance[:, None])
    if isinstance(part, Laplace):
        return Spectrum.laplace(part.distance)
    if isinstance(part, Posterior):
        return Spectrum.posterior(part.leverage, part.residual)
    if isinstance(part, SpectralPairs):
        return part._spectrum()
    raise InvalidInput(
        f"{type(part).__name__} pairs have no characteristic function in closed form; they cannot be composed"
    )
