"""Noisy means of hostile columns against exact rationals: nobody's distance is below the truth, every label is true."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import perinstance as pi
from perinstance.engines import Local
from perinstance.folds.block import Block
from perinstance.folds.exact_column_sums import column_sums

DELTA = 1e-6
END = Fraction(np.finfo(np.float64).max) * (1 - Fraction(1, 2**40))  # beyond, charged numbers overflow


def _cancelling(rng, n):
    x = rng.normal(size=n)
    x[: n // 2 * 2 : 2] = 10.0 ** rng.uniform(0, 300)
    x[1 : n // 2 * 2 : 2] = -x[: n // 2 * 2 : 2]
    return rng.permutation(x)


def _one_giant(rng, n):
    x = rng.normal(size=n)
    x[rng.integers(n)] = rng.choice([1e300, -1e16, 1e100])
    return x


def _balanced(rng, n):
    """Some are the mean but for the smallest of numbers."""
    x = np.full(n, 1e15)
    x[: n // 3] = 10.0 ** -rng.integers(1, 300)
    x[n // 3 : n // 3 * 2] = 2e15
    return x


#: One column of n numbers, by the trouble it makes.
COLUMNS = {
    "ordinary": lambda rng, n: rng.normal(size=n),
    "milliseconds": lambda rng, n: 1.7e12 + 10 * rng.normal(size=n),
    "whole milliseconds": lambda rng, n: 1.7e12 + rng.integers(-10, 11, size=n),
    "1e15": lambda rng, n: 1e15 + 10 * rng.normal(size=n),
    "last digits": lambda rng, n: 1.0 + rng.integers(-2, 3, size=n) * 2.0**-52,
    "constant": lambda rng, n: np.full(n, rng.choice([0.0, 0.1, 1 / 3, -1e15, 1e300, 5e-324])),
    "huge": lambda rng, n: 1e300 * rng.normal(size=n),
    "near the end": lambda rng, n: np.finfo(np.float64).max * rng.choice([-1.0, 1.0, 0.7], size=n),
    "tiny": lambda rng, n: 1e-200 * rng.normal(size=n),
    "subnormal": lambda rng, n: 5e-324 * rng.integers(-9, 10, size=n),
    "all scales": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.uniform(-300, 300, size=n),
    "cancelling": _cancelling,
    "one giant": _one_giant,
    "balanced": _balanced,
    "mostly zero": lambda rng, n: rng.normal(size=n) * (rng.uniform(size=n) < 0.1) * 1e-180,
}
TYPES = {
    "float32": lambda rng, n, d: (1.7e7 + 10 * rng.normal(size=(n, d))).astype(np.float32),
    "small float32": lambda rng, n, d: (1e-42 * rng.normal(size=(n, d))).astype(np.float32),
    "int64": lambda rng, n, d: 2**53 - rng.integers(0, 20, size=(n, d)),
    "int32": lambda rng, n, d: rng.integers(-(2**31), 2**31, size=(n, d), dtype=np.int32),
    "uint8": lambda rng, n, d: rng.integers(0, 256, size=(n, d), dtype=np.uint8),
}


def table(rng, n, d, of_type):
    """Rows, of one type or of one trouble in each column; n is for both the table and the people outside."""
    if of_type is not None:
        return TYPES[of_type](rng, n, d)
    X = np.column_stack([COLUMNS[str(rng.choice(list(COLUMNS)))](rng, n) for _ in range(d)])
    return np.asfortranarray(X) if rng.integers(2) else X


def true_distances(X, people, inside, release):
    """Distances in units of the noise, squared for Gaussian noise; None where there is no mean without the person."""
    scale, n = Fraction(release.scale), len(X)
    total = [sum(map(Fraction, column)) for column in X.T.tolist()]
    for row in people.tolist():
        x = list(map(Fraction, row))
        if release.statistic == "sum":
            move = x
        elif inside:
            move = None if n == 1 else [s / n - (s - v) / (n - 1) for s, v in zip(total, x, strict=True)]
        else:
            move = [s / n - (s + v) / (n + 1) for s, v in zip(total, x, strict=True)]
        if move is None:
            yield None
        elif release.noise == "laplace":
            yield sum(map(abs, move)) / scale
        else:
            yield sum(v * v for v in move) / scale**2


def check(answer, truths, release):
    """Compare everybody with the truth and return how many they are."""
    power = 1 if release.noise == "laplace" else 2
    labels, room = answer.pairs.kinds, Fraction(10) ** -300 * (1 + 1 / Fraction(release.scale))
    for label, distance, loss, truth in zip(labels, answer.pairs.distance, answer.losses, truths, strict=True):
        assert label in ("exact", "upper")
        if truth is None:
            assert loss == np.inf
            continue
        if np.isinf(distance):  # a bound, and said to be one
            assert label == "upper" and truth > END**power
            continue
        found = Fraction(distance) ** power
        assert found >= truth
        assert label == "upper" or found <= truth * (1 + Fraction(1, 10**6)) ** power
        assert label == "exact" or found <= 4 * truth + room**power  # and where the smallest of floats are too coarse
        assert (distance == 0) == (truth == 0)
        if power == 1:
            assert mpmath.mpf(loss) >= mpmath.mpf(truth.numerator) / truth.denominator + 2 * mpmath.log(1 - DELTA)
    return len(labels)


def fuzz(seed, folder):
    """Audit one hostile table, both its people and others, in small blocks or from a file."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([1, 2, 3, 7, 40])), int(rng.choice([1, 1, 2, 4]))
    of_type = str(rng.choice(list(TYPES))) if seed % 4 == 0 else None
    X, others = table(rng, n, d, of_type), table(rng, 12, d, of_type)
    others[:2] = X[0]  # joining people who are like somebody
    release = pi.NoisyMean(
        scale=float(rng.choice([1.0, 0.01, 1e-200, 1e200, 1e300])),
        noise=str(rng.choice(["laplace", "gaussian"])),
        statistic=str(rng.choice(["mean", "mean", "sum"])),
    )
    given, engine = X, Local(threads=1, block_bytes=int(rng.choice([1, 200, 10**6])))
    if seed % 5 == 0:
        pq.write_table(pa.table({f"c{j}": np.ascontiguousarray(X[:, j]) for j in range(d)}), folder / f"{seed}.parquet")
        given = pi.scan(folder / f"{seed}.parquet")
    inside = pi.audit(release, given, delta=DELTA, engine=engine)
    outside = pi.audit(release, given, delta=DELTA, engine=engine, outsiders=(others,))
    with mpmath.workdps(60):
        return check(inside, true_distances(X, X, True, release), release) + check(
            outside, true_distances(X, others, False, release), release
        )


@pytest.mark.parametrize("seed", range(20))
def test_nobody_is_below_the_truth(seed, tmp_path):
    assert fuzz(seed, tmp_path) >= 13


@pytest.mark.slow
def test_ten_thousand_people(tmp_path):
    assert sum(fuzz(seed, tmp_path) for seed in range(30, 500)) > 10_000


@pytest.mark.parametrize("centre", [1.7e12, 1e15])
def test_timestamps_are_exact(centre):
    """Without compensation they were a permille too small here, and zero at 1e15."""
    X = centre + 10 * np.random.default_rng(0).normal(size=500)
    release = pi.NoisyMean(scale=1.0)
    answer = pi.audit(release, X, delta=DELTA)
    assert (answer.pairs.kinds == "exact").all()
    check(answer, true_distances(X[:, None], X[:, None], True, release), release)


def test_an_integer_that_would_be_rounded_is_refused():
    with pytest.raises(pi.errors.InvalidTable, match="2\\^53"):
        pi.audit(pi.NoisyMean(), np.array([[2**53 + 2], [1]]))


@pytest.mark.parametrize(("n", "columns"), [(3000, 1), (3000, 3), (200, 130)])
def test_sums_are_exact_in_any_layout(n, columns):
    rng = np.random.default_rng(columns)
    X = rng.normal(size=(n, columns)) * 10.0 ** rng.integers(-290, 290, size=(n, columns))
    units = tuple(int(sum(map(Fraction, column)) * 2**1074) for column in X.T.tolist())
    for rows in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        sums = column_sums(Block(rows, np.zeros(len(X))))
        assert (sums.n, sums.units, sums.finite) == (n, units, True)
    X[7, -1] = np.nan
    assert not column_sums(Block(X, np.zeros(len(X)))).finite
    X[7, -1] = -np.inf
    assert not column_sums(Block(X, np.zeros(len(X)))).finite
