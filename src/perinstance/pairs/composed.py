"""Independent releases on the same people, exactly (MATH 6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.pairs.base import Floats, Pairs
from perinstance.pairs.laplace import Laplace
from perinstance.pairs.posterior import Posterior
from perinstance.pairs.shift import Shift
from perinstance.pairs.spectral import SpectralPairs
from perinstance.pairs.spectrum import Spectrum


class Composed(SpectralPairs):
    """Several releases on the same people, drawn independently: the losses add, person by person.

    Gaussian shifts add in quadrature; everything else by inverting the product of the characteristic functions, which
    are in closed form. The parameters of all releases must have been fixed in advance for the total to be a guarantee.
    Somebody with so many different Laplace distances that they cannot be multiplied out gets an ``"upper"`` bound.

    Examples
    --------
    >>> from perinstance.pairs import Laplace, Posterior, Shift
    >>> both = Posterior([0.01, 0.1], [1.0, 10.0]) + Laplace([0.1, 0.0])
    >>> both.epsilon(1e-6).round(4)
    array([ 0.5575, 20.0228])
    >>> (Shift([3.0]) + Shift([4.0])).distance
    array([5.])
    """

    __slots__ = ("_all", "_parts")

    def __init__(self, parts: Sequence[Pairs]) -> None:
        self._parts = _flattened(parts)
        self._all = Spectrum.stack([_spectrum_of(part) for part in self._parts])
        weakest = np.maximum.reduce([part._grades for part in self._parts])
        self._grades = np.maximum(weakest, self._all.rounded.astype(np.uint8))

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


def compose(pairs: Sequence[Pairs]) -> Pairs:
    """Compose independent releases on the same people, in the simplest form that is exact.

    Shifts become one shift, releases that cost nobody anything drop out, and what is left alone stays what it is.
    """
    parts = _flattened(pairs)
    shifts = [part for part in parts if isinstance(part, Shift)]
    rest = [part for part in parts if not isinstance(part, Shift)]
    if len(shifts) > 1:
        distance = np.hypot.reduce([part.distance for part in shifts], axis=0)
        # each square root rounds to nearest: raised by that much the distance is not below the true one
        raised = distance * (1.0 + 2.3e-16 * (len(shifts) - 1))
        exact = sum(part.distance > 0 for part in shifts) <= 1
        shifts = [Shift(np.where(exact, distance, raised), np.maximum.reduce([part._grades for part in shifts]))]
    merged = shifts + rest
    live = [part for part in merged if _spectrum_of(part).costs.any()]
    graded = np.maximum.reduce([part._grades for part in merged])
    kept = live or merged[:1]
    if (np.maximum.reduce([part._grades for part in kept]) == graded).all():
        merged = kept
    return merged[0] if len(merged) == 1 else Composed(merged)


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


def _spectrum_of(part: Pairs) -> Spectrum:
    """Return the coordinates of a release."""
    if isinstance(part, Shift):
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
