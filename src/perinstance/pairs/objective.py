"""Objective perturbation of linear and ridge regression (MATH 1c)."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import CAUCHY_SCHWARZ, LARGEST
from perinstance.pairs.columns import Column, ColumnPairs
from perinstance.pairs.kinds import Kind
from perinstance.pairs.sums.coordinates import LossCoordinates


class ObjectivePair(ColumnPairs):
    """The pair of ``argmin ||y - X theta||^2/2 + lambda ||theta||^2/2 + b'theta`` with ``b ~ N(0, s^2 I)``.

    With H and theta those **without** the person and ``v = H^-1 x``: ``leverage`` is ``mu = x'H^-1 x``, ``residual`` is
    ``|y - x'theta|/s`` (the noise scale is absorbed here, and only here), ``x_squared`` is ``x'x`` and ``v_squared`` is
    ``v'v``. Only ``residual sqrt(x_squared)``, mu and ``x_squared v_squared`` matter; the last is at least ``mu^2``,
    with equality in one dimension. In units of the noise with the person, ``Q: N(0, I)`` and
    ``P: N(r x, (I + x v')(I + v x'))``: beyond the plane of x and v nothing changes. In the plane, with
    ``w^2 = x'x v'v - mu^2``, the excess variances are the roots of ``nu^2 - (2 mu + mu^2 + w^2) nu - w^2 = 0``, and the
    two variances multiply to ``(1 + mu)^2``.

    Examples
    --------
    >>> from perinstance.pairs import ObjectivePair
    >>> ObjectivePair(leverage=[0.01], residual=[0.5], x_squared=[1.0], v_squared=[0.0002]).epsilon(1e-6).round(4)
    array([2.4762])
    """

    __slots__ = ("_leverage", "_residual", "_x_squared", "_v_squared")
    FORMAT = ("objective", 1)
    OVER_NOISE = "residual"
    EXACT_UP_TO = MappingProxyType({"leverage": 4e9, "residual": 1e280, "x_squared": 1e280, "v_squared": 1e280})
    _leverage: Floats
    _residual: Floats
    _x_squared: Floats
    _v_squared: Floats
    leverage = Column("``mu = x'H^-1x``, H without the person.")
    residual = Column("``|y - x'theta|/s``, theta without the person, s the standard deviation of the perturbation.")
    x_squared = Column("``x'x``.")
    v_squared = Column("``||H^-1 x||^2``, H without the person.")

    def __init__(
        self,
        leverage: ArrayLike,
        residual: ArrayLike,
        x_squared: ArrayLike,
        v_squared: ArrayLike,
        kind: Kind | ArrayLike = "exact",
    ) -> None:
        super().__init__(kind, leverage=leverage, residual=residual, x_squared=x_squared, v_squared=v_squared)
        with np.errstate(invalid="ignore", over="ignore"):
            short = np.sqrt(self._x_squared) * np.sqrt(self._v_squared) < self._leverage * (1 - CAUCHY_SCHWARZ)
            x, v = np.sqrt(self._x_squared), np.sqrt(self._v_squared)
            for product, most in ((x * v, 4e9), (self._residual * x, 1e12)):
                self._bounded_only(np.nan_to_num(product, nan=0.0, posinf=LARGEST), most)
        if short.any():
            raise InvalidInput(
                f"x_squared * v_squared must be at least leverage**2 (Cauchy-Schwarz); {int(short.sum())} people "
                f"break it, the first at position {int(short.argmax())}; pass x'x, x'H^-1x, ||H^-1 x||^2 of the same H"
            )

    def coordinates(self) -> LossCoordinates:
        """Two Gaussian coordinates: the plane of x and v."""
        return LossCoordinates.objective(self._leverage, self._residual, self._x_squared, self._v_squared)
