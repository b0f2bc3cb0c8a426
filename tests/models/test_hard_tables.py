"""Answers on hard tables are not below those of the roads of 2026 (five precisions, since then two), nor looser.

``tests/data/hard_tables.csv`` was written by ``python -m tests.models.test_hard_tables`` before those roads went.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import perinstance as pi

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

ANSWERS = Path(__file__).parents[1] / "data" / "hard_tables.csv"
ASKED = 12  #: people of each table inside, the last of whom are the hardest


def plain(rng, n, d):
    return rng.normal(size=(n, d)) * rng.uniform(0.3, 2.0, size=d)


def near_collinear(rng, n, d, gap):
    X = plain(rng, n, d)
    X[:, -1] = X[:, 0] + gap * rng.normal(size=n)
    return X


def scaled(rng, n, d, powers):
    return plain(rng, n, d) * 10.0 ** rng.uniform(-powers, powers, size=d)


def giants(rng, n, d, power):
    X = plain(rng, n, d)
    X[-3:] *= 10.0**power
    return X


#: name -> rows, alpha, intercept, the size of the last people's residuals
TABLES = {
    "collinear to 1e-7": (lambda rng: near_collinear(rng, 300, 6, 1e-7), 0.0, False, 1.0),
    "collinear to 1e-10": (lambda rng: near_collinear(rng, 300, 6, 1e-10), 0.0, True, 1.0),
    "collinear to 1e-12, held": (lambda rng: near_collinear(rng, 200, 4, 1e-12), 1e-9, True, 1.0),
    "dependent": (lambda rng: np.hstack([X := rng.integers(-9, 10, (80, 4)).astype(float), X @ np.ones((4, 1))]),
                  0.0, True, 1.0),
    "wide": (lambda rng: plain(rng, 20, 50), 1e-3, False, 1.0),
    "wide with intercept": (lambda rng: plain(rng, 20, 50), 1e-3, True, 1.0),
    "wide, hardly held": (lambda rng: plain(rng, 12, 40), 1e-11, True, 1.0),
    "wide, collinear people": (lambda rng: near_collinear(rng, 48, 30, 1e-9).T.copy(), 1e-6, False, 1.0),
    "wide, columns apart": (lambda rng: scaled(rng, 16, 45, 6), 1e-4, True, 1.0),
    "as many people as columns": (lambda rng: plain(rng, 30, 30), 1e-9, False, 1.0),
    "free and wide": (lambda rng: plain(rng, 10, 14), 0.0, False, 1.0),
    "interpolated": (lambda rng: plain(rng, 500, 5), 1e-8, False, 1e-13),
    "interpolated with intercept": (lambda rng: plain(rng, 500, 5), 1e-8, True, 1e-11),
    "interpolated, many people": (lambda rng: plain(rng, 30_000, 14), 1e-3, False, 1e-12),
    "columns apart": (lambda rng: scaled(rng, 250, 7, 8), 1e-2, True, 1.0),
    "columns far apart": (lambda rng: scaled(rng, 60, 5, 60), 0.0, False, 1.0),
    "huge": (lambda rng: plain(rng, 100, 5) * 1e120, 1.0, True, 1.0),
    "tiny": (lambda rng: plain(rng, 100, 5) * 1e-120, 1e-245, False, 1.0),
    "giants": (lambda rng: giants(rng, 400, 6, 7), 1e-3, True, 1.0),
    "giants, free": (lambda rng: giants(rng, 60, 5, 12), 0.0, False, 1.0),
    "offset": (lambda rng: plain(rng, 300, 4) + 1e7, 0.0, True, 1.0),
    "one direction alone": (lambda rng: np.vstack([np.hstack([plain(rng, 40, 4), np.zeros((40, 1))]),
                                                   plain(rng, 1, 5)]), 0.0, False, 1.0),
}  # fmt: skip


def table(name):
    """Rows, targets, people outside, the penalty and whether there is an intercept."""
    make, alpha, intercept, residual = TABLES[name]
    rng = np.random.default_rng(sorted(TABLES).index(name))
    X = make(rng)
    n, d = X.shape
    size = np.abs(X).max(axis=0)
    theta = rng.normal(size=d) / np.where(size > 0, size, 1.0)
    y = X @ theta + rng.normal(size=n)
    y[-4:] = (X @ theta)[-4:] + residual * rng.normal(size=4)
    if residual < 1:
        y[:-4] += 1e3 * residual * rng.normal(size=n - 4) - (y - X @ theta)[:-4]
    outside = X[rng.integers(n, size=4)] * rng.uniform(0.5, 2, size=(4, d)), rng.normal(size=4)
    return X, y, outside, alpha, intercept


def answers(name):
    """Yield (release, people, epsilons, labels)."""
    X, y, outside, alpha, intercept = table(name)
    ridge = (Ridge(alpha) if alpha else LinearRegression()).set_params(fit_intercept=intercept)
    for release in (pi.PosteriorSample(alpha, fit_intercept=intercept), pi.OutputPerturbation(ridge, scale=0.5)):
        for inside in (True, False):
            found = pi.audit(release, X, y, delta=1e-6, **({} if inside else {"outsiders": outside}))
            rows = np.unique(np.linspace(0, len(found.losses) - 1, ASKED).astype(int)) if inside else np.arange(4)
            who = f"{type(release).__name__} {'inside' if inside else 'outside'}"
            yield who, rows, np.asarray(found.losses)[rows], found.pairs.kinds[rows]


def before():
    with ANSWERS.open() as file:
        return [(name, who, int(row), float(loss), kind) for name, who, row, loss, kind in csv.reader(file)]


@pytest.mark.parametrize("name", TABLES)
def test_nothing_is_below_the_old_roads_nor_looser(name):
    old = [one[1:] for one in before() if one[0] == name]
    new = [one for who, *columns in answers(name) for one in zip([who] * 99, *columns, strict=False)]
    assert [one[:2] for one in new] == [one[:2] for one in old]
    for (who, row, was, was_kind), (_, _, loss, kind) in zip(old, new, strict=True):
        assert loss >= was * (1 - 1e-6) - 1e-12 or was_kind == "upper", (who, row, was, loss)
        assert loss <= was * (1 + 1e-6) + 1e-12 or kind == "upper", (who, row, was, loss)
        assert loss <= was * 1.01 + 1e-9, (who, row, was, loss)


if __name__ == "__main__":
    with ANSWERS.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        for name in TABLES:
            for who, *columns in answers(name):
                for row, loss, kind in zip(*columns, strict=True):
                    lines.writerow([name, who, row, repr(float(loss)), kind])
