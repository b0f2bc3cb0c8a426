"""AdaOPS as a mechanism: a few noisy numbers, then one posterior sample as cold as the promise allows (MATH 4).

1. (only when n is not public) ``n~ = n + noise``, and ``n <= n~ + q s`` but for a charged probability
2. ``lambda~ = lambda_min(X'X) + noise`` (Weyl: one person moves it by at most B_x^2), ``low = lambda~ - q s``
3. a floor h from public floors, by a rule that sees only what is released; ``ridge = max(0, h - low)``
4. (only when that predicts a smaller error) ``log(B_y + B_x ||theta||) + noise``: one person moves it by at most
   ``log(1 + B_x^2/h)``, because ``||theta_with - theta_without|| <= (B_x/h) |y - x'theta|``
5. ``theta ~ N(theta_hat, H^-1/gamma)``, ``gamma = (rho_h / sup|y - x'theta|)^2`` with rho_h calibrated for that floor

The parts 1, 2 and 4 are Gaussian with distances fixed in advance; whatever floor they lead to, the sample stays below
the envelope of all corners (``promise``). Bounds hold on the data set without the person, whoever runs the release:
``q`` is widened by the distance that one person can move the noisy number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.releases.calibration import Corners, corners, gaussian_distance, noise_scale, tail_quantile
from perinstance.releases.floor import Choice, Known, choose, residual_bound, ridges, size_scale
from perinstance.releases.promise import Promise
from perinstance.releases.windows import PosteriorWindow

Floats = NDArray[np.float64]

FAILURE = 0.1  # of delta, for bounds that may not hold
EIGENVALUE, COUNT, SIZE = 0.03, 0.03, 0.15  # shares of the squared Gaussian distance


@dataclass(frozen=True, slots=True)
class Request:
    """What the user declared. All of it is public."""

    epsilon: float
    delta: float
    x_bound: float
    y_bound: float
    d: int
    n_public: int | None
    kappa: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """How the budget is spent: a function of the request alone."""

    request: Request
    eigenvalue_distance: float
    count_distance: float  #: 0 when n is public
    size_distance: float  #: 0 when the size of the estimate is not released
    failure: float  #: of each bound
    corners: Corners

    @property
    def eigenvalue_scale(self) -> float:
        """Standard deviation of the noise on the smallest eigenvalue."""
        return noise_scale(self.request.x_bound**2 * (1.0 + 1e-15), self.eigenvalue_distance)

    @property
    def count_scale(self) -> float:
        """Standard deviation of the noise on n."""
        return noise_scale(1.0, self.count_distance)

    def size_scale(self, floor: float) -> float:
        """Return the standard deviation of the noise on the size of the estimate."""
        return float(size_scale(np.array([floor]), self.size_distance)[0])


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run published, and with which parameters. Public when the window was exact."""

    coef: Floats
    ridge: float
    gamma: float
    floor: float
    eigenvalue: float
    count: float | None
    log_size: float | None
    promise: Promise


def plan(request: Request) -> Plan:
    """Spend the budget. With a public n, the size of the estimate is bought only if that predicts a smaller error.

    Without one nothing can be predicted before n is released, so the size is always bought; the smaller of its bound
    and the one from n is used.
    """
    with_size = _spend(request, True)
    if request.n_public is None:
        return with_size
    without = _spend(request, False)
    return min(without, with_size, key=lambda candidate: predict(candidate, float(request.n_public or 1), 0.0).error)


def predict(spent: Plan, n: float, low: float, n_upper: float | None = None) -> Choice:
    """Choose a floor knowing these numbers (``low`` in units of B_x^2)."""
    quantile = tail_quantile(spent.failure, spent.size_distance)
    known = Known(n, n if n_upper is None else n_upper, spent.request.d, low, spent.size_distance, quantile)
    return choose(spent.corners, known, spent.request.kappa)


def run(spent: Plan, window: PosteriorWindow) -> Outcome:
    """Look through the window and publish one posterior sample."""
    ask = spent.request
    count, n, n_upper = None, float(ask.n_public or 0), float(ask.n_public or 0)
    if ask.n_public is None:
        count = window.count(spent.count_scale)
        n, n_upper = max(count, 1.0), count + tail_quantile(spent.failure, 0.0) * spent.count_scale
    eigenvalue = window.eigenvalue(spent.eigenvalue_scale)
    low = eigenvalue - tail_quantile(spent.failure, spent.eigenvalue_distance) * spent.eigenvalue_scale
    low = max(low, 0.0) / ask.x_bound**2 * (1.0 - 1e-12)
    index = predict(spent, n, low, n_upper).index
    floor, rho = spent.corners.floors[index : index + 1], float(spent.corners.residuals[index])
    ridge = float(ridges(floor, low)[0]) * ask.x_bound**2
    bound = float(residual_bound(floor, low, n_upper)[0]) * ask.y_bound
    log_size = None
    if spent.size_distance > 0:
        scale = spent.size_scale(float(floor[0]))
        log_size = window.log_size(ridge, ask.x_bound, ask.y_bound, scale)
        highest = log_size + tail_quantile(spent.failure, spent.size_distance) * scale
        bound = min(bound, math.exp(min(highest, 700.0)) * (1.0 + 1e-12))
    gamma = (rho / bound) ** 2 * (1.0 - 1e-12)
    coef = window.posterior(ridge, gamma)
    return Outcome(coef, ridge, gamma, float(floor[0]), eigenvalue, count, log_size, spent.corners.promise)


def _spend(request: Request, size: bool) -> Plan:
    private_n = request.n_public is None
    bounds = 1 + private_n + size
    each = FAILURE * request.delta / bounds
    budget = gaussian_distance(request.epsilon, request.delta - FAILURE * request.delta)
    eigenvalue, count, length = (budget * math.sqrt(share) for share in (EIGENVALUE, COUNT * private_n, SIZE * size))
    distance = math.sqrt(eigenvalue**2 + count**2 + length**2) * (1.0 + 1e-15)
    ladder = corners(request.epsilon, request.delta, distance, bounds * each)
    return Plan(request, eigenvalue, count, length, each, ladder)
