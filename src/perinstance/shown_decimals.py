"""Losses as decimal text that is never below the number: exact decimal arithmetic, rounded up."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal

# More digits than any float has, before or after its point: what is computed with it is exact.
_EXACT = Context(prec=2000, rounding=ROUND_CEILING)


def rounded_up(value: float, digits: int) -> Decimal:
    """Return the smallest decimal >= value > 0 of so many significant digits.

    >>> rounded_up(0.12341, 3), rounded_up(0.5, 3), rounded_up(0.9991, 3)
    (Decimal('0.124'), Decimal('0.500'), Decimal('1.00'))
    """
    exact = Decimal(float(value))
    up = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), context=_EXACT)
    return up.quantize(Decimal(1).scaleb(up.adjusted() - digits + 1), context=_EXACT)  # 0.9991 became 1.000


def loss_text(value: float, digits: int = 3) -> str:
    """Write a loss rounded up, with so many significant digits or, from there on, as a whole number.

    >>> loss_text(0.12341), loss_text(0.0), loss_text(float("inf")), loss_text(12345.6), loss_text(1.2341e-7)
    ('0.124', '0', '∞', '12,346', '1.24e-07')
    """
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "∞"
    if value <= 0:
        return "0"
    exponent = Decimal(float(value)).adjusted()
    if -5 < exponent < 15:
        return f"{rounded_up(value, max(digits, exponent + 1)):,f}"
    up = rounded_up(value, digits)
    return f"{up.scaleb(-up.adjusted(), _EXACT):.{digits - 1}f}e{up.adjusted():+03d}"


def short_loss_text(value: float, digits: int = 6) -> str:
    """Write a loss as the format ``.6g`` does, without trailing zeros, but rounded up.

    >>> short_loss_text(1.0), short_loss_text(0.1234561), short_loss_text(1e-6)
    ('1', '0.123457', '1e-06')
    """
    if not value > 0 or math.isinf(value):
        return f"{value:.{digits}g}"
    up = rounded_up(value, digits).normalize(_EXACT)
    if -5 < up.adjusted() < digits:
        return f"{up:f}"
    return f"{up.scaleb(-up.adjusted(), _EXACT):f}e{up.adjusted():+03d}"


def declared_text(value: float) -> str:
    """Write a number that somebody declared as they wrote it: all its digits, none cut off.

    >>> declared_text(1.0), declared_text(0.1), declared_text(1e-6), declared_text(1.23456789)
    ('1', '0.1', '1e-06', '1.23456789')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


LARGEST = 700.0  # beyond, exp overflows


def promise_sentence(epsilon: float, delta: float, target: str | None = None, rows: int | None = None) -> str:
    """Say what (epsilon, delta) means to one person: ``P(S) <= e^epsilon Q(S) + delta`` for every conclusion S.

    ``rows`` of a person are used at most; None where a row is a person.

    >>> promise_sentence(1.0, 1e-6, "cost")[-112:]
    'This holds for every person, whatever stands in their record (differential privacy, epsilon = 1, delta = 1e-06).'
    """
    factor = loss_text(math.exp(epsilon)) if epsilon < LARGEST else "infinity"
    record, them, used = "record", "it", ""
    if rows is not None:
        record, them, used = "records", "them", f", with at most {rows:,} record{'s'[: rows > 1]} of each person used"
    of = "" if target is None else f" for {target!r}"
    return (
        f"We published a formula{of} that was computed from many people's records, with noise that protects each of "
        "them. Whatever anybody may conclude about you from the formula, they might have concluded without your "
        f"{record} too: with and without {them}, the chance of any conclusion differs by a factor of at most {factor}, "
        f"and a remainder of at most {declared_text(delta)}. This holds for every person, whatever stands in their "
        f"{record}{used} (differential privacy, epsilon = {declared_text(epsilon)}, delta = {declared_text(delta)})."
    )
