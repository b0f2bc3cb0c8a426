"""Nobody is seen to cross a sphere that somebody crosses: cells around refitted people are never ruled out."""

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, LogisticRegression, PoissonRegressor

from perinstance.analysis.within_bounds.by_sphere.cells import Cells, halved, root_cells, tightened
from perinstance.analysis.within_bounds.by_sphere.crossing_search import _test, nobody_crosses
from perinstance.analysis.within_bounds.by_sphere.curvature_radius import radius_by_curvature
from perinstance.analysis.within_bounds.by_sphere.exact_ascent import _displacement, refit_ascent
from perinstance.analysis.within_bounds.by_sphere.gradient_enclosure import enclosed_gradient, scaled_table
from perinstance.analysis.within_bounds.by_sphere.smallest_sphere import _penalty_displacement
from perinstance.analysis.within_bounds.smooth_models import _targets
from perinstance.folds.block import Block
from perinstance.models.losses.penalised_objective import RidgePenalty, SmoothObjective
from perinstance.models.losses.smooth import PseudoHuber
from perinstance.models.smooth.problem import SmoothProblem
from perinstance.numerics.trust_region.quadratic_duality import part_of_sphere
from perinstance.releases import OutputPerturbation
from tests.analysis.smooth_world import world

PSEUDO = SmoothProblem(SmoothObjective(PseudoHuber(1.0), RidgePenalty(0.3), fit_intercept=True))
MODELS = [
    LogisticRegression(C=10.0),
    LogisticRegression(C=1.0, fit_intercept=False),
    PoissonRegressor(alpha=0.02),
    GammaRegressor(alpha=0.05, fit_intercept=False),
    PSEUDO,
]


def rows_of(estimator, seed=0, n=40, d=2, radius=1.0, precision=None):
    _, sweep = world(seed, estimator, n, d, 0.5)
    release = OutputPerturbation(estimator, scale=0.2, precision=precision)
    fit = release.confidential_fit(sweep, "upper")
    y = sweep.y if fit.classes is None else fit.classes.codes(sweep.y)
    return scaled_table(fit, sweep.X, y, radius, _targets(fit.model.fit.objective.loss, 5.0)), release, fit, sweep


def somebody(rng, rows):
    """Return a person and how far they move the fit in the rows' coordinates, by Newton's method on their objective."""
    x = rng.standard_normal(rows.width)
    x *= rows.radius * rng.uniform(0.3, 1) / np.linalg.norm(x)
    y = float(rng.choice(rows.targets))
    return x, y, _displacement(rows, x, y, np.zeros(len(rows.theta)))[0]


@pytest.mark.parametrize("estimator", MODELS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("d", [1, 2, 4])
def test_where_somebody_balances_the_gradient_nothing_is_ruled_out(estimator, d):
    rng = np.random.default_rng(d)
    rows = rows_of(estimator, d=d, radius=1.5)[0]
    tested_cells = 0
    for _ in range(40):
        x, y, xi = somebody(rng, rows)
        rho, theta = np.linalg.norm(xi), rows.theta + rows.K @ xi
        e = xi / rho
        predictor = x @ theta[:d] + (theta[d] if rows.intercept else 0.0)
        sign = float(np.sign(rows.loss.derivatives(np.array([y]), np.array([predictor]))[0][0]))
        if y != rows.targets[int(sign < 0)]:  # their slope is that of the other target at another predictor
            continue
        sizes = np.exp(rng.uniform(-7, 0, 24))[:, None] * rng.uniform(0.1, 1, (24, len(e)))
        middle = e + sizes * rng.uniform(-0.99, 0.99, sizes.shape)
        wide = np.exp(rng.uniform(-7, 1, 24))
        phi = sign * predictor + wide * rng.uniform(-0.99, 0.99, 24)
        cells = Cells(
            middle - sizes,
            middle + sizes,
            phi - wide,
            phi + wide,
            np.full(24, sign),
            np.zeros(24, dtype=bool),
            np.full(24, int(np.abs(e).argmax())),
        )
        shrunk = tightened(cells)
        assert len(shrunk) == 24
        assert (shrunk.low <= e + 1e-12).all() and (e - 1e-12 <= shrunk.high).all()
        tested = _test(rows, rho, shrunk)
        assert not (tested.excess < 0).any(), (x, y)
        assert (tested.low <= e + 1e-9).all() and (e - 1e-9 <= tested.high).all()
        tested_cells += 24
    assert tested_cells >= 20 * 24


@pytest.mark.parametrize("estimator", MODELS, ids=lambda e: type(e).__name__)
def test_gradients_stay_in_their_enclosure(estimator):
    rng = np.random.default_rng(1)
    rows, rho = rows_of(estimator, d=3)[0], 0.7
    cells = tightened(root_cells(len(rows.theta), 1.0))
    for _ in range(4):
        cells = halved(cells, rng.integers(0, len(rows.theta), len(cells)))
    found = enclosed_gradient(rows, rho, cells)
    e = cells.middle + cells.half * rng.uniform(-1, 1, cells.low.shape)
    inside = np.linalg.norm(e, axis=1) <= 1
    assert inside.sum() > 100
    m = rho * e @ rows.Z.T
    slopes = rows.loss.derivatives(np.broadcast_to(rows.y, m.shape), rows.eta + m)[0]
    exact = slopes @ rows.Z + rows.slope + rho * e @ rows.stiff
    delta = e - cells.middle
    u = rho * delta @ rows.Z.T
    model = found.G + np.einsum("cij,cj->ci", found.M, delta) + (0.5 * found.bend * u**2) @ rows.Z
    off = found.off @ np.abs(rows.Z) + found.rounded
    assert (np.abs(exact - model) <= off + 1e-12)[inside].all()


def test_cells_cover_the_sphere():
    rng = np.random.default_rng(2)
    for p in (1, 2, 4, 7):
        e = rng.standard_normal((200, p))
        e /= np.linalg.norm(e, axis=1)[:, None]
        cells = tightened(root_cells(p, 2.0))
        for _ in range(5):
            cells = tightened(halved(cells, rng.integers(0, p + 1, len(cells))))
        phi, sign = rng.uniform(-2, 2, 200), rng.choice([-1.0, 1.0], 200)
        within = ((cells.low[:, None] <= e) & (e <= cells.high[:, None])).all(axis=2)
        within &= (cells.first[:, None] <= phi) & (phi <= cells.last[:, None]) & (cells.sign[:, None] == sign)
        assert within.any(axis=0).all()


def test_a_quadratic_on_a_part_of_the_sphere():
    rng = np.random.default_rng(4)
    n, p = 60, 4
    M, b, constant = rng.standard_normal((n, p, p)), rng.standard_normal((n, p)), rng.standard_normal(n)
    M = M + np.swapaxes(M, 1, 2)
    e = rng.standard_normal((n, p))
    e /= np.linalg.norm(e, axis=1)[:, None]
    h = np.exp(rng.uniform(-6, 0, (n, p)))
    c = e + h * rng.uniform(-1, 1, (n, p))
    found = part_of_sphere(c, h, M, b, constant).bound
    best = np.full(n, -np.inf)
    for size in (0.0, 1e-3, 1e-2, 0.1, 0.5, 2.0):
        for _ in range(400):
            there = e + size * h * rng.standard_normal((n, p))
            there /= np.linalg.norm(there, axis=1)[:, None]
            z = there - c
            value = constant + 2 * np.einsum("ci,ci->c", b, z) + np.einsum("ci,cij,cj->c", z, M, z)
            best = np.maximum(best, np.where((np.abs(z) <= h).all(axis=1), value, -np.inf))
    assert (best <= found).all()
    small = h.max(axis=1) < 0.05
    assert small.any() and (found - best)[small].max() < 1.0


@pytest.mark.parametrize("estimator", MODELS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("precision", [None, np.diag([4.0, 1.0, 0.5])])
def test_the_sphere_of_the_farthest_is_the_border(estimator, precision):
    intercept = getattr(estimator, "fit_intercept", True)
    precision = None if precision is None else precision[: 2 + intercept, : 2 + intercept]
    rows, *_ = rows_of(estimator, seed=3, precision=precision)
    rng = np.random.default_rng(0)
    best = 0.0
    for _ in range(12):
        x, y, _ = somebody(rng, rows)
        end = refit_ascent(rows, x, y)
        assert np.linalg.norm(end) <= rows.radius
        best = max(best, float(np.linalg.norm(_displacement(rows, end, y, np.zeros(len(rows.theta)))[0])))
    assert nobody_crosses(rows, 1.004 * best, 1e7).nobody
    crossed = nobody_crosses(rows, 0.999 * best, 3e5)
    assert not crossed.nobody and len(crossed.x)


def test_the_displacement_is_that_of_the_refit():
    for estimator in MODELS:
        rows, release, fit, sweep = rows_of(estimator, seed=5)
        rng = np.random.default_rng(1)
        for _ in range(5):
            x, y, xi = somebody(rng, rows)
            label = y if fit.classes is None else fit.classes.labels[int(y)]
            people = release.refine(fit, sweep, Block(x[None], np.array([label])), inside=False)
            assert np.linalg.norm(xi) == pytest.approx(float(people.pairs.distance[0]) * 0.2, rel=1e-6)


def test_the_ascent_follows_the_gradient():
    for estimator in MODELS:
        rows = rows_of(estimator, seed=6)[0]
        x, y, xi = somebody(np.random.default_rng(2), rows)
        slope = _displacement(rows, x, y, xi)[1]
        for k in range(rows.width):
            step = 1e-5 * np.eye(rows.width)[k]
            ahead, back = (_displacement(rows, x + move, y, xi)[0] for move in (step, -step))
            assert (ahead @ ahead - back @ back) / 4e-5 == pytest.approx(slope[k], rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("estimator", MODELS, ids=lambda e: type(e).__name__)
def test_nobody_gets_to_the_radius_of_the_curvature(estimator):
    for seed, n, d in ((0, 40, 2), (1, 15, 3), (2, 60, 1)):
        rows, _, fit, _ = rows_of(estimator, seed=seed, n=n, d=d, radius=1.5)
        rng, radius = np.random.default_rng(seed), radius_by_curvature(rows, _penalty_displacement(fit.model.outside))
        farthest = max(float(np.linalg.norm(somebody(rng, rows)[2])) for _ in range(40))
        assert farthest < radius < 1e3 * farthest
