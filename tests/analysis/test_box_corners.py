"""Slabs of a box: no point of a slab beats its corners, and a point of the slab reaches them."""

import numpy as np
import pytest

from perinstance.analysis.box_corners import MOST_FEATURES, box


def world(seed):
    rng = np.random.default_rng(seed)
    d, intercept = int(rng.integers(1, 5)), bool(seed % 2)
    p = d + int(intercept)
    B = rng.standard_normal((p, p))
    theta = rng.standard_normal(p)
    if seed % 3 == 0:
        theta[0] = 0.0  # edges along the first axis lie in the slab's planes
    bounds = rng.uniform(0.2, 2, d)
    listed = box(bounds, intercept)
    sigma = listed.x @ theta / np.abs(listed.x @ theta).max()
    return rng, d, intercept, B @ B.T, theta, bounds, listed, sigma


@pytest.mark.parametrize("seed", range(24))
def test_no_point_of_a_slab_beats_its_corners(seed):
    rng, d, intercept, M, theta, bounds, listed, sigma = world(seed)
    form = listed.slab_maxima(M, sigma)
    x = rng.uniform(-1, 1, (20_000, d))
    x[rng.random((20_000, d)) < 0.6] = 1.0
    x = np.concatenate([x * rng.choice([-1.0, 1.0], x.shape) * bounds, np.ones((20_000, int(intercept)))], axis=1)
    value, at = np.einsum("ij,jk,ik->i", x, M, x), x @ theta / np.abs(listed.x @ theta).max()
    for cells in (1, 5, 60):
        edges = np.linspace(-1, 1, cells + 1)
        upper = form.upper(edges[:-1], edges[1:])
        cell = np.clip(np.searchsorted(edges, at, "right") - 1, 0, cells - 1)
        assert (value <= upper[cell]).all()


def test_too_many_features_are_not_listed():
    assert box(np.ones(MOST_FEATURES + 1), False) is None
    assert len(box(np.ones(3), True).x) == 8 and len(box(np.ones(3), True).first) == 12
