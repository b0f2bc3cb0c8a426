"""pDP with assumptions on the data set: everybody's loss when two numbers about the data are known (or bought).

If the smallest eigenvalue of ``H = X'X + lambda I`` is at least h and ``||theta_hat|| <= B``, then for everybody with
``||x|| <= B_x``, ``|y| <= B_y``: ``mu <= B_x^2/h`` and ``|r| <= B_y + B_x B``. Both are reached by one x, along the
weakest direction when theta_hat points there too, so the exact loss at that corner is the supremum (posterior sample).
For output perturbation ``sqrt(q)/(1 + B_x^2 M) <= sqrt(M/h)/(1 + B_x^2 M)``, largest at ``M = min(1/h, 1/B_x^2)``.

This is the paper's agnostic proposition; ``closed_form`` is its formula with the constants mended,

    1/2 |gamma mu r^2/(1 + mu) - log(1 + mu)| + mu log(2/delta) + r sqrt(2 gamma mu log(2/delta)).

Beside it the pure-DP statement that the paper's figure compares with: posterior sampling as an exponential mechanism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from perinstance.analysis.branch_and_bound import objective_upper, posterior_upper, shift_upper
from perinstance.analysis.declared_bounds import declared_bound, ridge_mechanism
from perinstance.errors import InvalidInput
from perinstance.numerics.rounding import BOUND_UP, LARGEST, NORM_UP
from perinstance.pairs.arguments import delta_array
from perinstance.pairs.kinds import Kind
from perinstance.record_tables import ShownAsTable


@dataclass(frozen=True, slots=True)
class Assumed(ShownAsTable):
    """A loss that holds for everybody in the domain, on every data set that meets the assumptions. Public."""

    epsilon: float
    delta: float
    leverage: float  #: the corner: mu
    residual: float  #: the corner: |r|
    closed_form: float | None  #: the paper's formula, mended (posterior sample only): an upper bound
    kind: Kind
    assumptions: tuple[str, ...]


def with_assumptions(
    release: Any,
    delta: float = 1e-6,
    *,
    smallest_eigenvalue: float,
    theta_bound: float,
    x_bound: float = 1.0,
    y_bound: float = 1.0,
) -> Assumed:
    """Return everybody's loss on all data sets whose H and estimate keep to the two bounds."""
    c = ridge_mechanism(release)
    delta = float(delta_array(delta, 1, zero=False))
    h = float(smallest_eigenvalue)
    if not h > 0:
        raise InvalidInput(f"smallest_eigenvalue must be > 0, got {h:g}; it is that of X'X + alpha I")
    if c.fit_intercept:
        x_bound = (declared_bound("x_bound", x_bound) ** 2 + 1) ** 0.5  # the constant is one more feature
    t, y_bound = declared_bound("x_bound", x_bound), declared_bound("y_bound", y_bound)
    r = (y_bound + t * declared_bound("theta_bound", theta_bound)) * BOUND_UP
    mu = t**2 / h * BOUND_UP
    closed: float | None = None
    kind: Kind = "upper"
    if c.family == "posterior":
        log = np.log(2 / delta)
        closed = 0.5 * abs(c.gamma * mu * r**2 / (1 + mu) - np.log1p(mu)) + mu * log
        closed = float(closed + r * np.sqrt(2 * c.gamma * mu * log))
        epsilon = float(posterior_upper(mu, r / c.scale, delta))
        kind = "exact" if mu**2 <= 1 + mu else "upper"
    elif c.family == "output":
        stretch = 1.0 if c.precision is None else float(np.linalg.eigvalsh(c.precision)[-1])
        M = min(1 / h, 1 / t**2) if t > 0 else 1 / h
        distance = r * t * np.sqrt(stretch * M / h) / c.scale / (1 + t**2 * M) * BOUND_UP
        epsilon = float(shift_upper(distance, delta))
        # reached by x along the weakest direction, unless it would damp itself or A is not round
        kind = "exact" if mu <= 1 and c.precision is None else "upper"
    else:  # kappa^2 = t^4 (q - M^2) <= t^4 (M/h - M^2), in cells of M
        edges = np.linspace(0.0, 1 / h, 65)
        M1, M2 = edges[:-1], edges[1:]
        peak = np.clip(0.5 / h, M1, M2)
        kappa = t**2 * np.sqrt(np.maximum(peak / h - peak**2, 0.0)) * NORM_UP
        epsilon = float(objective_upper(r * t / c.scale, t**2 * M2 * NORM_UP, kappa, delta).max())
    assumptions = (
        f"lambda_min(X'X + alpha I) >= {h:g} and ||theta_hat|| <= {theta_bound:g}",
        f"||x|| <= {t:g}{' with the constant' if c.fit_intercept else ''}, |y| <= {y_bound:g}",
        "taken from the data, the two numbers are confidential: declare them, or release them with noise",
    )
    return Assumed(epsilon, delta, mu, r, closed, kind, assumptions)


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
    given = {"y_bound": y_bound, "x_bound": x_bound, "theta_bound": theta_bound}
    y, x, theta = (Fraction(declared_bound(name, value)) for name, value in given.items())
    exact, B = Fraction(gamma) / 2 * (y + x * theta) ** 2, math.inf
    if exact <= Fraction(LARGEST):  # the smallest float that is no less
        B = float(exact)
        B = B if exact <= B else math.nextafter(B, math.inf)
    sampled = "theta is sampled on the ball ||theta|| <= theta_bound only: not the Gaussian sample"
    return PureDP(B, 4 * B, "upper", (sampled, "every data set"))
