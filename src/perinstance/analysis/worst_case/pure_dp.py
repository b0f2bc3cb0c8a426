"""The pure-DP statement that the paper's figure compares with: posterior sampling as an exponential mechanism."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from perinstance.analysis.bounds.declared_bounds import declared_bound
from perinstance.errors import InvalidInput
from perinstance.numerics.rounding import LARGEST
from perinstance.pairs.interface.kinds import Kind
from perinstance.record_tables import ShownAsTable


@dataclass(frozen=True, slots=True)
class PureDP(ShownAsTable):
    """The pure-DP statement of a posterior sample whose theta is confined to a ball (an exponential mechanism)."""

    epsilon: float
    as_published: float  #: Wang, Fienberg and Smola (2015): 4 sup |log-likelihood|, for replacing a person
    kind: Kind
    assumptions: tuple[str, ...]


def exponential_mechanism(gamma: float, x_bound: float, y_bound: float, theta_bound: float) -> PureDP:
    """Return pure DP of a posterior sample confined to ``||theta|| <= theta_bound``.

    One person changes the exponent ``-gamma/2 ||y - X theta||^2`` by a number between ``-B`` and 0,
    ``B = gamma/2 (y_bound + x_bound theta_bound)^2``, and the normaliser by a factor in ``[e^-B, 1]``: epsilon = B for
    adding or removing one person.

    >>> exponential_mechanism(gamma=1.0, x_bound=1.0, y_bound=1.0, theta_bound=1.0).epsilon
    2.0
    """
    if not 0 < gamma < math.inf:
        raise InvalidInput(f"gamma must be a finite number > 0, got {gamma:g}")
    y, x, theta = (
        Fraction(declared_bound(name, value))
        for name, value in (("y_bound", y_bound), ("x_bound", x_bound), ("theta_bound", theta_bound))
    )
    B = _rounded_up(Fraction(gamma) / 2 * (y + x * theta) ** 2)
    return PureDP(
        B,
        4 * B,
        "upper",
        ("theta is sampled on the ball ||theta|| <= theta_bound only: not the Gaussian sample", "every data set"),
    )


def _rounded_up(exact: Fraction) -> float:
    """Return the smallest float that is no less."""
    if exact > Fraction(LARGEST):
        return math.inf
    found = float(exact)
    return found if found >= exact else math.nextafter(found, math.inf)
