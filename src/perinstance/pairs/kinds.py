"""How certain an answer is: ``exact``, ``upper`` (never below the truth) or ``estimate``; one word per person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.errors import InvalidInput

Kind = Literal["exact", "upper", "estimate"]
#: What may be asked for: a kind, or the strongest one that the model affords at a reasonable cost.
Method = Literal["auto", "exact", "upper", "estimate"]

KINDS: tuple[Kind, ...] = ("exact", "upper", "estimate")  # from the strongest claim to the weakest
METHODS: tuple[Method, ...] = ("auto", *KINDS)


def weakest(*kinds: Kind | Iterable[Kind]) -> Kind:
    """Return the kind of whatever is made of parts of these kinds: it is never more certain than its weakest part.

    >>> weakest("exact", "upper"), weakest(["exact", "estimate"], "upper"), weakest()
    ('upper', 'estimate', 'exact')
    """
    words = [word for kind in kinds for word in ([kind] if isinstance(kind, str) else kind)]
    unknown = [word for word in words if word not in KINDS]
    if unknown:
        raise InvalidInput(f"kind must be one of {KINDS}, got {unknown[0]!r}")
    return max(words, key=KINDS.index, default=KINDS[0])


def weakest_codes(*codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the same person by person: one code for each, from several codes of each."""
    return np.maximum.reduce(codes)


def weakest_of_codes(codes: NDArray[np.uint8]) -> Kind:
    """Return the weakest claim among these people; nobody claims nothing."""
    return KINDS[int(codes.max(initial=0))]


def is_bound(kind: Kind) -> bool:
    """Tell whether a number of this kind is never below the truth: only then may words like "guarantee" stand by it."""
    return weakest(kind) != "estimate"


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
    try:
        codes = np.asarray(kind)
    except ValueError:
        raise InvalidInput("kind must be one word or one per person, got rows of different lengths") from None
    if not codes.size:  # nobody has none of either
        codes = codes.astype(np.uint8)
    elif codes.dtype.kind in "OT" and all(isinstance(word, str) for word in codes.ravel().tolist()):
        codes = codes.astype(np.str_)  # words of a frame are objects to numpy
    if codes.dtype.kind in "US":
        unknown = ~np.isin(codes, KINDS)
        if unknown.any():
            raise InvalidInput(f"kind must be one of {KINDS}, got something else at position {int(unknown.argmax())}")
        codes = np.select([codes == name for name in KINDS], range(len(KINDS))).astype(np.uint8)
    elif codes.dtype.kind not in "iu" or not 0 <= codes.min(initial=0) <= codes.max(initial=0) < len(KINDS):
        raise InvalidInput(f"kind must be one of {KINDS} for each person, or its position there, got something else")
    if codes.shape != (n,):
        raise InvalidInput(f"kind must be one word or one per person ({n}), got shape {codes.shape}")
    return codes.astype(np.uint8, copy=False)
