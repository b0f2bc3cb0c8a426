"""AdaOPS as a mechanism: a few noisy numbers, then one posterior sample as cold as the promise allows (MATH 4).

0. a first estimate by AdaSSP, and coordinates that follow from it (``Coordinates``): everything after it, rows,
   labels, their bounds and the estimate, is in these, where ``B_y = 1``
1. (only when n is not public) ``n~ = n + noise``, and ``n <= n~ + q s`` but for a charged probability
2. ``lambda~ = lambda_min(X'X) + noise`` (Weyl: one person moves it by at most B_x^2), ``low = lambda~ - q s``
3. a floor h from public floors, by a rule that sees only what is released; ``ridge = max(0, h - low)``
4. (only when that predicts a smaller error) ``log(B_y + B_x ||theta||) + noise``: one person moves it by at most
   ``log(1 + B_x^2/h)``, because ``||theta_with - theta_without|| <= (B_x/h) |y - x'theta|``
5. ``theta ~ N(theta_hat, H^-1/gamma)``, ``gamma = (rho_h / sup|y - x'theta|)^2`` with rho_h calibrated for that floor

The parts 0, 1, 2 and 4 are Gaussian with distances fixed in advance; whatever coordinates and floor they lead to, the
sample stays below the envelope of all corners (``promises``). Noise, bounds and promise are the parts of
``private_bounds``: bounds hold on the data set without the person, whoever runs the release.

A person with k rows moves n by k, the eigenvalue by ``k B_x^2`` and the logarithm by ``log(1 + k B_x^2/h)``, and leaves
the sample in k steps, each below the corner; with some of their rows there are up to k - 1 more (docs/mathematics.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_DOWN, BOUND_UP, STEP_UP
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.adassp.mechanism import Published, Rounds
from perinstance.releases.base.row_sums import lengths, products
from perinstance.releases.promises.declared_box import DeclaredBox
from perinstance.releases.promises.looks import StandardFrame
from perinstance.releases.promises.private_bounds import KeyQuantity, PrivateBound, convert, spending
from perinstance.releases.promises.promise import FLOORS, Corners, Promise, corners, gaussian_distance
from perinstance.releases.promises.window import Window
from perinstance.sampling import FixedRows, fixed_rows

FAILURE = 0.1  # of delta, for bounds that may not hold
EIGENVALUE, COUNT, SIZE = 0.03, 0.03, 0.15  # shares of the squared Gaussian distance
FIRST = 0.5  # share of the squared distance that the first estimate has
ROUNDS = 4
DEVIATIONS = 2.0  # of labels, that residuals may have; more where AdaSSP widens its own clip
LEFT = 0.03  # part of the residuals' squared width that rows are thought to explain still
ENFORCED = (
    "rows beyond the declared bounds are clipped",
    "a ridge lifts the smallest eigenvalue to the chosen floor",
    "gamma keeps sqrt(gamma) |y - x'theta| below the corner of that floor",
)


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """The coordinates that AdaOPS draws its sample in, which followed from the first estimate. Public.

    A share of the budget buys a short run of AdaSSP: looks, a noisy Gram matrix, four rounds. From what it published
    follow a centre and a spread of every column of a box, a first estimate, and the width at which its residuals are
    clipped. What the sample is drawn of are the rows in that frame and the residuals of the first estimate, so the
    ridge shrinks towards that estimate and not towards zero. A row that is longer than the frame's radius *counts for
    less, residual and all*: ``(x, w, r)`` is multiplied by the same number, so that a linear relation stays what it is.
    Whatever the run published, rows have a norm of at most ``x_bound``, in integers, and residuals lie in [-1, 1] in
    these coordinates: that is all the promise of the sample leans on.
    """

    first: Published
    frame: StandardFrame
    half: float  #: at which residuals are clipped, in units of the label's half range

    @classmethod
    def look(cls, rounds: Rounds, window: Window) -> Coordinates:
        """Run AdaSSP through the window."""
        first = adassp_mechanism.run(rounds, window)
        return cls(first, first.frame, min(1.0, DEVIATIONS * first.clips[-1]))

    @property
    def x_bound(self) -> float:
        """The largest norm of a row, the ones included."""
        return self.frame.x_bound

    def rows(self, units: FixedRows) -> FixedRows:
        """Return rows and residuals in these coordinates, on grids; each follows from its own row alone."""
        free = self.frame.free_rows(units)
        residual = (units.y - products(units.X, self.first.coef)) / self.half
        weigh = np.minimum(1.0, self.x_bound / np.maximum(lengths(free), self.x_bound))
        label = np.where(units.present, np.clip(residual, -1.0, 1.0) * weigh, 0.0)
        seen = fixed_rows(free * weigh[:, None], label, self.x_bound, 1.0)
        return replace(seen, present=units.present, weights=units.weights).scaled()

    def in_units(self, weight: float) -> tuple[Floats, Floats]:
        """Return the linear map, and the constant, from coefficients here to those of rows in units."""
        linear = np.array([self.frame.in_units(one, weight) for one in np.eye(self.frame.d)]).T
        return linear * self.half, self.first.coef


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
    rows_per_person: int = 1
    box: DeclaredBox | None = None  #: of rows that have a first estimate; None: the sample is drawn around zero


@dataclass(frozen=True, slots=True)
class Plan:
    """How the budget is spent: a function of the request alone."""

    request: Request
    first: Rounds | None
    eigenvalue: PrivateBound  #: at the declared bound of rows
    count: PrivateBound | None  #: None when n is public
    size: PrivateBound | None  #: at the lowest floor; None when the size of the estimate is not released
    corners: Corners
    promise: Promise

    def eigenvalue_at(self, x_bound: float) -> PrivateBound:
        """Return how the smallest eigenvalue is released of rows with this bound."""
        return self.eigenvalue.at(x_bound**2 * self.request.rows_per_person * STEP_UP)

    def size_at(self, floor: float) -> PrivateBound:
        """Return how the size of the estimate is released once a floor is chosen."""
        assert self.size is not None
        return self.size.at(float(size_sensitivity(floor, self.request.rows_per_person)))


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
    at: Coordinates | None  #: that all of it is in


def plan(request: Request) -> Plan:
    """Spend the budget. With a public n, the size of the estimate is bought only if that predicts a smaller error.

    Without one nothing can be predicted before n is released, so the size is always bought; the smaller of its bound
    and the one from n is used.
    """
    with_size = _spend(request, True)
    if request.n_public is None:
        return with_size
    without = _spend(request, False)
    n, variance = float(request.n_public), LABEL_VARIANCE if request.box is None else LEFT
    return min(without, with_size, key=lambda candidate: choose(candidate, n, 0.0, n, variance)[1])


def run(spent: Plan, window: Window) -> Outcome:
    """Look through the window and publish one posterior sample."""
    if spent.first is None:
        return sample(spent, None, window)
    at = Coordinates.look(spent.first, window)
    return sample(spent, at, window.mapped(at.rows, spent.request.d))


def sample(spent: Plan, at: Coordinates | None, window: Window) -> Outcome:
    """Publish one posterior sample of the rows in the window, which are in the coordinates of a first estimate."""
    ask = spent.request
    x_bound, variance = (ask.x_bound, LABEL_VARIANCE) if at is None else (at.x_bound, LEFT)
    count, n, n_upper = None, float(ask.n_public or 0), float(ask.n_public or 0)
    if spent.count is not None:
        count = window.count(spent.count.scale)
        n, n_upper = max(count, 1.0), spent.count.bound(count)
    n_upper += ask.rows_per_person - 1  # the person's other rows, while one of them is taken out
    part = spent.eigenvalue_at(x_bound)
    eigenvalue = window.eigenvalue(part.scale)
    low = max(part.bound(eigenvalue), 0.0) / x_bound**2 * BOUND_DOWN
    index, _ = choose(spent, n, low, n_upper, variance)
    floor, rho = spent.corners.floors[index : index + 1], float(spent.corners.residuals[index])
    ridge = float(ridges(floor, low)[0]) * x_bound**2
    bound = float(residual_bound(floor, low, n_upper)[0]) * ask.y_bound
    log_size = None
    if spent.size is not None:
        size = spent.size_at(float(floor[0]))
        log_size = window.log_size(ridge, x_bound, ask.y_bound, size.scale)
        bound = min(bound, math.exp(min(size.bound(log_size), 700.0)) * BOUND_UP)
    gamma = (rho / bound) ** 2 * BOUND_DOWN
    coef = window.posterior(ridge, gamma)
    return Outcome(coef, ridge, gamma, float(floor[0]), eigenvalue, count, log_size, at)


def _spend(request: Request, size: bool) -> Plan:
    private_n = request.n_public is None
    each = FAILURE * request.delta / (1 + private_n + size)
    budget = gaussian_distance(request.epsilon, request.delta - FAILURE * request.delta)

    def released(quantity: KeyQuantity, share: float) -> PrivateBound:
        return quantity.released(budget * math.sqrt(share), each)

    k = request.rows_per_person
    x_squared = request.x_bound**2 * k * STEP_UP
    eigenvalue = released(KeyQuantity("smallest eigenvalue of X'X", x_squared, "lower", rises=True), EIGENVALUE)
    count = released(KeyQuantity("number of rows", float(k), "upper", rises=True), COUNT) if private_n else None
    most = float(size_sensitivity(FLOORS[0], k))
    length = released(KeyQuantity("log(B_y + B_x ||theta||)", most, "upper"), SIZE) if size else None
    bounds = [part for part in (eigenvalue, count, length) if part is not None]
    first, looked = None, 0.0
    if request.box is not None:
        kept = request.delta - FAILURE * request.delta
        first = adassp_mechanism.spend(
            request.epsilon, kept, request.box, None, ROUNDS, request.n_public, rows_per_person=k, part=FIRST
        )
        looked = first.promise.distance
    distance, failure = spending(bounds)
    ladder = corners(request.epsilon, request.delta, math.hypot(distance, looked) * STEP_UP, failure, k)
    conversion = convert(
        bounds,
        leverage=1.0 / ladder.floors,
        residual=ladder.residuals,
        shift=looked,
        rows_per_person=k,
        enforced=ENFORCED,
    )
    return Plan(request, first, eigenvalue, count, length, ladder, conversion.promise)


LABEL_VARIANCE = 1.0 / 25.0  # of the label's squared bound: a bound is commonly put at five standard deviations


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


def size_sensitivity(floors: ArrayLike, rows: int = 1) -> Floats:
    """Return how far a person moves ``log(1 + ||theta||)``: at most ``log(1 + rows/h)``, rounded up."""
    return np.log1p(rows / np.asarray(floors)) * BOUND_UP


def choose(
    spent: Plan, n: float, low: float, n_upper: float | None = None, label_variance: float = LABEL_VARIANCE
) -> tuple[int, float]:
    """Choose a floor by public numbers alone: its place, and the excess risk (sum over people) predicted there.

    There are about n people, and no more than ``n_upper`` (but for the charged failure); the smallest eigenvalue is at
    least ``low B_x^2``. kappa says that it is at least ``n B_x^2 / (d kappa)``: that, rounded down, is the floor.
    Without kappa the smallest predicted error chooses.
    """
    h, rho, d, kappa = spent.corners.floors, spent.corners.residuals, spent.request.d, spent.request.kappa
    j = np.arange(1, d + 1)
    g = np.maximum(n / (j * np.sum(1.0 / j)), max(low, 0.0))[:, None]
    theta2 = label_variance * n / g.sum()
    ridge = ridges(h, low)
    bound = residual_bound(h, low, n if n_upper is None else n_upper)
    if spent.size is not None:
        size = 1.0 + np.sqrt(d * theta2)
        with np.errstate(over="ignore"):
            sensitivity = size_sensitivity(h, spent.request.rows_per_person)
            margin = spent.size.quantile * sensitivity / spent.size.distance
            bound = np.minimum(bound, size * np.exp(margin))
    bias = (ridge**2 * g / (g + ridge) ** 2 * theta2).sum(axis=0)
    errors = bias + (bound / rho) ** 2 * (g / (g + ridge)).sum(axis=0)
    index = int(np.argmin(errors))
    if kappa is not None:
        index = max(int(np.searchsorted(h, n / (d * kappa), side="right")) - 1, 0)
    return index, float(errors[index])
