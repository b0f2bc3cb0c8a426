"""AdaOPS: one posterior sample that keeps an (epsilon, delta) promise, its temperature adapted to the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from perinstance.checked_numbers import got, is_number
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import People, Sweep
from perinstance.inference.equation import bounded_draw
from perinstance.inference.published_inference import AT_MOST, PublishedInference, only_the_table
from perinstance.inference.table import About
from perinstance.models.linear.ridge import linear_fit, without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, LARGEST
from perinstance.pairs import Composed, GaussianShift, GeneralGaussian, Pairs, PosteriorSamplePair
from perinstance.pairs.kinds import Method
from perinstance.releases.adaops.mechanism import Coordinates, Outcome, Plan, Request, plan, run, sample
from perinstance.releases.adassp.mechanism import SUMS, Rounds, people_squares, sums_released
from perinstance.releases.adassp.mechanism import run as run_first
from perinstance.releases.base.log_ratios import (
    LogRatios,
    Output,
    OwnRowLoss,
    PublicFacts,
    cell,
    check_same_release,
    one_row,
    refuse_outside,
    two_worlds,
)
from perinstance.releases.base.publishing import PredictsLinearly
from perinstance.releases.base.rows_per_person import most_rows, refuse_more_rows, refuse_rows_of_people, starts_of
from perinstance.releases.promises.declared_box import DeclaredBox, declared_count
from perinstance.releases.promises.estimator import Clipped, ClippedFit, Promised
from perinstance.releases.promises.promise import Promise, check_promise
from perinstance.releases.promises.window import (
    ClippedSweep,
    Window,
    published_before,
    replayed_log_ratios,
    simulated,
)
from perinstance.sampling import GRID, ExactGram, ExactPosterior, FixedRows, Noisy
from perinstance.sampling.ball_arithmetic import Ball, Matrix, dot, exact, product
from perinstance.sampling.ideal_laws import factor


@dataclass(frozen=True, slots=True, repr=False)
class AdaFit(ClippedFit):
    """The confidential fit at the parameters that were released, or that would typically be. Confidential."""

    gamma: float = math.nan
    floor: float = math.nan
    values: Any = None  #: eigenvalues of X'X, rising
    vectors: Any = None
    plan: Any = None
    at: Any = None  #: coordinates that all of it is in


class AdaOPS(PredictsLinearly, Promised):
    """One posterior sample ``N(theta_hat, H^-1/gamma)`` that keeps (epsilon, delta), for whatever data (MATH 4).

    A part of the budget buys a first estimate by AdaSSP and standardised columns (``adaops.mechanism``); the sample
    is of the residuals. Their smallest eigenvalue is released with noise, the ridge lifts it to a floor, and gamma is
    as large as the exact profile of the sample, composed exactly with all before it, allows (``adaops.mechanism``).

    Parameters
    ----------
    epsilon, delta
        The promise, for adding or removing one person.
    x_bound, y_bound
        Declared without looking at the data; rows beyond are clipped. ``x_bound``: a number for ``||x||``; or for every
        column a number for ``|x_j|`` or a range (low, high); or a recipe. ``y_bound``: a number for ``|y|`` or a range.
    n_public
        The number of people (or more), if that is no secret; None buys a noisy bound on it from the budget. With
        ``rows_per_person`` it is the number of rows that are used (or more).
    kappa
        The floor is ``n B^2 / (d kappa)``, as in the paper; None takes the floor of the smallest predicted error.
    fit_intercept
        Whether there is an intercept; it costs what one more column costs.
    rows_per_person
        How many rows of a person are used at most, where people may have several; ``fit`` is then given ``ids``. Of who
        has more so many are drawn. None: a row is a person, and an id that repeats is refused.
    weight_bound
        The largest weight of a row that counts, where rows have weights: larger ones count as this one. ``fit`` is then
        given ``sample_weight``.

    Attributes
    ----------
    coef_, intercept_
        The published sample, in the user's units.
    lambda_, gamma_
        The ridge and the inverse temperature, for rows in the coordinates of the sample, whose norm is at most B.
    eigenvalue_, count_, log_size_
        The noisy smallest eigenvalue; the noisy n and log(1 + B ||theta_hat||), or None where not bought.
    totals_, column_totals_, gram_, moments_
        What the first estimate released, as in ``AdaSSP``.
    privacy_
        The promise computed from the pairs: ``privacy_.delta(epsilon) <= delta``, in both directions.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 2000)[:, None]
    >>> model = AdaOPS(epsilon=1.0, delta=1e-6, x_bound=1.0, y_bound=1.0, n_public=2000).fit(X, 0.5 * X[:, 0])
    >>> model.privacy_.delta(1.0) <= 1e-6
    True
    """

    what = "a posterior sample whose temperature is adapted to the data"
    own_row = False
    _mechanism = staticmethod(run)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        x_bound: Any = None,
        y_bound: Any = None,
        n_public: int | None = None,
        kappa: float | None = None,
        fit_intercept: bool = True,
        rows_per_person: int | None = None,
        weight_bound: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.y_bound = y_bound
        self.n_public = n_public
        self.kappa = kappa
        self.fit_intercept = fit_intercept
        self.rows_per_person = rows_per_person
        self.weight_bound = weight_bound

    def published_parameters(self) -> dict[str, Any]:
        """Return ridge, temperature and the noisy numbers that they follow from, those of the first estimate too."""
        names = ("lambda_", "gamma_", "eigenvalue_", "count_", "log_size_", *SUMS)
        return {name: getattr(self, name) for name in names} | {"_floor": float(self._floor)}

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> AdaFit:
        """Fit at the released lambda and gamma; before ``fit``, at those that a release without noise would take."""
        box = self._box(sweep.n_features)
        units = ClippedSweep(sweep, self._seen, box.d)
        if hasattr(self, "coef_"):
            ridge, gamma, floor, at = self.lambda_, self.gamma_, self._floor, self._coordinates(box)
        else:
            typical = self._run(box, Window(units, simulated()))
            assert typical.at is not None
            ridge, gamma, floor, at = typical.ridge, typical.gamma, typical.floor, typical.at
        seen = ClippedSweep(sweep, partial(self._placed, at=at), box.d)
        fit = linear_fit(seen, ridge, False)
        clipped = sweep.fold(lambda block: Clipped.of(self._seen(block)))
        values, vectors = np.linalg.eigh(seen.fold(lambda block: block.X.T @ block.X))
        return AdaFit(fit, clipped, None, gamma, floor, values, vectors, self._plan(box), at)

    def people(self, fit: AdaFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block, at one lambda and gamma.

        The eigenvalue's move is exact (secular equation), and so are those of n and of the estimate's size, and the
        pair of the posterior sample. But lambda and gamma follow from noisy numbers that the person had a part in: the
        composition at the values that were drawn is an odometer reading (MATH 6), labelled ``"estimate"``. What holds
        for everybody whatever was drawn is ``privacy_``.
        """
        rows, spent, at = self._placed(block, fit.at), fit.plan, fit.at
        loo = without(fit.linear, rows.X, rows.y, inside)
        moved = smallest_eigenvalue_moves(fit.values, fit.vectors, rows.X, inside)
        squares = (moved / spent.eigenvalue_at(at.x_bound).scale) ** 2
        squares = squares + people_squares(spent.first, self._seen(block), at.first)
        if spent.count is not None:
            squares = squares + (spent.count.distance / spent.request.rows_per_person) ** 2
        if spent.size is not None:
            step = (rows.X @ fit.linear.inverse()) * loo.residual[:, None]  # theta_with - theta_without, if inside
            if not inside:
                step /= (1.0 + loo.leverage)[:, None]
            here = np.linalg.norm(fit.theta)
            there = np.linalg.norm(fit.theta - step if inside else fit.theta + step, axis=1)
            move = np.abs(np.log((1.0 + at.x_bound * here) / (1.0 + at.x_bound * there)))
            squares = squares + (move / spent.size_at(fit.floor).scale) ** 2
        rho = np.abs(loo.residual) * np.sqrt(fit.gamma)
        if self.rows_per_person is None:
            sample: Pairs = PosteriorSamplePair(loo.leverage, rho, "estimate")
        else:  # beside people with several rows
            sample = sample_pairs(loo.leverage[:, None], rho[:, None])
        residual = loo.residual * at.half * self._box(block.X.shape[1]).label.half  # in the user's units
        return People(loo.leverage, residual, Composed([GaussianShift(np.sqrt(squares), "estimate"), sample]))

    def persons(self, fit: AdaFit, block: Block, starts: NDArray, inside: bool = True) -> People:
        """Map: a reading for each person, whose rows stand together in the block and begin at ``starts``.

        What all of their rows together move n, the eigenvalue and the estimate's size by, and the pair of the posterior
        sample with and without them (MATH 12), at the ridge and gamma that were drawn: ``"estimate"``, as for one row.
        """
        if self.rows_per_person is None:
            raise RefusedModel(
                "AdaOPS without rows_per_person promises to rows, and what it costs a person with several is not "
                "known; declare rows_per_person"
            )
        counts = starts_of(len(block), starts)[1]
        refuse_more_rows(self, counts)
        rows, spent, at, linear = self._placed(block, fit.at), fit.plan, fit.at, fit.linear
        first = np.sqrt(people_squares(spent.first, self._seen(block), at.first))
        scale = spent.eigenvalue_at(at.x_bound).scale
        inverse, gram, sign = linear.inverse(), (fit.vectors * fit.values) @ fit.vectors.T, -1.0 if inside else 1.0
        mu, rho = np.zeros((2, len(counts), min(int(counts.max(initial=1)), rows.X.shape[1])))
        squares, largest = np.zeros(len(counts)), np.zeros(len(counts))
        for i, (a, b) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
            X, e = rows.X[a:b], rows.y[a:b] - rows.X[a:b] @ fit.theta
            sigma, V = np.linalg.eigh(X @ inverse @ X.T)  # S = X H^-1 X'
            others = 1.0 - sigma if inside else np.ones(len(sigma))
            r = V.T @ e / others  # residuals of the fit without the person, along the eigenvectors
            top = np.arange(len(sigma))[::-1][: mu.shape[1]]
            mu[i, : len(top)], rho[i, : len(top)] = (sigma / others)[top], (np.abs(r) * np.sqrt(fit.gamma))[top]
            largest[i] = max(V @ r, key=abs)
            moved = abs(np.linalg.eigvalsh(gram + sign * X.T @ X)[0] - fit.values[0])
            squares[i] = (moved / scale) ** 2 + first[a:b].sum() ** 2
            if spent.count is not None:
                squares[i] += ((b - a) * spent.count.distance / spent.request.rows_per_person) ** 2
            if spent.size is not None:
                there = fit.theta + sign * inverse @ X.T @ V @ (V.T @ e / (1.0 + sign * sigma))
                ends = [1.0 + at.x_bound * np.linalg.norm(theta) for theta in (fit.theta, there)]
                squares[i] += (math.log(ends[0] / ends[1]) / spent.size_at(fit.floor).scale) ** 2
        pairs = Composed([GaussianShift(np.sqrt(squares), "estimate"), sample_pairs(mu, rho)])
        return People(mu.max(axis=1), largest * at.half * self._box(block.X.shape[1]).label.half, pairs)

    def uncertainty(self, about: About) -> PublishedInference:
        """Bound the draw's variance by the released floor of the eigenvalues: what the ridge fit on this table says.

        The floor fails with a probability of at most a tenth of delta.
        """
        if about == "population":
            return PublishedInference(None, (), only_the_table("AdaOPS"))
        box = self._box(self.n_features_in_)
        at = self._coordinates(box)
        variance = 1.0 / (self.gamma_ * self._floor * at.x_bound**2)
        drawn = bounded_draw(self._drawn, np.full(len(self._drawn), variance)).mapped(*at.in_units(box.weight))
        return PublishedInference(box.user_coefficients(drawn), (AT_MOST,))

    def refine(self, fit: AdaFit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer alike: the floor keeps leverages small, and nobody is left open."""
        return self.people(fit, block, inside)

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return a bound of one person's loss from their own row: the promise, scaled (``own_row_promise``)."""
        refuse_rows_of_people(self, "the loss that follows from one row")
        row = one_row(x)
        box = self._box(row.shape[1])
        rows, request = box.rows(row, np.array([y])), self._request(box)
        first = self._first(box)
        looked = level(math.sqrt(float(people_squares(first, rows, None)[0])) / first.promise.distance)
        # the coordinates of a box are not known before they are drawn, and nor is a residual
        u = 1.0 if box.boxed else level(float(np.linalg.norm(rows.X[0])) / box.x_bound)
        epsilon = own_row_promise(request, u, 1.0, looked).epsilon(delta)
        return OwnRowLoss(epsilon, delta, "upper", ("rows_clipped",))

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at all that one fit drew: n, eigenvalue, size and the sample."""
        refuse_outside(outside)
        refuse_rows_of_people(self, "the realised loss")
        if not hasattr(published, "_drawn"):
            raise InvalidInput("what AdaOPS published is more than its coefficients; pass the fitted release itself")
        check_same_release(self, published)
        box, rows = self._box(sweep.n_features), self._everybody(sweep)
        spent, at = self._plan(box), published._coordinates(box)
        noisy = (published.count_, published.eigenvalue_, published.log_size_)
        drawn = [*(np.array([one]) for one in noisy if one is not None), published._drawn]
        first = replayed_log_ratios(partial(run_first, self._first(box)), rows, published._answers())
        return drawn_log_ratios(spent, at, at.rows(rows), [cell(one, GRID) for one in drawn]).plus(first)

    def _request(self, box: DeclaredBox) -> Request:
        epsilon, delta = check_promise(self.epsilon, self.delta)
        n, kappa = declared_count(self.n_public, self.weight_bound), self.kappa
        if kappa is not None and not (is_number(kappa) and 0 < kappa <= LARGEST):
            raise InvalidInput(f"kappa must be a number > 0 or None, got {got(kappa)}; try kappa=1.0")
        kappa = None if kappa is None else float(kappa)
        return Request(epsilon, delta, box.x_bound, 1.0, box.d, n, kappa, most_rows(self), box)

    def _check_count(self, rows: int) -> None:
        declared = declared_count(self.n_public, self.weight_bound)
        if declared is not None and rows > declared:
            raise InvalidInput("n_public must be no less than the number of rows; declare a larger one, or None")

    def _plan(self, box: DeclaredBox) -> Plan:
        return plan(self._request(box))

    def _publish(self, found: Outcome, box: DeclaredBox) -> Floats:
        self.lambda_ = found.ridge
        self.gamma_ = found.gamma
        self.eigenvalue_ = found.eigenvalue
        self.count_ = found.count
        self.log_size_ = found.log_size
        assert found.at is not None
        first = found.at.first
        self.totals_, self.column_totals_ = first.totals, first.column_totals
        self.gram_, self.moments_ = first.gram, np.array(first.moments)
        self._floor, self._drawn = found.floor, found.coef
        linear, constant = found.at.in_units(box.weight)
        return linear @ found.coef + constant

    def _answers(self) -> list[Floats]:
        return sums_released(self)

    def _coordinates(self, box: DeclaredBox) -> Coordinates:
        """Run the first estimate once more on what it published: the coordinates are post-processing of that."""
        nobody = box.rows(np.zeros((0, len(box.columns))), np.zeros(0))
        return Coordinates.look(self._first(box), Window(nobody, published_before(self._answers())))

    def _first(self, box: DeclaredBox) -> Rounds:
        """Return the plan of the first estimate."""
        first = self._plan(box).first
        assert first is not None
        return first

    def _placed(self, block: Block, at: Coordinates) -> FixedRows:
        """Return rows and residuals as the sample sees them."""
        return at.rows(self._seen(block))


def sample_pairs(mu: Floats, rho: Floats) -> GeneralGaussian:
    """Return the pairs of a posterior sample with one coordinate for each column of mu and rho."""
    return GeneralGaussian(np.maximum(mu, 0.0), rho * np.sqrt(mu.clip(0.0) / (1.0 + mu.clip(0.0))), "estimate")


LEVELS = 16  # shares of a bound are rounded up to multiples of 1/16: few promises serve everybody


def own_row_promise(request: Request, u: float, t: float, looked: float = 1.0) -> Promise:
    """Return the promise to rows of ``||x|| <= u B_x`` and ``max(||x||/B_x, |y|/B_y) <= t``: each part scaled.

    ``looked`` is how far the row moves the first estimate, in parts of the farthest.
    """
    spent = plan(request)
    whole, parts = spent.promise, [(spent.eigenvalue, u * u), (spent.count, 1.0), (spent.size, 1.0)]
    squares = [(part.distance * share) ** 2 for part, share in parts if part is not None]
    if spent.first is not None:
        squares.append((spent.first.promise.distance * looked) ** 2)
    distance = math.sqrt(math.fsum(squares))
    mu, rho = u * u / spent.corners.floors * BOUND_UP, t * spent.corners.residuals * BOUND_UP
    return Promise(min(distance * BOUND_UP, whole.distance), tuple(mu.tolist()), tuple(rho.tolist()), whole.failure)


def level(share: float) -> float:
    """Round a share of a bound up to a level; never beyond the bound itself, to which rows are clipped."""
    return min(math.ceil(share * LEVELS * BOUND_UP), LEVELS) / LEVELS


STEPS = 60  # bisections: the bracket shrinks below the rounding of the eigenvalues


def smallest_eigenvalue_moves(values: Floats, vectors: Floats, X: Floats, inside: bool) -> Floats:
    """Return ``|lambda_min(with) - lambda_min(without)|`` of each row of X, G being with (``inside``) or without them.

    Inside the move u solves ``sum_j z_j^2/(gap_j + u) = 1``, outside ``z_1^2/u - sum_{j>1} z_j^2/(gap_j - u) = 1`` on
    (0, gap_2): both fall in u. The end of the last bracket is returned that gives the larger move.
    """
    z2, gaps, sign = (X @ vectors) ** 2, values - values[0], 1.0 if inside else -1.0  # the first gap is 0
    low, high = np.zeros(len(X)), z2.sum(axis=1)
    if not inside and len(gaps) > 1:
        high = np.minimum(high, gaps[1])
    for _ in range(STEPS):
        u = 0.5 * (low + high)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = z2 / (gaps + sign * u[:, None])
        above = sign * np.where(z2 > 0.0, terms, 0.0).sum(axis=1) > 1.0  # a direction that x does not touch: nothing
        low, high = np.where(above, u, low), np.where(above, high, u)
    return high


def drawn_log_ratios(spent: Plan, at: Coordinates, rows: FixedRows, drawn: list[Output]) -> LogRatios:
    """Return ``log q/p`` of everybody: of all draws of a run, with them and without (MATH 8).

    Floor, ridge, temperature and the scale of the size's noise follow from what was published before: they are the same
    in both worlds, so the log densities of the draws add up. They are written down in balls, from exact sums.
    """

    def log_density(sums: ExactGram) -> Ball:
        densities, left = [], list(drawn)

        def published(ideal: Noisy | ExactPosterior) -> Floats:
            densities.append(_log_density(ideal, left[0]))
            return left.pop(0).values

        sample(spent, at, Window(sums, published))
        return sum(densities, arb(0))

    everybody = (ExactGram.of(rows.X[i : i + 1], rows.y[i : i + 1]) for i in range(len(rows.y)))
    trouble = "a realised loss could not be enclosed with 4096 bits; use a larger kappa or floor"
    return two_worlds(log_density, ExactGram.of(rows.X, rows.y), everybody, trouble)


def _log_density(ideal: Noisy | ExactPosterior, output: Output) -> Ball:
    """Return the log density of a draw at what was published, but for constants."""
    if isinstance(ideal, Noisy):
        gap = (output.balls()[0] - exact(ideal.center[0])) / exact(ideal.scale)
        return -gap * gap / 2
    W: Matrix = factor(ideal.equations)
    theta = product(W.transpose(), product(W, ideal.equations.right_side()))
    gap = [o - t for o, t in zip(output.balls(), theta, strict=True)]
    bent = product(arb_mat(ideal.equations.matrix()), gap)
    half_log_det = -sum((W[j, j].log() for j in range(ideal.d)), arb(0))
    return half_log_det - arb(ideal.gamma) * dot(gap, bent) / 2
