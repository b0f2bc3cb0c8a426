"""How certain an answer is: ``exact``, ``upper`` (never below the truth) or ``estimate``; one word per person."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput

Kind = Literal["exact", "upper", "estimate"]
#: What may be asked for: a kind, or the strongest one that the model affords at a reasonable cost.
Method = Literal["auto", "exact", "upper", "estimate"]

KINDS: tuple[Kind, ...] = ("exact", "upper", "estimate")  # from the strongest claim to the weakest
METHODS: tuple[Method, ...] = ("auto", *KINDS)


def check_method(method: str) -> None:
    """Refuse a method that does not exist."""
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {METHODS}, got {method!r}")


def kind_codes(kind: Kind | ArrayLike, n: int) -> NDArray[np.uint8]:
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
