"""What every vector of pairs can do: one interface, six implementations.

A pair is two distributions of the published output: P **without** the person and Q **with** her. Everything the
product states about privacy is a functional of such pairs; a ``Pairs`` holds one for each person, as arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput

Direction = Literal["worst", "without", "with"]
Kind = Literal["exact", "upper", "estimate"]
Floats = NDArray[np.float64]

KINDS: tuple[Kind, ...] = ("exact", "upper", "estimate")  # from the strongest claim to the weakest
DIRECTIONS: tuple[Direction, ...] = ("worst", "without", "with")

#: From this many people on it pays to prepare tables for their common delta.
MANY = 512

Self = TypeVar("Self", bound="Pairs")


class Pairs(ABC):
    """One pair of distributions per person.

    ``direction`` is ``"without"`` for P over Q, ``"with"`` for Q over P and ``"worst"`` for the larger of the two.
    """

    __slots__ = ("_grades",)

    #: One code per person: an index into ``KINDS``.
    _grades: NDArray[np.uint8]

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self: Self, index: Any) -> Self:
        """Return the pairs of some people: a slice, a mask, an array of positions or one position."""

    @abstractmethod
    def delta(self, epsilon: ArrayLike, direction: Direction = "worst") -> Floats:
        """``sup_S P(S) - e^epsilon Q(S)`` for any real epsilon."""

    @abstractmethod
    def epsilon(self, delta: ArrayLike, direction: Direction = "worst") -> Floats:
        """Return the smallest epsilon >= 0 with ``delta(epsilon) <= delta``; never below the true value."""

    @abstractmethod
    def renyi(self, alpha: ArrayLike, direction: Direction = "worst") -> Floats:
        """Return the Renyi divergence of order alpha >= 1 (alpha = 1 is the Kullback-Leibler limit)."""

    @abstractmethod
    def zcdp(self) -> Floats:
        """Return the smallest rho such that ``renyi(alpha) <= rho alpha`` for all alpha > 1, in both directions."""

    @abstractmethod
    def attack_power(self, false_positive_rate: ArrayLike) -> Floats:
        """Return the true-positive rate of the most powerful membership test at a false-positive rate.

        The null hypothesis is that the person is **not** in the data.
        """

    @abstractmethod
    def _columns(self) -> dict[str, Floats]:
        """Return the parameters of the pairs, one array per name: what ``to_frame`` shows and ``+`` composes."""

    @classmethod
    @abstractmethod
    def concatenate(cls: type[Self], parts: list[Self]) -> Self:
        """Put vectors of pairs of one type behind each other."""

    def kl(self, direction: Direction = "worst") -> Floats:
        """Return the Kullback-Leibler divergence."""
        return self.renyi(1.0, direction)

    def tv(self) -> Floats:
        """Return the total variation distance, which is ``delta(0)`` in either direction."""
        return self.delta(0.0, "without")

    @property
    def kinds(self) -> NDArray[np.str_]:
        """Of each person: ``"exact"``, ``"upper"`` or ``"estimate"``."""
        return np.array(KINDS)[self._grades]

    @property
    def kind(self) -> Kind:
        """The weakest claim among all these people."""
        return KINDS[int(self._grades.max(initial=0))]

    def __add__(self, other: Pairs) -> Pairs:
        """Compose independent releases on the same people."""
        from perinstance.pairs.composed import compose

        return compose([self, other])

    def to_frame(self) -> Any:
        """Return the parameters as a pandas DataFrame (pandas must be installed)."""
        import pandas as pd

        return pd.DataFrame({**self._columns(), "kind": self.kinds})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} people, {self.kind})"


def people_array(name: str, values: ArrayLike, *, signed: bool = False) -> Floats:
    """Validate one parameter of the pairs: one dimension, no NaN, >= 0 unless ``signed``."""
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if array.ndim != 1:
        raise InvalidInput(f"{name} must have one entry per person, got {array.ndim} dimensions; pass a 1-d array")
    least = array.min(initial=0.0)  # one look that finds nothing is all that usual arrays cost; NaN comes through
    if np.isnan(least) or (least < 0 and not signed):
        bad = np.isnan(array) if signed else ~(array >= 0)
        what = "a number" if signed else "a number >= 0"
        raise InvalidInput(
            f"{name} must be {what} for each person, got {int(bad.sum())} entries that are not, "
            f"the first at position {int(bad.argmax())}"
        )
    return array


def same_length(**arrays: Floats) -> tuple[Floats, ...]:
    """Broadcast parameters of length one to the others' length; anything else must agree."""
    lengths = {name: len(array) for name, array in arrays.items()}
    n = max(lengths.values()) if 0 not in lengths.values() else 0
    if any(length not in (1, n) for length in lengths.values()):
        raise InvalidInput(f"parameters must have the same length, got {lengths}; pass one entry per person in each")
    return tuple(np.broadcast_to(array, (n,)) if len(array) != n else array for array in arrays.values())


def rate_array(rate: ArrayLike, n: int) -> Floats:
    """Validate a false-positive rate: in [0, 1], one number or one per person."""
    array = real_array("false_positive_rate", rate, n)
    if not ((array >= 0) & (array <= 1)).all():
        raise InvalidInput("false_positive_rate must lie in [0, 1]; try 0.01")
    return array


def order_array(alpha: ArrayLike, n: int) -> Floats:
    """Validate a Renyi order: at least 1 (infinity included), one number or one per person."""
    array = real_array("alpha", alpha, n)
    if not (array >= 1).all():
        raise InvalidInput(f"alpha must be at least 1, got {float(array.min()):g}; alpha = 1 is the KL divergence")
    return array


def spread(array: ArrayLike, n: int) -> Floats:
    """Return one entry per person, contiguous and writeable, which is the one layout the kernels are compiled for."""
    array = np.asarray(array, dtype=np.float64)
    return np.full(n, array) if array.shape != (n,) else np.require(array, requirements=["C", "W"])


def frozen(array: Floats) -> Floats:
    """Return a view through which nobody can change the pairs."""
    view = array.view()
    view.flags.writeable = False
    return view


def positions(index: Any) -> Any:
    """Turn one position into an array of one, so that one person is still a vector of pairs."""
    return [index] if isinstance(index, (int, np.integer)) else index


def grades(kind: Kind | ArrayLike, n: int) -> NDArray[np.uint8]:
    """Codes of a kind given for everybody, or of one kind per person."""
    if isinstance(kind, str):
        if kind not in KINDS:
            raise InvalidInput(f"kind must be one of {KINDS}, got {kind!r}")
        return np.full(n, KINDS.index(kind), dtype=np.uint8)
    codes = np.asarray(kind)
    if codes.dtype.kind in "US":
        unknown = ~np.isin(codes, KINDS)
        if unknown.any():
            raise InvalidInput(f"kind must be one of {KINDS}, got something else at position {int(unknown.argmax())}")
        codes = np.select([codes == name for name in KINDS], range(len(KINDS))).astype(np.uint8)
    if codes.shape != (n,):
        raise InvalidInput(f"kind must be one word or one per person ({n}), got shape {codes.shape}")
    return codes.astype(np.uint8, copy=False)


def check_direction(direction: str) -> None:
    """Refuse a direction that does not exist."""
    if direction not in DIRECTIONS:
        raise InvalidInput(f"direction must be one of {DIRECTIONS}, got {direction!r}")


def delta_array(delta: ArrayLike, n: int, *, zero: bool = True) -> Floats:
    """Validate delta: in [0, 1), one number or one per person."""
    array = np.asarray(delta, dtype=np.float64)
    if array.ndim > 1 or (array.ndim == 1 and array.shape != (n,)):
        raise InvalidInput(f"delta must be one number or one per person ({n}), got shape {array.shape}")
    bad = ~((array >= 0) & (array < 1)) if zero else ~((array > 0) & (array < 1))
    if bad.any():
        first = float(array.ravel()[int(np.argmax(bad))])
        raise InvalidInput(f"delta must lie in (0, 1), got {first:g}; try delta=1e-6")
    return array


def real_array(name: str, values: ArrayLike, n: int) -> Floats:
    """Validate a real argument (an epsilon, an order): one number or one per person, no NaN."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim > 1 or (array.ndim == 1 and array.shape != (n,)):
        raise InvalidInput(f"{name} must be one number or one per person ({n}), got shape {array.shape}")
    if np.isnan(array).any():
        raise InvalidInput(f"{name} must be a number, got NaN")
    return array
