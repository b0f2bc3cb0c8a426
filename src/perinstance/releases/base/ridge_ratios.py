"""Realised log ratios of ridge regression, without a refit, from exact sums of everybody (MATH 8).

With H, theta and b = X'y of everyone, ``m = x'H^-1x``, ``r = (y - x'theta)/(1 - m)`` (so ``mu = m/(1 - m)``) and o the
output, ``log q(o)/p(o)`` is

    posterior sample:  -log(1 - m)/2 - gamma/2 ((y - x'o)^2 - r^2 (1 - m))
    output:            u'A(o - theta + u/2)/s^2,   u = theta_with - theta_without = H^-1 x r
    Student noise:     (nu + p)/2 log(1 + (2 u'(o - theta) + u'u)/(nu s^2 + |o - theta|^2))
    objective:         -log(1 - m) + (2 e x'g + e^2 x'x)/(2 s^2),   e = y - x'o,  g = H o - b.

The last: the density is ``det H exp(-|H o - b|^2/(2 s^2))``, and without the person g becomes ``g + x e``.
Of outsiders H and theta are without them: ``1 - m = 1/(1 + mu)``, and ``r`` is the residual here.
Everything is in balls, block by block; whoever is not known well enough is asked again with more bits.
"""

from __future__ import annotations

import numpy as np
from flint import arb, arb_mat, fmpz_mat
from numpy.typing import NDArray

from perinstance.errors import NumericalTrouble
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.releases.base.log_ratios import BITS, LogRatios, Output, good_enough, two_worlds
from perinstance.releases.base.release import Mechanism
from perinstance.sampling import ExactGram, NormalEquations
from perinstance.sampling.ball_arithmetic import Ball, Matrix, Undecided, dot
from perinstance.sampling.ideal_laws import factor

PIECE = 1 << 12  # rows in one matrix of balls
TROUBLE = "a realised loss could not be enclosed with 4096 bits; use a larger alpha"


def ridge_log_ratios(
    sweep: Sweep, mechanism: Mechanism, noise: float, output: Output, outside: Sweep | None = None
) -> LogRatios:
    """Fold once for exact sums, map once over the people; ``noise`` is gamma of a posterior sample, else the scale.

    ``outside`` are people who are not in the table: theirs is the ratio of the table that they would have joined.
    """
    intercept = mechanism.fit_intercept
    sums: ExactGram = sweep.fold(lambda block: ExactGram.of(block.X, block.y, intercept))
    penalties = [mechanism.alpha] * sweep.n_features + [0.0] * intercept
    known = _Known(sums.normal_equations(penalties), penalties, mechanism, noise, output, outside is None)

    def answer(block: Block) -> LogRatios:
        if block.starts is not None:
            return known.people(sums, block, block.starts, mechanism.fit_intercept)
        rows = np.column_stack([np.asarray(block.X, dtype=np.float64), np.ones((len(block), int(intercept)))])
        cuts = [slice(i, i + PIECE) for i in range(0, max(len(rows), 1), PIECE)]
        return LogRatios.concatenate([known.piece(rows[cut], block.y[cut]) for cut in cuts])

    return LogRatios.concatenate(list((sweep if outside is None else outside).map(answer)))


class _Known:
    """Everybody's equations, and at each precision their factor W (``H^-1 = W'W``) and minimum."""

    def __init__(
        self,
        equations: NormalEquations,
        penalties: list[float],
        mechanism: Mechanism,
        noise: float,
        output: Output,
        inside: bool,
    ) -> None:
        self._equations, self._penalties, self._mechanism, self._noise = equations, penalties, mechanism, noise
        self._output, self._inside = output, inside
        self._solved: dict[int, tuple[Matrix, Matrix]] = {}

    def piece(self, rows: Floats, y: Floats) -> LogRatios:
        """Answer for some rows: all with few bits, those that are left with more, the rest by exact rank."""
        answers: list[Ball | None] = [None] * len(rows)
        left = np.arange(len(rows))
        for bits in BITS:
            if not len(left):
                break
            with working_precision(bits):
                try:
                    if bits not in self._solved:
                        W = factor(self._equations)
                        b = arb_mat(self._equations.d, 1, self._equations.right_side())
                        self._solved[bits] = W, W.transpose() * (W * b)
                    balls = self._ratios(rows[left], y[left], *self._solved[bits])
                except Undecided:
                    continue
            for i, ball in zip(left.tolist(), balls, strict=True):
                answers[i] = ball
            left = np.array([i for i in left if answers[i] is None or not good_enough(answers[i])], dtype=np.intp)
        for i in left.tolist():
            own = ExactGram.of(rows[i : i + 1], np.zeros(1)).normal_equations()
            if answers[i] is None and not _alone(self._equations, own):
                raise NumericalTrouble(TROUBLE)
        return LogRatios.of(answers)

    def people(self, sums: ExactGram, block: Block, starts: NDArray[np.int64], intercept: bool) -> LogRatios:
        """Answer for people with several rows, one by one: densities around everybody's sums and those without them."""

        def log_density(table: ExactGram) -> Ball:
            return self._log_density(table.normal_equations(self._penalties))

        found = []
        for first, end in zip(starts[:-1], starts[1:], strict=True):
            own = ExactGram.of(block.X[first:end], block.y[first:end], intercept)
            if _alone(self._equations, own.normal_equations()):
                found.append(LogRatios.of([None]))
            else:
                found.append(two_worlds(log_density, sums, [own], TROUBLE))
        return LogRatios.concatenate(found)

    def _log_density(self, equations: NormalEquations) -> Ball:
        """Return the log density of a draw around these equations at what was published, but for constants."""
        mechanism, s2, p = self._mechanism, arb(self._noise) ** 2, equations.d
        W = factor(equations)
        o, b = arb_mat(p, 1, self._output.balls()), arb_mat(p, 1, equations.right_side())
        gap = o - W.transpose() * (W * b)
        half_log_det = -sum((W[j, j].log() for j in range(p)), arb(0))
        bent = arb_mat(equations.matrix()) * gap
        if mechanism.family == "posterior":
            return half_log_det - arb(self._noise) / 2 * dot(gap.entries(), bent.entries())
        if mechanism.family == "objective":
            return 2 * half_log_det - dot(bent.entries(), bent.entries()) / (2 * s2)
        A = gap if mechanism.precision is None else _matrix(np.asarray(mechanism.precision, dtype=np.float64)) * gap
        square, nu = dot(gap.entries(), A.entries()), dict(mechanism.noise_parameters).get("degrees_of_freedom")
        return -square / (2 * s2) if nu is None else -(arb(nu) + p) / 2 * (arb(nu) * s2 + square).log()

    def _ratios(self, rows: Floats, y: Floats, W: Matrix, theta: Matrix) -> list[Ball | None]:
        """Return one ratio per row; None where ``1 - m`` is not known to be positive."""
        mechanism, inside, p = self._mechanism, self._inside, self._equations.d
        X, o, s2 = _matrix(rows), arb_mat(p, 1, self._output.balls()), arb(self._noise) ** 2
        V = X * W.transpose()
        squares = [dot(row, row) for row in V.tolist()]
        target = arb_mat(len(y), 1, [arb(float(v)) for v in y])
        e, miss = (target - X * theta).entries(), (target - X * o).entries()  # residuals here, and at the output
        if inside:
            left = [1 - m if 1 - m > 0 else None for m in squares]
        else:
            left = [1 / (1 + mu) for mu in squares]
            e = [r * v for r, v in zip(e, left, strict=True)]
        if mechanism.family == "posterior":
            half = arb(self._noise) / 2
            return [
                None if v is None else -v.log() / 2 - half * (far * far - near * near / v)
                for v, near, far in zip(left, e, miss, strict=True)
            ]
        if mechanism.family == "objective":
            b = arb_mat(p, 1, self._equations.right_side())
            along, sign = (X * (arb_mat(self._equations.matrix()) * o - b)).entries(), 1 if inside else -1
            return [
                None if v is None else -v.log() + (2 * far * t + sign * far * far * dot(row, row)) / (2 * s2)
                for v, far, t, row in zip(left, miss, along, X.tolist(), strict=True)
            ]
        A, gap = mechanism.precision, o - theta
        WA = W if A is None else W * _matrix(np.asarray(A, dtype=np.float64))
        along, bent = (V * (WA * gap)).entries(), (V * (WA * W.transpose())).tolist()
        nu = dict(mechanism.noise_parameters).get("degrees_of_freedom")
        answers: list[Ball | None] = []
        for i, row in enumerate(V.tolist()):
            if left[i] is None:
                answers.append(None)
                continue
            # u = H^-1 x r in H and r of the one world; o - theta here is taken with the person inside, without outside
            r = e[i] / left[i] if inside else e[i]
            square = r * r * dot(bent[i], row)
            farther = 2 * r * along[i] + (square if inside else -square)  # |o - without|^2 - |o - with|^2, in A
            if nu is None:
                answers.append(farther / (2 * s2))
            else:
                whole = arb(nu) * s2 + dot(gap.entries(), gap.entries()) - (0 if inside else farther)
                answers.append((arb(nu) + p) / 2 * (farther / whole).log1p())
        return answers


def _matrix(rows: Floats) -> Matrix:
    return arb_mat(rows.shape[0], rows.shape[1], [arb(v) for v in rows.ravel().tolist()])


def _alone(equations: NormalEquations, own: NormalEquations) -> bool:
    """Tell, exactly, whether nothing but this person determines some direction: nothing exists without them."""
    e = min(equations.exponent, own.exponent)
    H = (equations.H << (equations.exponent - e)) - (own.H << (own.exponent - e))
    return bool(fmpz_mat([[int(v) for v in line] for line in H]).rank() < len(H))
