"""Isotropic Student noise of public degrees of freedom: tails so heavy that the loss is bounded."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import raised_from_underflow
from perinstance.numerics.rounding import FEW_ROUNDINGS, TWO_ROUNDINGS
from perinstance.pairs.arguments import Direction, filled, spread
from perinstance.pairs.closed_form.student import student_deltas, student_epsilons, student_powers, student_renyi
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.kinds import Kind

#: Degrees of freedom and dimensions for which the quadrature is fast enough to be of use.
LEAST_FREEDOM, MOST = 0.1, 1e4


class StudentShift(ColumnPairs):
    """Two densities ``~ (1 + |x|^2/nu)^(-(nu + d)/2)``, ``distance`` D apart in units of the scale.

    The loss is at most ``(nu + d) arsinh(D/(2 sqrt(nu)))``, so delta = 0 has a finite epsilon. Where one density
    exceeds ``e^epsilon`` times the other is a ball, whose probabilities are integrals without cancellation
    (``closed_form/student.py``). Both directions agree, by reflection. ``renyi`` is rounded up, ``zcdp`` is an upper
    bound.

    Examples
    --------
    >>> from perinstance.pairs import StudentShift
    >>> pairs = StudentShift([0.1, 1.0], degrees_of_freedom=5.0, dimension=1.0)
    >>> pairs.epsilon([0.0, 1e-3]).round(4)
    array([0.1342, 1.3091])
    """

    __slots__ = ("_distance", "_degrees_of_freedom", "_dimension")
    FORMAT = ("student", 1)
    OVER_NOISE = "distance"
    NO_LOSS = {"degrees_of_freedom": 1.0, "dimension": 1.0}
    EXACT_UP_TO = MappingProxyType({"distance": 1e95})  # beyond, epsilon is stated as infinite
    _distance: Floats
    _degrees_of_freedom: Floats
    _dimension: Floats
    distance = Column("``|shift| / scale``.")
    degrees_of_freedom = Column("nu, public.")
    dimension = Column("d, of the published vector.")

    def __init__(
        self,
        distance: ArrayLike,
        degrees_of_freedom: ArrayLike,
        dimension: ArrayLike,
        kind: Kind | ArrayLike = "exact",
    ) -> None:
        super().__init__(kind, distance=distance, degrees_of_freedom=degrees_of_freedom, dimension=dimension)
        nu, d = self._degrees_of_freedom, self._dimension
        if not ((nu >= LEAST_FREEDOM) & (nu <= MOST)).all():
            raise InvalidInput(
                f"degrees_of_freedom must lie in [{LEAST_FREEDOM:g}, {MOST:g}]; above, use GaussianShift"
            )
        if not ((d >= 1) & (d <= MOST) & (d == np.floor(d))).all():
            raise InvalidInput(f"dimension must be a whole number from 1 to {MOST:g}; pass the length of the vector")

    def _arrays(self) -> tuple[Floats, Floats, Floats]:
        """Return the distance in units of ``sqrt(nu)``, nu and d, as the kernels take them.

        All that is asked grows with the distance: it is raised by what it lost, and by what the hyperbolic sine of a
        loss loses that is compared with it.
        """
        with np.errstate(over="ignore"):
            b = self._distance / np.sqrt(self._degrees_of_freedom)
            b = b * (1.0 + TWO_ROUNDINGS * (4.0 + np.arcsinh(b)))
        return b, self._degrees_of_freedom, self._dimension

    def _delta(self, epsilon: Floats, direction: Direction) -> Floats:
        return filled(student_deltas, epsilon, *self._arrays())

    def _epsilon(self, delta: Floats, direction: Direction) -> Floats:
        return filled(student_epsilons, spread(delta, len(self)), *self._arrays())

    def _renyi(self, alpha: Floats, direction: Direction) -> Floats:
        """``log E_P[(p/q)^(alpha - 1)]/(alpha - 1)`` by quadrature."""
        return raised_from_underflow(filled(student_renyi, alpha, *self._arrays()), self._distance > 0)

    def zcdp(self) -> Floats:
        """An upper bound: of a loss bounded by E, ``renyi(alpha) <= min(alpha E^2/2, E)``."""
        most = self.epsilon(0.0)
        with np.errstate(over="ignore"):
            return raised_from_underflow(np.minimum(0.5 * most**2 * (1 + FEW_ROUNDINGS), most), self._distance > 0)

    def _power(self, rate: Floats) -> Floats:
        """``min_epsilon delta(epsilon) + e^epsilon r``: the trade-off curve is the dual of the profile."""
        return filled(student_powers, rate, *self._arrays())
