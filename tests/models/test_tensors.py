"""Forms on the sphere: sampled and climbed values never beat the bound, and come close to it."""

import numpy as np
import pytest

from perinstance.numerics.tensor_norms import cubic_top, quartic_size, quartic_top, symmetric


def sphere(rng, size, p):
    v = rng.standard_normal((size, p))
    return v / np.linalg.norm(v, axis=1)[:, None]


def climbed_cubic(S, v, steps=100):
    """The shifted power method, from many starts."""
    for _ in range(steps):
        v = np.einsum("abc,ib,ic->ia", S, v, v) + 2 * np.abs(S).sum() / len(S) * v
        v /= np.linalg.norm(v, axis=1)[:, None]
    return np.abs(np.einsum("abc,ia,ib,ic->i", S, v, v, v)).max()


@pytest.mark.parametrize("seed", range(12))
def test_a_cubic_stays_below_its_bound(seed):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 6))
    S = symmetric(rng.standard_normal((p, p, p)) + 3 * rng.random(), (0, 1, 2))
    bound, v = cubic_top(S), sphere(rng, 2000, p)
    assert climbed_cubic(S, v) <= bound
    a, b, c = (sphere(rng, 2000, p) for _ in range(3))
    assert np.abs(np.einsum("abc,ia,ib,ic->i", S, a, b, c)).max() <= bound
    assert bound <= np.linalg.norm(S.reshape(p, -1), 2) * (1 + 1e-9)  # never worse than the unfolding


@pytest.mark.parametrize("seed", range(12))
def test_a_quartic_stays_below_its_bound(seed):
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 6))
    Q = rng.standard_normal((p * p, p * p))
    v = sphere(rng, 20_000, p)
    V = np.einsum("ia,ib->iab", v, v).reshape(len(v), -1)
    value = np.einsum("ia,ab,ib->i", V, Q, V)
    assert value.max() <= quartic_top(Q) and -value.min() <= quartic_top(-Q)
    tensor = symmetric(Q.reshape(p, p, p, p), (0, 1, 2, 3))
    four = [sphere(rng, 2000, p) for _ in range(4)]
    assert np.abs(np.einsum("abcd,ia,ib,ic,id->i", tensor, *four, optimize=True)).max() <= quartic_size(tensor)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_what_is_known_is_found(p):
    """``|v|^4`` in any arrangement of its indices is one, and minus one with a minus."""
    e = np.eye(p).ravel()
    swap = np.einsum("ac,bd->abcd", np.eye(p), np.eye(p)).reshape(p * p, -1)
    for Q in (np.outer(e, e), swap, symmetric(swap.reshape(p, p, p, p), (0, 1, 2, 3)).reshape(p * p, -1)):
        assert quartic_top(Q) == pytest.approx(1, rel=1e-3)
        assert quartic_top(-Q) == pytest.approx(-1, rel=1e-3)


def test_nothing_and_too_much():
    assert cubic_top(np.zeros((0, 0, 0))) == 0 and quartic_top(np.zeros((4, 4))) == 0
    assert quartic_top(np.full((4, 4), np.inf)) == np.inf
