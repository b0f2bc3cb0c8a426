"""Quadratics over parts of a ball: no point beats the bound, and a thin part reaches it."""

import numpy as np
import pytest

from perinstance.numerics.trust_region.quadratic_duality import part_of_ball


def problem(rng, m):
    p, k = int(rng.integers(1, 6)), 2
    M = rng.standard_normal((1, p, p))
    M = M + np.swapaxes(M, 1, 2)
    if rng.random() < 0.5:
        M = M @ M
    return (
        M,
        rng.standard_normal((1, p)),
        rng.standard_normal(1),
        rng.standard_normal((1, p, m)),
        rng.standard_normal((1, p, k)),
    )


def values(M, b, constant, Y, E, x, pi):
    z = pi @ E[0].T + x @ Y[0].T
    return constant[0] + 2 * z @ b[0] + np.einsum("ij,jk,ik->i", z, M[0], z)


@pytest.mark.parametrize("seed", range(60))
def test_no_point_beats_the_bound(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(0, 5))
    M, b, constant, Y, E = problem(rng, m)
    c = rng.uniform(-1, 1, 1)
    h = np.array([[min(1 - abs(c[0]), rng.choice([0.001, 0.1, 0.5])), rng.choice([0.0, 0.01, 1.0])]])
    bound = part_of_ball(c[None], h, M, b, constant, Y, E)[0]
    pi = h * np.where(
        rng.random((20_000, 2)) < 0.3, rng.choice([-1.0, 1.0], (20_000, 2)), rng.uniform(-1, 1, (20_000, 2))
    )
    x = rng.standard_normal((20_000, m))
    room = np.sqrt(1 - (c + pi[:, 0]) ** 2)
    if m:
        x *= (room * rng.choice([1.0, 1.0, 0.5, 0.0], 20_000) / np.linalg.norm(x, axis=1))[:, None]
    assert values(M, b, constant, Y, E, x, pi).max() <= bound


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_a_point_is_reached(seed):
    """No width: a trust region; projected gradient ascent from many starts finds its maximum."""
    rng = np.random.default_rng(100 + seed)
    m = int(rng.integers(1, 4))
    M, b, constant, Y, E = problem(rng, m)
    c = rng.uniform(-0.9, 0.9, 1)
    bound = part_of_ball(c[None], np.zeros((1, 2)), M, b, constant, Y, E)[0]
    radius = np.sqrt(1 - c[0] ** 2)
    inner, linear = Y[0].T @ M[0] @ Y[0], Y[0].T @ b[0]
    x = rng.standard_normal((200, m))
    x *= radius / np.linalg.norm(x, axis=1)[:, None]
    step = 0.2 / (np.linalg.norm(inner, 2) + np.linalg.norm(linear))
    for _ in range(3000):
        x = x + step * (x @ inner + linear)
        x *= np.minimum(1, radius / np.linalg.norm(x, axis=1))[:, None]
    best = values(M, b, constant, Y, E, x, np.zeros((200, 2))).max()
    assert best == pytest.approx(bound, rel=1e-6, abs=1e-6)
