"""What follows from the sums of rows without a root per person."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from perinstance.models.linear.loops.finished_rows import HARD, ROUGH_RESIDUAL, finish, root_bound
from perinstance.numerics.rounding import EXACT_PARAMETER, UNIT

NOTHING = np.empty(0)


def test_the_bound_of_a_root():
    """Never below, and at most 6.1% above: at random, and next to every power of two."""
    rng = np.random.default_rng(1)
    powers = 2.0 ** np.arange(-930, 930)
    m = np.concatenate(
        [np.exp(rng.uniform(-640, 640, 3000)), powers, np.nextafter(powers, 0), np.nextafter(powers, 1e300)]
    )
    bound = njit(lambda x: root_bound(x))
    for value in m:
        found = Fraction(bound(value)) ** 2 / Fraction(value)
        assert 1 <= found <= Fraction(1061, 1000) ** 2


def told(y, m, t, limits, part):
    mu, r, code = m.copy(), t.copy(), np.empty(len(y), dtype=np.uint8)
    hard = finish(y, part, limits, True, mu, r, (NOTHING, NOTHING), code)
    return mu, r, code, hard


@pytest.mark.parametrize("floor", [0.0, 1.0])
@pytest.mark.parametrize("away", [0.0, 3e-15, 1e-9, np.inf])
@pytest.mark.parametrize("per_root", [1e-15, 1e-10, 1e-3])
def test_many_as_one_by_one(away, per_root, floor):
    """Labels are those of one by one, and numbers are at most what is charged apart, never below what was seen."""
    rng = np.random.default_rng(2)
    n = 1300
    m = np.exp(rng.uniform(np.log(1e-9), 0.0, n))
    m[:8] = [0.0, 1e-300, 0.95, np.nextafter(0.95, 1), 1.0, 2.0, np.nan, np.inf]
    t = rng.normal(size=n)
    y = t + rng.normal(size=n) * 10.0 ** rng.integers(-14, 3, n)
    y[8:12] = t[8:12]
    limits = ((away / 2, away / 2), (per_root / 2, per_root / 2), (0.0, 0.0), (0.0, floor))
    mu, r, code, hard = told(y, m, t, limits, NOTHING)
    slow_mu, slow_r, slow_code, slow_hard = told(y, m, t, limits, np.ones(n))
    assert (code == slow_code).all()
    assert hard == slow_hard == np.count_nonzero(code)
    known = code == 0
    assert mu[known] == pytest.approx(slow_mu[known], rel=8 * UNIT)
    size = np.abs(slow_r[known])
    least = np.maximum(size, floor * np.minimum(np.sqrt(m[known]), 1.0))
    assert (np.abs(np.abs(r[known]) - size) <= 2 * EXACT_PARAMETER * least / (1 - m[known])).all()
    for i in np.flatnonzero(known)[:200]:
        # what was seen, and the rounding charged for it, in rational numbers
        e, up = abs(Fraction(y[i]) - Fraction(t[i])), Fraction(m[i]) * (1 + Fraction(away)) ** 2
        assert Fraction(mu[i]) >= up / (1 - up) * (1 - 8 * Fraction(UNIT))
        lost = Fraction(np.sqrt(m[i])) * Fraction(per_root)
        assert abs(Fraction(r[i])) >= (e + lost) / (1 - Fraction(m[i])) * (1 - 8 * Fraction(UNIT))
    rest = np.isin(code, [ROUGH_RESIDUAL, HARD])
    assert np.array_equal(mu[rest], slow_mu[rest], equal_nan=True)
    assert np.array_equal(r[rest], slow_r[rest], equal_nan=True)
