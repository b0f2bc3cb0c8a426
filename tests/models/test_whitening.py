"""The whitening of a Hessian against exact rationals: what it says it is off by, it is not further off."""

from __future__ import annotations

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from perinstance.models.smooth.newton import whiten


def rational(M):
    return fmpq_mat([[fmpq(*float(x).as_integer_ratio()) for x in row] for row in M])


def off(T, M, diagonal):
    """Return the Frobenius norm of ``T M T' - diag``, formed exactly."""
    T, M = rational(T), rational(M)
    exact = T * M * T.transpose() - rational(np.diag(diagonal))
    entries = [float(int(x.p) / int(x.q)) for x in exact.entries()]
    return np.linalg.norm(entries)


@pytest.mark.parametrize("spread", [0.0, 3.0, 8.0, 11.0])
def test_what_it_is_off_by(spread):
    rng = np.random.default_rng(int(spread))
    X = rng.standard_normal((60, 6)) @ np.diag(np.logspace(0, -spread / 2, 6)) @ rng.standard_normal((6, 6))
    H, B = X.T @ X, rng.standard_normal((6, 6))
    for A in (None, B @ B.T):
        around = whiten(H, A)
        assert off(around.T, H, np.ones(6)) <= around.lost < 1e-13 * around.condition + 1e-12
        larger = around.nu - np.linalg.eigvalsh(around.T @ (np.eye(6) if A is None else A) @ around.T.T)
        assert (larger > 0).all()


def test_where_too_much_is_lost():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 3))
    X = np.hstack([X, X[:, :1] + 1e-6 * rng.standard_normal((60, 1))])
    assert whiten(X.T @ X).unusable and not whiten(X.T @ X + 0.1 * np.eye(4)).unusable
