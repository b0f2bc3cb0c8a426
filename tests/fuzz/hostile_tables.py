"""Tables that are hard for floating point, by kind, with people inside and outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Generator = np.random.Generator


@dataclass(frozen=True)
class HostileTable:
    """A table, people who are not in it, and the penalty."""

    kind: str
    X: NDArray
    y: NDArray
    X_new: NDArray
    y_new: NDArray
    alpha: float
    intercept: bool


def _plain(rng: Generator, n: int, d: int) -> NDArray:
    return rng.normal(size=(n, d)) * rng.uniform(0.1, 3.0, size=d)


def _near_dependent(rng: Generator, n: int, d: int) -> NDArray:
    X = _plain(rng, n, d + 1)
    X[:, -1] = X[:, 0] + 10.0 ** rng.uniform(-16, -3) * rng.normal(size=n)
    return X


def _duplicated(rng: Generator, n: int, d: int) -> NDArray:
    X = _plain(rng, n, d)
    return np.column_stack([X, X[:, rng.integers(d)]])


def _combined(rng: Generator, n: int, d: int) -> NDArray:
    X = rng.integers(-9, 10, size=(n, d)).astype(float)
    return np.column_stack([X, X @ rng.integers(-3, 4, size=d)])


def _constant(rng: Generator, n: int, d: int) -> NDArray:
    return np.column_stack([_plain(rng, n, d), np.full(n, rng.choice([1.0, 0.1, 3.7, 1e6, 1e-3]))])


def _nobody_has(rng: Generator, n: int, d: int) -> NDArray:
    return np.column_stack([_plain(rng, n, d), np.zeros(n)])


def _offset(rng: Generator, n: int, d: int) -> NDArray:
    return _plain(rng, n, d) + 10.0 ** rng.uniform(2, 13)


def _scaled(rng: Generator, n: int, d: int) -> NDArray:
    return _plain(rng, n, d) * 10.0 ** rng.uniform(-150, 150)


def _scaled_apart(rng: Generator, n: int, d: int) -> NDArray:
    return _plain(rng, n, d) * 10.0 ** rng.uniform(-12, 12, size=d)


def _scaled_far_apart(rng: Generator, n: int, d: int) -> NDArray:
    return _plain(rng, n, d) * 10.0 ** rng.uniform(-140, 140, size=d)


def _giant(rng: Generator, n: int, d: int) -> NDArray:
    X = _plain(rng, n, d)
    X[rng.integers(n)] *= 10.0 ** rng.uniform(1, 14)
    return X


def _whole(rng: Generator, n: int, d: int) -> NDArray:
    return rng.integers(-5, 6, size=(n, d))


def _single(rng: Generator, n: int, d: int) -> NDArray:
    return _plain(rng, n, d).astype(np.float32)


def _one_hot(rng: Generator, n: int, d: int) -> NDArray:
    return np.eye(d + 1)[rng.integers(d + 1, size=n)]


KINDS: dict[str, Callable[[Generator, int, int], NDArray]] = {
    "plain": _plain,
    "nearly dependent": _near_dependent,
    "duplicated": _duplicated,
    "combined": _combined,
    "constant": _constant,
    "nobody has it": _nobody_has,
    "offset": _offset,
    "scaled": _scaled,
    "scaled apart": _scaled_apart,
    "scaled far apart": _scaled_far_apart,
    "giant": _giant,
    "integers": _whole,
    "float32": _single,
    "one-hot": _one_hot,
}


def _penalty(rng: Generator) -> float:
    chance = rng.random()
    if chance < 0.2:
        return 0.0
    if chance < 0.65:
        return float(10.0 ** rng.integers(-16, -5))
    if chance < 0.85:
        return float(10.0 ** rng.uniform(-3, 3))
    return float(10.0 ** rng.uniform(-100, 100))


def _target(rng: Generator, X: NDArray) -> NDArray:
    """Noise, an exact fit, nearly one, zeros or a constant; of any size."""
    n, d = X.shape
    chance = rng.random()
    with np.errstate(over="ignore"):
        size = np.abs(X).max(initial=1e-300)
        fit = (np.asarray(X, dtype=np.float64) / size) @ np.round(rng.normal(size=d) * 4) / 4
    if chance < 0.15:
        return np.asarray(fit, dtype=np.float64)
    if chance < 0.25:
        return fit + 10.0 ** rng.uniform(-15, -3) * rng.normal(size=n)
    if chance < 0.3:
        return np.zeros(n)
    if chance < 0.35:
        return np.full(n, 0.1)
    if chance < 0.45:
        return (fit + rng.normal(size=n)) * 10.0 ** rng.uniform(-100, 100)
    return np.asarray(fit + rng.normal(size=n), dtype=np.float64)


def _outsiders(rng: Generator, X: NDArray, k: int) -> NDArray:
    """People like those inside, and people in the directions that hardly anybody has."""
    n, d = X.shape
    Z = np.asarray(X, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore"):
        scale = np.abs(Z).max(axis=0, initial=0.0)
        unit = np.where(scale > 0, scale, 1.0)
        weak = np.linalg.svd(Z / unit, full_matrices=True)[2][-1] * unit
    rows = []
    for j in range(k):
        base = Z[rng.integers(n)] * rng.uniform(0.5, 2)
        if j % 4 == 0:
            rows.append(base + weak * 10.0 ** rng.uniform(-3, 3))
        elif j % 4 == 1:
            rows.append(rng.normal(size=d) * unit * 10.0 ** rng.uniform(-2, 2))
        elif j % 4 == 2:
            rows.append(np.where(np.arange(d) == rng.integers(d), unit * 10.0 ** rng.uniform(-6, 6), base))
        else:
            rows.append(np.copy(Z[rng.integers(n)]))
    out = np.array(rows)
    return np.round(out) if X.dtype.kind == "i" else out.astype(X.dtype)


def hostile_table(seed: int, outsiders: int = 10) -> HostileTable:
    """Draw a table; the kind goes round, the rest is random."""
    rng = np.random.default_rng([17, seed])
    kind = list(KINDS)[seed % len(KINDS)]
    d = int(rng.integers(1, 4))
    n = int(rng.choice([1, 2, 3, 5, 12, 30, 45], p=[0.06, 0.06, 0.08, 0.1, 0.2, 0.25, 0.25]))
    X = KINDS[kind](rng, n, d)
    y = _target(rng, X)
    X_new = _outsiders(rng, X, outsiders)
    y_new = rng.choice([-1.0, 0.0, 1.0, 3.3], size=outsiders) * max(float(np.abs(y).max()), 1e-100) * 1.5
    return HostileTable(kind, X, y, X_new, y_new, _penalty(rng), bool(rng.random() < 0.5))
