"""People of whom floats do not say enough, from the n x n system in ball arithmetic: every radius holds.

An intercept borders K with ones: ``[K 1; 1' 0]^-1`` has ``P`` in its corner, which takes the place of ``K^-1``, and the
last row says how the intercept moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb, arb_mat

from perinstance.errors import NumericalTrouble
from perinstance.models.linear.open_people import (
    LAST_PRECISIONS,
    PRECISIONS,
    PeopleBounds,
    PersonBounds,
    inverted,
    person_bounds,
)
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision

#: people up to which the last precisions are tried (changes the width)
FEW_PEOPLE = 64


def answers_in_balls(fit: Any, X: Floats, y: Floats, at: list[int] | None, floor: float) -> PeopleBounds:
    """Answer for rows X, y; ``at`` is where they stand in the table, None for people outside."""
    found = PeopleBounds.unknown(len(X))
    todo = np.arange(len(X))
    for bits in PRECISIONS + (LAST_PRECISIONS if len(fit.X) <= FEW_PEOPLE else ()):
        with working_precision(bits):
            system = BallSystem.of(fit)
            if system is None:
                continue
            places = None if at is None else [at[i] for i in todo]
            for i, answer in zip(todo, system.answers(X[todo], y[todo], places), strict=True):
                if answer is not None:
                    found.narrow(int(i), answer)
        todo = np.flatnonzero(found.rough(floor))
        if not len(todo):
            break
    return found


def theta_in_balls(fit: Any) -> Floats:
    """Return the estimate, the intercept last, where floats leave nothing certain."""
    for bits in PRECISIONS + LAST_PRECISIONS:
        with working_precision(bits):
            system = BallSystem.of(fit)
            if system is not None:
                coef = system.X.transpose() * arb_mat([[v] for v in system.solved.entries()[: len(fit.X)]])
                values = coef.entries() + system.solved.entries()[len(fit.X) :]
                return np.array([float(v.mid()) for v in values])
    raise NumericalTrouble(
        "the rows are so far apart in size, beside the penalty, that the estimate could not be computed; "
        "divide the largest columns by a public constant, or use a larger alpha"
    )


@dataclass(frozen=True, slots=True)
class BallSystem:
    """The inverse of K, bordered with ones where there is an intercept, and everything that follows from it."""

    fit: Any  #: a ``DualFit``
    X: Any  #: (n, p)
    inverse: Any  #: (n, n), or (n + 1, n + 1)
    solved: Any  #: the inverse times y

    @classmethod
    def of(cls, fit: Any) -> BallSystem | None:
        """Invert in the present precision; None where that is not certain."""
        n, X = len(fit.X), _matrix(fit.X)
        K = X * X.transpose()
        rows = [[K[i, j] + (arb(fit.alpha) if i == j else 0) for j in range(n)] for i in range(n)]
        if fit.fit_intercept:
            rows = [[*row, arb(1)] for row in rows] + [[arb(1)] * n + [arb(0)]]
        inverse = inverted(arb_mat(rows))
        if inverse is None:
            return None
        right = [[arb(v)] for v in fit.y.tolist()] + [[arb(0)]] * int(fit.fit_intercept)
        return cls(fit, X, inverse, inverse * arb_mat(right))

    def answers(self, X: Floats, y: Floats, at: list[int] | None) -> Iterator[PersonBounds | None]:
        """Yield the bounds of these people; None where nothing is certain."""
        return self._outside(X, y) if at is None else self._inside(at)

    def _inside(self, at: list[int]) -> Iterator[PersonBounds | None]:
        n, alpha = len(self.fit.X), arb(self.fit.alpha)
        inverse = self.inverse
        moved = None
        if self.fit.moves:
            moved = self.X.transpose() * arb_mat([[inverse[i, j] for j in at] for i in range(n)])
        for column, i in enumerate(at):
            k = inverse[i, i]
            if not k > 0:
                yield None
                continue
            square = arb(0)
            if moved is not None:
                last = [inverse[n, i]] if self.fit.fit_intercept else []
                square = self._square([moved[j, column] for j in range(moved.nrows())] + last)
            yield person_bounds(1 / (alpha * k) - 1, self.solved[i, 0] / k, square)

    def _outside(self, X: Floats, y: Floats) -> Iterator[PersonBounds | None]:
        alpha, intercept = arb(self.fit.alpha), self.fit.fit_intercept
        new = _matrix(X).transpose()
        seen = (self.X * new).tolist() + [[arb(1)] * len(X)] * int(intercept)
        c = arb_mat(seen)
        b = self.inverse * c
        across = self.X.transpose() * arb_mat(b.tolist()[: len(self.fit.X)]) if self.fit.moves else None
        for j in range(len(X)):
            x = [new[i, j] for i in range(X.shape[1])]
            column = arb_mat([[row[j]] for row in seen])
            beta = arb_mat([[b[i, j]] for i in range(b.nrows())])
            mu = (_dot(x, x) - (column.transpose() * beta)[0, 0]) / alpha
            r = arb(float(y[j])) - (column.transpose() * self.solved)[0, 0]
            square = arb(0)
            if across is not None:
                last = [-beta[b.nrows() - 1, 0] / alpha] if intercept else []
                square = self._square([(v - across[i, j]) / alpha for i, v in enumerate(x)] + last)
            yield person_bounds(mu, r, square / ((1 + mu) * (1 + mu))) if mu > -1 else None

    def _square(self, moved: list[Any]) -> Any:
        if self.fit.precision is None:
            return _dot(moved, moved)
        column = arb_mat([[v] for v in moved])
        return (column.transpose() * (_matrix(self.fit.precision) * column))[0, 0]


def _matrix(rows: Floats) -> Any:
    return arb_mat([[arb(v) for v in row] for row in np.asarray(rows, dtype=np.float64).tolist()])


def _dot(a: list[Any], b: list[Any]) -> Any:
    return (arb_mat([a]) * arb_mat([[v] for v in b]))[0, 0]
