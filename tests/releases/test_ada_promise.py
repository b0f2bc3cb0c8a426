"""The promise: exact profiles of whole mechanisms at worst-case neighbours stay below delta."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm

from perinstance.errors import InvalidInput
from perinstance.pairs import PosteriorSamplePair
from perinstance.releases.adaops.mechanism import Request, plan, residual_bound, run
from perinstance.releases.adassp.mechanism import spend
from perinstance.releases.promises.declared_box import box_of
from perinstance.releases.promises.promise import (
    Promise,
    _one_by_one,
    check_promise,
    corners,
    gaussian_distance,
    tail_quantile,
)

from .slow_roads import Pinned, posterior_delta, whole_profile

PROMISES = [(0.1, 1e-6), (1.0, 1e-6), (1.0, 0.05), (4.0, 1e-9), (0.5, 0.2), (1e-6, 1e-4), (0.01, 0.9)]


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
def test_gaussian_distance_is_tight(epsilon, delta):
    D = gaussian_distance(epsilon, delta)
    at = [norm.cdf(d / 2 - epsilon / d) - np.exp(epsilon) * norm.cdf(-d / 2 - epsilon / d) for d in (D, D * 1.001)]
    assert at[0] <= delta * (1 + 1e-9) < at[1]


def test_composed_promise_against_quadrature():
    mu, rho, D, failure = (0.3, 0.02), (0.5, 3.0), 0.4, 1e-4
    losses = np.linspace(D**2 / 2 - 9 * D, D**2 / 2 + 9 * D, 40_001)
    weights = np.exp(-(((losses - D**2 / 2) / D) ** 2) / 2) / np.sqrt(2 * np.pi) / D
    for epsilon in (0.2, 1.0, 2.0):
        fast = Promise(D, mu, rho, failure).delta(epsilon)
        both = [
            [posterior_delta(m, r, epsilon - losses, direction) for m, r in zip(mu, rho, strict=True)]
            for direction in ("without", "with")
        ]
        slow = failure + trapezoid(np.max(both, axis=(0, 1)) * weights, losses)
        assert slow <= fast <= slow * 1.01
        for direction in both:
            assert failure + trapezoid(np.max(direction, axis=0) * weights, losses) <= fast


def test_epsilon_of_a_promise_inverts_delta():
    promise = Promise(0.3, (0.1,), (1.0,), 1e-7)
    epsilon = promise.epsilon(1e-5)
    assert promise.delta(epsilon) <= 1e-5 < promise.delta(epsilon * (1 - 1e-5))
    assert promise.epsilon(1e-8) == np.inf
    assert promise.kind == "upper"
    assert Promise(0.2).kind == "exact"


def test_every_smaller_pair_is_below_its_corner():
    """What lets one corner stand for all people, provided that its worst direction is taken."""
    rng = np.random.default_rng(7)
    n = 20_000
    corner_mu, corner_rho = np.exp(rng.uniform(-12, 0, n)), np.exp(rng.uniform(-4, 4, n))
    mu, rho = corner_mu * rng.uniform(0, 1, n) ** 2, corner_rho * rng.uniform(0, 1, n)
    epsilon = rng.normal(size=n) * (np.sqrt(corner_mu) * corner_rho + corner_mu) * 2
    for direction in ("without", "with"):
        small = PosteriorSamplePair(mu, rho).delta(epsilon, direction)
        large = PosteriorSamplePair(corner_mu, corner_rho).delta(epsilon)
        assert (small <= large * (1 + 1e-9) + 1e-15).all()


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
def test_calibrated_corners_keep_the_promise_and_use_it(epsilon, delta):
    D = 0.4 * gaussian_distance(epsilon, 0.9 * delta)
    ladder = corners(epsilon, delta, D, 0.1 * delta)
    assert 0.9 * delta <= ladder.promise.delta(epsilon) <= delta
    assert (ladder.residuals > 0).all()


def test_nothing_is_promised_that_cannot_be_kept():
    with pytest.raises(InvalidInput, match="failure probabilities"):
        corners(1.0, 1e-6, 0.1, 1e-6)
    for epsilon, delta in ((0.0, 1e-6), (-1.0, 1e-6), (np.inf, 1e-6), (1.0, 0.0), (1.0, 1.0), ("one", 0.1)):
        with pytest.raises(InvalidInput):
            check_promise(epsilon, delta)


def test_bounds_fail_no_more_often_than_charged():
    for probability, distance in itertools.product((1e-8, 1e-3), (0.0, 0.05, 2.0)):
        q = tail_quantile(probability, distance)
        assert norm.cdf(-(q - distance)) <= probability <= norm.cdf(-(q - distance)) * 1.001


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize("rounds", [1, 4])
def test_adassp_spends_exactly_its_budget(epsilon, delta, rounds):
    for x_bound, intercept, n in ((2.0, False, None), (2.0, True, 50), ([(0, 1), (-3, 9)], True, None)):
        spent = spend(epsilon, delta, box_of(x_bound, 3.0, 2, intercept), None, rounds, n)
        assert 0.999 * delta <= spent.promise.delta(epsilon) <= delta
        # a person at all bounds, clipped in every round: the distances add up to no more than the promise
        looked = 0.0 if spent.look is None else spent.look.distance
        parts = [looked, spent.gram_distance, np.sqrt(rounds) * spent.round_distance]
        assert np.linalg.norm(parts) <= spent.promise.distance
        robust = spend(epsilon, delta, box_of(x_bound, 3.0, 2, intercept), None, rounds, n, True)
        assert 0.999 * delta <= robust.promise.delta(epsilon) <= delta
        stage = [robust.stage.scale_distance, robust.stage.score_distance, robust.stage.meat_distance]
        before = [0.0 if one is None else one.distance for one in (robust.look, robust.column_look)]
        parts = [*before, *stage, robust.gram_distance, np.sqrt(rounds) * robust.round_distance]
        assert np.linalg.norm(parts) <= robust.promise.distance
        assert np.linalg.norm(stage) / robust.promise.distance == pytest.approx(np.sqrt(0.27))
        assert robust.gram_distance / spent.gram_distance == pytest.approx(np.sqrt(0.73))


def hard_neighbours(request: Request):
    """Data sets on which the bounds that AdaOPS leans on are as tight as they get, and the person who tests them."""
    n, d, Bx, By = request.n_public or 100, request.d, request.x_bound, request.y_bound
    others = max(n - request.rows_per_person, 0)
    x = np.zeros(d)
    x[0] = Bx
    yield "nobody else", np.zeros((d, d)), np.zeros(d), x, By
    spent = plan(request)
    window = Pinned(d, {"eigenvalue": 0.0, "log_size": 0.0, "count": float(n)})
    run(spent, window)
    ridge = window.asked["posterior"][0]
    # all labels at the bound, all rows in one direction, of the length that makes ||theta|| as large as it can be
    length = min(np.sqrt(ridge / n), Bx) if ridge > 0 else Bx
    G, b = np.zeros((d, d)), np.zeros(d)
    G[0, 0], b[0] = others * length**2, others * length * By
    yield "aligned", G, b, x, -By
    yield "well conditioned", others / d * Bx**2 * np.eye(d), others / d * Bx * By * np.eye(d)[0], x, -By


GRID = [
    Request(1.0, 1e-6, 1.0, 1.0, 1, 1000, None),
    Request(1.0, 0.05, 2.0, 0.5, 2, 50, None),
    Request(2.0, 1e-3, 1.0, 1.0, 3, 1, None),
    Request(1.0, 1e-5, 3.0, 10.0, 4, 100_000, 2.0),
    Request(0.5, 0.02, 1.0, 1.0, 2, 400, 0.01),
    Request(1.0, 1e-3, 1.0, 1.0, 2, 300, None, 3),
    Request(1.0, 0.05, 1.0, 1.0, 1, 5, None, 5),
    Request(2.0, 1e-5, 1.0, 1.0, 1, 50_000, 2.0, 20),
]


@pytest.mark.parametrize(
    "request_", GRID, ids=lambda r: f"eps{r.epsilon}-delta{r.delta}-d{r.d}-n{r.n_public}-k{r.rows_per_person}"
)
def test_whole_mechanism_at_worst_case_neighbours(request_):
    for name, G, b, x, y in hard_neighbours(request_):
        for direction, total in whole_profile(request_, G, b, x, y).items():
            assert total <= request_.delta, (name, direction)


def test_several_rows_of_a_person_are_noticed():
    """Three rows under a promise made to one row lose more than it; and T_k bounds three steps, for e of both signs."""
    request = Request(1.0, 0.05, 1.0, 1.0, 1, 5, None)
    rowwise = plan(request)
    three = replace(request, rows_per_person=3)
    hard = list(hard_neighbours(three))
    lost = [max(whole_profile(three, *pair, spent=rowwise).values()) for _, *pair in hard]
    assert max(lost) > request.delta
    corner = PosteriorSamplePair([0.3], [1.2])
    for e in (-2.0, -0.3, 0.0, 0.5, 2.0, 5.0):
        bound = _one_by_one(corner, np.array([e]), 3)[0]
        assert posterior_delta(0.9, 1.2 * np.sqrt(3), e, "without") <= bound * (1 + 1e-12)
        assert posterior_delta(0.9, 1.2 * np.sqrt(3), e, "with") <= bound * (1 + 1e-12)


@pytest.mark.parametrize(("intercept", "n"), [(True, 40), (True, 2000), (False, 300)])
def test_whole_mechanism_with_an_intercept_and_ranges(intercept, n):
    """Two dimensions, one of them the ones: everybody has them, and the person who joins stands at a corner."""
    box = box_of([(-3.0, 5.0)] * (2 - intercept), (0.0, 9.0), 2 - intercept, intercept)
    request = Request(1.0, 1e-3, box.x_bound, 1.0, box.d, n, None)
    for at, label, mine, own in ((5.0, 9.0, -3.0, 0.0), (1.0, 9.0, 5.0, 0.0), (-3.0, 0.0, 5.0, 9.0)):
        others = box.rows(np.full((n - 1, 2 - intercept), at), np.full(n - 1, label))
        person = box.rows(np.full((1, 2 - intercept), mine), np.array([own]))
        G, b = others.X.T @ others.X, others.X.T @ others.y
        for direction, total in whole_profile(request, G, b, person.X[0], person.y[0]).items():
            assert total <= request.delta, (at, mine, direction)


@pytest.mark.parametrize(("epsilon", "delta"), PROMISES)
@pytest.mark.parametrize("x_bound", [2.0, [(0, 1), (-3, 9)]], ids=["ball", "box"])
def test_the_first_estimate_is_in_the_promise(epsilon, delta, x_bound):
    """Its distance, that of the noisy numbers and the envelope of the sample, together: the quadrature of MATH 4.5."""
    box = box_of(x_bound, 3.0, 2, True)
    for n in (None, 50):
        spent = plan(Request(epsilon, delta, box.x_bound, 1.0, box.d, n, None, box=box))
        promise = spent.promise
        parts = [
            spent.first.promise,
            *(part for part in (spent.eigenvalue, spent.count, spent.size) if part is not None),
        ]
        distance = np.linalg.norm([part.distance for part in parts])
        assert distance <= promise.distance <= distance * (1 + 1e-9)
        losses = np.linspace(distance**2 / 2 - 9 * distance, distance**2 / 2 + 9 * distance, 4001)
        weights = norm.pdf(losses, distance**2 / 2, distance)
        pairs = zip(promise.leverage[::8], promise.residual[::8], strict=True)
        deltas = [posterior_delta(m, r, epsilon - losses, way) for m, r in pairs for way in ("without", "with")]
        assert promise.failure + trapezoid(np.max(deltas, axis=0) * weights, losses) <= promise.delta(epsilon) <= delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "d", "n", "bound"),
    list(itertools.product((0.1, 1.0, 5.0), (1e-8, 0.02), (1, 40), (None, 10, 10**6), (1.0, 7.0)))[::11],
)
def test_promise_over_a_grid(epsilon, delta, d, n, bound):
    spent = plan(Request(epsilon, delta, bound, 2 * bound, d, n, None))
    promise = spent.promise
    assert promise.delta(epsilon) <= delta
    parts = [part for part in (spent.eigenvalue, spent.count, spent.size) if part is not None]
    assert np.sqrt(np.sum(np.square([part.distance for part in parts]))) <= promise.distance
    assert promise.failure >= sum(part.failure for part in parts) * (1 - 1e-12)
    assert spent.eigenvalue.scale * spent.eigenvalue.distance >= bound**2


@pytest.mark.parametrize("k", [1, 4])
def test_a_persons_rows_move_each_noisy_number_by_no_more_than_it_is_charged_with(k):
    """n, the eigenvalue and the size, between any two data sets on the way from with the person to without them."""
    rng = np.random.default_rng(0)
    spent = plan(Request(1.0, 1e-4, 2.0, 1.0, 2, None, None, k))
    ridge, worst = 3.0, np.zeros(3)
    for others in (0, 1, 30):
        for length in (2.0, 0.3):
            X, y = rng.normal(size=(others, 2)) / 4, rng.uniform(-1, 1, others)
            mine = np.full((k, 2), length / np.sqrt(2)) if others else np.eye(2)[np.zeros(k, dtype=int)] * length
            found = []
            for j in range(k + 1):
                A, b = np.vstack([X, mine[:j]]), np.append(y, np.ones(j))
                theta = np.linalg.solve(A.T @ A + ridge * np.eye(2), A.T @ b)
                found.append([len(A), np.linalg.eigvalsh(A.T @ A)[0], np.log(1.0 + 2.0 * np.linalg.norm(theta))])
            worst = np.maximum(worst, np.ptp(found, axis=0))
    parts = [spent.count, spent.eigenvalue, spent.size_at(ridge / 4.0)]
    charged = np.array([part.scale * part.distance for part in parts])
    assert (worst <= charged).all()
    assert charged[0] == pytest.approx(k) and charged[1] == pytest.approx(4.0 * k)
    # while one row is taken out, up to k - 1 others of the person are still there
    declared = plan(Request(1.0, 1e-4, 1.0, 1.0, 1, 50, None, k))
    window = Pinned(1, {"eigenvalue": 0.0, "log_size": 700.0})
    outcome = run(declared, window)
    index = int(np.flatnonzero(declared.corners.floors == outcome.floor)[0])
    floor, rho = declared.corners.floors[index : index + 1], declared.corners.residuals[index]
    assert np.sqrt(outcome.gamma) * residual_bound(floor, 0.0, 49.0 + k)[0] <= rho
