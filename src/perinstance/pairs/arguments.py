"""Arguments of pairs, validated once: parameters, deltas, orders, rates, directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats

Direction = Literal["worst", "without", "with"]
DIRECTIONS: tuple[Direction, ...] = ("worst", "without", "with")


def people_array(name: str, values: ArrayLike) -> Floats:
    """Validate one parameter of the pairs: one dimension, no NaN, >= 0."""
    array = np.atleast_1d(real_values(name, values))
    if array.ndim != 1:
        raise InvalidInput(f"{name} must have one entry per person, got {array.ndim} dimensions; pass a 1-d array")
    if not array.min(initial=0.0) >= 0:  # one look that finds nothing is all that usual arrays cost
        bad = ~(array >= 0)
        raise InvalidInput(
            f"{name} must be a number >= 0 for each person, got {int(bad.sum())} entries that are not, "
            f"the first at position {int(bad.argmax())}"
        )
    return array


def people_table(name: str, values: ArrayLike, each: str, *, signed: bool = False) -> Floats:
    """Validate one parameter with several numbers per person, ``each`` of which is called so: no NaN."""
    array = real_values(name, values)
    if array.ndim != 2:
        what = f"a row per person and a number per {each}"
        raise InvalidInput(f"{name} must have {what}, got {array.ndim} dimensions; pass a 2-d array")
    bad = (np.isnan(array) if signed else ~(array >= 0.0)).any(axis=1)
    if bad.any():
        raise InvalidInput(
            f"{name} must be a number{'' if signed else ' >= 0'} (no NaN) per {each}, it is not for "
            f"{int(bad.sum())} people, the first at position {int(bad.argmax())}"
        )
    return array


def spread(array: ArrayLike, n: int) -> Floats:
    """Return one entry per person, contiguous and writeable, which is the one layout the kernels are compiled for."""
    array = np.asarray(array, dtype=np.float64)
    if array.shape != (n,):
        return np.full(n, array)
    return array if array.flags.carray else np.require(array, requirements=["C", "W"])


def filled(kernel: Callable[..., None], *given: Floats | int) -> Floats:
    """Return the number of each person that a kernel fills in; arrays come spread, the first of them per person."""
    n = len(given[0])  # type: ignore[arg-type]
    out = np.empty(n)
    kernel(*(one if isinstance(one, int) else spread(one, n) for one in given), out)
    return out


def frozen(array: Any) -> Any:
    """Return a view through which nobody can change the pairs."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_parts(wanted: type, parts: Any) -> None:
    """Refuse what cannot be put behind each other: anything but a list of pairs of one type."""
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
        raise InvalidInput(f"a list of pairs is concatenated, got {type(parts).__name__}; pass [one, other]")
    if not parts:
        raise InvalidInput("nothing to concatenate: got an empty list of pairs; pass at least one")
    others = {type(part).__name__ for part in parts if not isinstance(part, wanted)}
    if others:
        raise InvalidInput(
            f"only pairs of one type can be concatenated, here {wanted.__name__}, got {', '.join(sorted(others))}; "
            "concatenate each type by itself"
        )


def check_direction(direction: object) -> None:
    """Refuse a direction that does not exist."""
    if not isinstance(direction, str) or direction not in DIRECTIONS:
        raise InvalidInput(f"direction must be one of {DIRECTIONS}, got {direction!r}")


def delta_array(delta: ArrayLike, n: int, *, zero: bool = True) -> Floats:
    """Validate delta: in [0, 1), one number or one per person."""
    array = _one_or_each("delta", delta, n)
    bad = ~((array >= 0) & (array < 1)) if zero else ~((array > 0) & (array < 1))
    if bad.any():
        first = float(array.ravel()[int(np.argmax(bad))])
        raise InvalidInput(f"delta must lie in (0, 1), got {first:g}; try delta=1e-6")
    return array


def real_array(name: str, values: ArrayLike, n: int) -> Floats:
    """Validate a real argument (an epsilon, an order): one number or one per person, no NaN."""
    array = _one_or_each(name, values, n)
    if np.isnan(array).any():
        raise InvalidInput(f"{name} must be a number, got NaN")
    return array


def _one_or_each(name: str, values: ArrayLike, n: int) -> Floats:
    array = real_values(name, values)
    if array.ndim > 1 or (array.ndim == 1 and array.shape != (n,)):
        raise InvalidInput(f"{name} must be one number or one per person ({n}), got shape {array.shape}")
    return array
