"""The confidential fit of a ridge regression with more columns than people, and what it says of everybody.

Nothing p x p is made unless somebody asks for it (``inverse``, ``gram``: the law of a whole estimate).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.models.interface import FitHealth, ShowsNoValue
from perinstance.models.linear.dual_system import DualAnswers, DualSystem, Lengths
from perinstance.models.linear.row_statistics import Without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT, UPPER, parameters_too_rough

#: tables up to this many columns are factorised by columns, whoever is in them: it takes milliseconds
FEW_COLUMNS = 32
#: n x n work in balls that takes seconds, and minutes: nobody is left open for their residual beyond the first, and
#: beyond the second nobody who has an upper bound
SECONDS_IN_BALLS, MINUTES_IN_BALLS = 4e8, 2e10
#: beyond seconds, an upper bound that rounding took no more of than this is an answer
CLOSE_ENOUGH = 1e-4


class RidgeCoefficients(ShowsNoValue):
    """What both confidential fits of a ridge regression read off their estimate; the intercept, if any, is last."""

    __slots__ = ()
    theta: Floats
    fit_intercept: bool
    n_people: Any
    condition: Any
    factorisation: Any
    error: Any
    rank: Any

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return len(self.theta) - int(self.fit_intercept)

    @property
    def coef(self) -> Floats:
        """The coefficients of the columns of X."""
        return self.theta[: self.n_features]

    @property
    def intercept(self) -> float:
        """The constant; zero when none was fitted."""
        return float(self.theta[-1]) if self.fit_intercept else 0.0

    @property
    def health(self) -> FitHealth:
        """Condition, factorisation, error and rank."""
        return FitHealth(self.n_people, self.condition, self.factorisation, self.error, self.rank)


@dataclass(frozen=True, slots=True, repr=False)
class DualFit(RidgeCoefficients):
    """The fit with everyone. The intercept, if any, is last everywhere."""

    X: Floats  #: everybody
    y: Floats
    alpha: float
    fit_intercept: bool
    precision: Floats | None  #: (p, p) the matrix A of the norm; None is the Euclidean one
    moves: bool  #: whether lengths are asked for
    theta: Floats
    system: DualSystem | None  #: None where floats leave nothing certain
    answers: DualAnswers | None  #: of everybody

    @property
    def n_people(self) -> int:
        """With whom it was fitted."""
        return len(self.y)

    @property
    def penalty(self) -> Floats:
        """(p,) the diagonal added to X'X."""
        return np.append(np.full(self.n_features, self.alpha), np.zeros(int(self.fit_intercept)))

    @property
    def rank(self) -> int:
        """The penalty determines every direction."""
        return len(self.theta)

    @property
    def condition(self) -> float:
        """The condition number of ``XX' + alpha I``, its diagonal scaled to one, at most."""
        return float("inf") if self.system is None else self.system.condition

    @property
    def error(self) -> float:
        """The relative error that rounding may have caused in the leverages; losses are rounded up by it."""
        return float("inf") if self.answers is None else float(self.answers.rough.max())

    @property
    def factorisation(self) -> str:
        """``dual cholesky``, or ``dual, in balls`` where floats leave nothing certain."""
        return "dual, in balls" if self.system is None else "dual cholesky"

    @property
    def gram(self) -> Floats:
        """``[X 1]'[X 1]``: p x p."""
        rows = np.hstack([self.X, np.ones((len(self.X), int(self.fit_intercept)))])
        return np.asarray(rows.T @ rows)

    def inverse(self) -> Floats:
        """Return H^-1: p x p."""
        return np.asarray(np.linalg.inv(self.gram + np.diag(self.penalty)))

    @property
    def basis(self) -> Floats:
        """``H^-1 = basis basis'``: p x p."""
        lower = np.linalg.cholesky(self.gram + np.diag(self.penalty))
        return np.asarray(np.linalg.inv(lower).T)

    def without(self, X: NDArray, y: NDArray, inside: bool, floor: float) -> Without:
        """Map: what holds without each person of one block; see ``ridge.without`` for the floor."""
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        if self.system is None or self.answers is None:
            length, nothing = np.full(len(X) if self.moves else 0, np.inf), np.full(len(X), np.inf)
            codes = np.full(len(X), UPPER, dtype=np.uint8)
            return Without(nothing, nothing.copy(), length, length.copy(), codes, np.ones(len(X), dtype=bool))
        if inside:
            found = self.answers.picked(positions(self.X, self.y, X, y))
        else:
            found = self.system.outside(X, y, Lengths(self.precision) if self.moves else None)
        return self._stated(found, X, y, floor)

    def refined(self, X: NDArray, y: NDArray, inside: bool, floor: float) -> Without:
        """Answer for those whom ``without`` left open, in balls."""
        from perinstance.models.linear.dual_balls import answers_in_balls

        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        at = positions(self.X, self.y, X, y).tolist() if inside else None
        found = answers_in_balls(self, X, y, at, floor).stated(floor, self.moves)
        alone = inside and self.fit_intercept and self.n_people == 1  # without them there is no intercept
        if alone:
            found.leverage[:], found.residual[:], found.length[:], found.kind_code[:] = np.inf, np.nan, np.inf, EXACT
        self._nobody_in_no_equation(found, X, y)
        return found

    def _stated(self, found: DualAnswers, X: Floats, y: Floats, floor: float) -> Without:
        least = np.maximum(np.abs(found.residual) - found.lost, floor * np.minimum(np.sqrt(found.leverage), 1.0))
        one = np.ones(len(X))
        hard = parameters_too_rough(one, found.rough) | parameters_too_rough(one, found.error)
        hard |= ~np.isfinite(found.leverage)
        residual = parameters_too_rough(least, found.lost)
        code = (hard | residual).astype(np.uint8)
        work = float(self.n_people) ** 2 * (self.n_people + self.n_features)
        far = hard & ~(np.maximum(found.rough, found.error) < CLOSE_ENOUGH)
        left = hard | residual if work <= SECONDS_IN_BALLS else far
        left = left if work <= MINUTES_IN_BALLS else left & ~np.isfinite(found.leverage)
        share = found.error + found.rough if self.moves else found.error[:0]
        stated = Without(found.leverage, found.residual, found.length, share, code)
        left = left & ~self._nobody_in_no_equation(stated, X, y)
        return Without(found.leverage, found.residual, found.length, share, code, left if left.any() else None)

    def _nobody_in_no_equation(self, found: Without, X: Floats, y: Floats) -> NDArray[np.bool_]:
        """Answer for people without any feature: they move nothing but an intercept."""
        nothing = np.asarray(~X.any(axis=1) & (not self.fit_intercept), dtype=bool)
        found.leverage[nothing], found.residual[nothing], found.kind_code[nothing] = 0.0, y[nothing], EXACT
        if self.moves:
            found.length[nothing], found.share[nothing] = 0.0, 0.0
        return nothing


def dual_fit(sweep: Sweep, alpha: float, fit_intercept: bool, precision: Floats | None, moves: bool) -> DualFit | None:
    """Fit with everyone where that is an n x n problem; None where the columns are the smaller side, or few."""
    p = sweep.n_features + int(fit_intercept)
    known = getattr(sweep, "n_rows", None)
    if not alpha > 0 or p <= FEW_COLUMNS or (known is not None and known >= p):
        return None

    def copied(block: Block) -> tuple[Floats, Floats] | None:
        few = len(block) < p
        return (np.array(block.X, dtype=np.float64), np.array(block.y, dtype=np.float64)) if few else None

    kept: list[tuple[Floats, Floats]] = []
    with closing(cast("Generator[tuple[Floats, Floats] | None, None, None]", sweep.map(copied))) as parts:
        for part in parts:
            if part is None or sum(len(y) for _, y in kept) + len(part[1]) >= p:
                return None  # a long table whose length only reading tells is not read for this
            kept.append(part)
    X, y = kept[0] if len(kept) == 1 else (np.concatenate([part[k] for part in kept]) for k in (0, 1))
    system = DualSystem.of(X, y, alpha, fit_intercept) if len(y) > int(fit_intercept) else None
    fit = DualFit(X, y, alpha, fit_intercept, precision, moves, np.empty(0), system, None)
    if system is not None:
        answers = system.inside(X, y, Lengths(precision) if moves else None)
        return replace(fit, theta=system.theta, answers=answers)
    from perinstance.models.linear.dual_balls import theta_in_balls

    return replace(fit, theta=theta_in_balls(fit))


def positions(everyone: Floats, targets: Floats, X: Floats, y: Floats) -> NDArray[np.intp]:
    """Return where these people stand in the table; people with the same row and target are interchangeable."""
    for start in np.flatnonzero((everyone == X[0]).all(axis=1)):  # a block of the table
        run = slice(start, start + len(X))
        if np.array_equal(everyone[run], X) and np.array_equal(targets[run], y):
            return np.arange(start, start + len(X))
    everyone, X = everyone + 0.0, X + 0.0  # one kind of zero
    where = {row.tobytes() + target.tobytes(): k for k, (row, target) in enumerate(zip(everyone, targets, strict=True))}
    try:
        return np.array([where[row.tobytes() + target.tobytes()] for row, target in zip(X, y, strict=True)], dtype=int)
    except KeyError:
        raise InvalidInput("somebody asked for is not in the data of the fit; ask with inside=False") from None
