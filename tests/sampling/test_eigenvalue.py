"""The enclosed smallest eigenvalue against mpmath, and matrices whose spectrum is known."""

import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

from perinstance.errors import InvalidInput
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.sampling import ExactGram, draw, noisy_eigenvalue
from perinstance.sampling.eigenvalue_balls import smallest_eigenvalue


def enclosed(X, precision=192, alpha=0.0):
    X = np.asarray(X, dtype=float)
    with working_precision(precision):
        return smallest_eigenvalue(ExactGram.of(X, np.zeros(len(X))).normal_equations(alpha))


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 9), st.sampled_from([192, 384]))
def test_random_matrices(seed, d, n, precision):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-4, 5, d)
    ball = enclosed(X, precision)
    with mpmath.workdps(120):
        Xm = mpmath.matrix(X.tolist())
        truth = mpmath.eigsy(Xm.T * Xm, eigvals_only=True)[0]
        size = float(np.abs(X).max() ** 2)
        middle, radius = mpmath.mpf(ball.mid().str(110, radius=False)), float(ball.rad())
        assert abs(middle - truth) <= radius + mpmath.mpf(10) ** -90 * size
        assert radius <= 1e-25 * size * d * n


@pytest.mark.parametrize("d", [1, 2, 30])
def test_equal_and_nearly_equal_eigenvalues(d):
    X = np.eye(d)
    assert enclosed(X).contains(arb(1))
    X[0, 0] = 1 - 2.0**-30
    assert enclosed(X).contains(arb(((2**30 - 1) ** 2, -60)))


def test_singular_and_empty():
    assert enclosed(np.ones((5, 3))).contains(arb(0))
    assert enclosed(np.zeros((2, 3))).contains(arb(0))
    assert enclosed(np.ones((5, 3)), alpha=0.25).contains(arb(0.25))


@pytest.mark.parametrize(("d", "n"), [(30, 1), (30, 5), (60, 2)])
def test_few_rows_of_many_columns(d, n):
    """Whose matrix is singular in every half: AdaOPS must publish something whatever the rows are."""
    rng = np.random.default_rng(d + n)
    for scale in (np.ones(d), 10.0 ** rng.integers(-4, 5, d)):
        X = rng.standard_normal((n, d)) * scale
        ball = enclosed(X)
        assert ball.contains(arb(0)) and float(ball.rad()) <= 1e-25 * np.abs(X).max() ** 2 * d * n


@pytest.mark.usefixtures("fixed_noise")
def test_noisy_eigenvalue_is_drawn():
    X = np.random.default_rng(0).standard_normal((60, 4))
    truth = np.linalg.eigvalsh(X.T @ X)[0]
    equations = ExactGram.of(X, np.zeros(60)).normal_equations()
    draws = [draw(noisy_eigenvalue(equations, 0.5)).values[0] for _ in range(30)]
    assert abs(np.mean(draws) - truth) < 5 * 0.5 / np.sqrt(30)
    assert 0.2 < np.std(draws) < 0.9
    with pytest.raises(InvalidInput, match="scale"):
        noisy_eigenvalue(equations, 0.0)


def test_a_cluster_of_tiny_eigenvalues_is_told_apart():
    """Three people on a line but for the rounding of their rows: one eigenvalue is zero, and the next one almost."""
    X = [
        [-1.5831989447433443, -0.5936996042764804, -0.2638664907826751, 0.5209379581538087],
        [-0.6795704568867222, 0.0, 0.22652348562405678, 0.8944271909967938],
        [1.145192596843117, 0.8588944476323377, 0.7634617312251066, 0.7536314941025921],
    ]
    ball = enclosed(X, 256)
    assert abs(float(ball.mid())) < 1e-40 and float(ball.rad()) < 1e-40
