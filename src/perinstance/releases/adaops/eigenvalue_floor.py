"""Which floor of the smallest eigenvalue AdaOPS aims at, from public and already released numbers alone.

In units where ``B_x = B_y = 1``: with ``low <= lambda_min(X'X)`` and a ridge that lifts the smallest eigenvalue to the
floor h, a posterior sample of inverse temperature gamma has expected excess risk

    sum_j ridge^2 g_j theta_j^2 / (g_j + ridge)^2  +  (1/gamma) sum_j g_j / (g_j + ridge)

where g are the eigenvalues of X'X. Nobody knows g and theta; the rule supposes a harmonic spectrum (``g_j ~ 1/j``, rows
of full length, no g below ``low``) and labels whose bound is five standard deviations, all of it linear. A wrong guess
costs accuracy, never privacy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP
from perinstance.releases.promises.calibration import Corners
from perinstance.releases.promises.private_bounds import PrivateBound

LABEL_VARIANCE = 1.0 / 25.0  # of the label's squared bound: a bound is commonly put at five standard deviations


@dataclass(frozen=True, slots=True)
class Known:
    """What is public or already released when the floor is chosen."""

    n: float  #: about how many people
    n_upper: float  #: no fewer than there are (but for the charged failure)
    d: int
    low: float  #: no more than the smallest eigenvalue / B_x^2 (but for the charged failure)
    size: PrivateBound | None  #: how the size of the estimate will be released, if it is


@dataclass(frozen=True, slots=True)
class Choice:
    """A floor, and the error the rule predicts for it."""

    index: int
    error: float


def ridges(floors: Floats, low: float) -> Floats:
    """Return the ridge that lifts the smallest eigenvalue to each floor, rounded up."""
    return np.maximum(0.0, floors - max(low, 0.0)) * BOUND_UP


def residual_bound(floors: Floats, low: float, n_upper: float) -> Floats:
    """Bound ``|y - x'theta|`` for all people: ``1 + sqrt(n) max_s s/(s^2 + ridge)`` over singular values s of X.

    ``||theta|| <= ||(X'X + ridge I)^-1 X'|| ||y||`` and ``s^2 >= low``; the maximum is at ridge or at low.
    """
    low = max(low, 0.0)
    ridge = ridges(floors, low)
    with np.errstate(divide="ignore"):
        gain = np.where(low >= ridge, np.sqrt(low) / (low + ridge), 0.5 / np.sqrt(ridge))
    return (1.0 + np.sqrt(max(n_upper, 0.0)) * gain) * BOUND_UP


def size_sensitivity(floors: ArrayLike) -> Floats:
    """Return how far one person moves ``log(1 + ||theta||)``: at most ``log(1 + 1/h)``, rounded up."""
    return np.log1p(1.0 / np.asarray(floors)) * BOUND_UP


def predicted_errors(corners: Corners, known: Known) -> Floats:
    """Return the predicted excess risk (sum over people) at each floor."""
    h, rho = corners.floors, corners.residuals
    j = np.arange(1, known.d + 1)
    g = np.maximum(known.n / (j * np.sum(1.0 / j)), max(known.low, 0.0))[:, None]
    theta2 = LABEL_VARIANCE * known.n / g.sum()
    ridge = ridges(h, known.low)
    bound = residual_bound(h, known.low, known.n_upper)
    if known.size is not None:
        size = 1.0 + np.sqrt(known.d * theta2)
        with np.errstate(over="ignore"):
            margin = known.size.quantile * size_sensitivity(h) / known.size.distance
            bound = np.minimum(bound, size * np.exp(margin))
    bias = (ridge**2 * g / (g + ridge) ** 2 * theta2).sum(axis=0)
    return bias + (bound / rho) ** 2 * (g / (g + ridge)).sum(axis=0)


def choose(corners: Corners, known: Known, kappa: float | None = None) -> Choice:
    """Choose the floor of the smallest predicted error, or the one that a declared kappa asks for.

    kappa says that the smallest eigenvalue is at least ``n B_x^2 / (d kappa)``: that, rounded down, is the floor.
    """
    errors = predicted_errors(corners, known)
    if kappa is None:
        index = int(np.argmin(errors))
    else:
        index = max(int(np.searchsorted(corners.floors, known.n / (known.d * kappa), side="right")) - 1, 0)
    return Choice(index, float(errors[index]))
