"""Realised log ratios of ridge regression, without a refit, from exact sums of everybody (MATH 8).

With H, theta and b = X'y of everyone, ``m = x'H^-1x``, ``r = (y - x'theta)/(1 - m)`` (so ``mu = m/(1 - m)``) and o the
output, ``log q(o)/p(o)`` is

    posterior sample:  -log(1 - m)/2 - gamma/2 ((y - x'o)^2 - r^2 (1 - m))
    output:            u'A(o - theta + u/2)/s^2,   u = theta_with - theta_without = H^-1 x r
    Student noise:     (nu + p)/2 log(1 + (2 u'(o - theta) + u'u)/(nu s^2 + |o - theta|^2))
    objective:         -log(1 - m) + (2 e x'g + e^2 x'x)/(2 s^2),   e = y - x'o,  g = H o - b.

The last: the density is ``det H exp(-|H o - b|^2/(2 s^2))``, and without the person g becomes ``g + x e``.
Everything is in balls, block by block; whoever is not known well enough is asked again with more bits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat, fmpz_mat

from perinstance.errors import NumericalTrouble
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.releases.base.log_ratios import BITS, LogRatios, Output, good_enough
from perinstance.releases.base.release import Mechanism
from perinstance.sampling import ExactGram
from perinstance.sampling.ball_arithmetic import Ball, Matrix, Undecided
from perinstance.sampling.exact_gram import NormalEquations
from perinstance.sampling.ideal_laws import factor

PIECE = 1 << 12  # rows in one matrix of balls


@dataclass(frozen=True, slots=True, eq=False)
class Everybody:
    """The fit with everyone at one precision, and the output, in balls."""

    root: Matrix  #: (p, p) W with ``H^-1 = W'W``
    theta: Matrix  #: (p, 1)
    output: Matrix  #: (p, 1)
    gradient: Matrix  #: (p, 1) ``H o - b``


def ridge_log_ratios(
    sweep: Sweep, mechanism: Mechanism, noise: float, output: Output, outside: Sweep | None = None
) -> LogRatios:
    """Fold once for exact sums, map once over the people; ``noise`` is gamma of a posterior sample, else the scale.

    ``outside`` are people who are not in the table: theirs is the ratio of the table that they would have joined.
    """
    intercept = mechanism.fit_intercept
    penalties = [mechanism.alpha] * sweep.n_features + [0.0] * intercept
    sums: ExactGram = sweep.fold(lambda block: ExactGram.of(block.X, block.y, intercept))
    equations = sums.normal_equations(penalties)
    known: dict[int, Everybody] = {}

    def ask(bits: int, rows: Floats, y: Floats) -> list[Ball | None]:
        if bits not in known:
            known[bits] = _everybody(equations, output)
        people = _people(known[bits], rows, y, outside is None)
        if mechanism.family == "posterior":
            return _posterior(noise, people)
        if mechanism.family == "objective":
            return _objective(noise, people, known[bits])
        return _output(noise, mechanism, people, known[bits])

    def answer(block: Block) -> LogRatios:
        rows = np.column_stack([np.asarray(block.X, dtype=np.float64), np.ones((len(block), int(intercept)))])
        cuts = [slice(i, i + PIECE) for i in range(0, max(len(rows), 1), PIECE)]
        return LogRatios.concatenate([_piece(rows[cut], block.y[cut], equations, ask) for cut in cuts])

    return LogRatios.concatenate(list((sweep if outside is None else outside).map(answer)))


def _everybody(equations: NormalEquations, output: Output) -> Everybody:
    W = factor(equations)
    p = equations.d
    b, o = arb_mat(p, 1, equations.right_side()), arb_mat(p, 1, output.balls())
    return Everybody(W, W.transpose() * (W * b), o, arb_mat(equations.matrix()) * o - b)


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    X: Matrix
    V: Matrix  #: one row ``W x`` each
    left: list[Ball | None]  #: ``1 - m``; None where it is not known to be positive
    e: list[Ball]  #: ``y - x'theta`` with the person
    miss: list[Ball]  #: ``y - x'o``
    inside: bool


def _people(here: Everybody, rows: Floats, y: Floats, inside: bool) -> _Rows:
    """Return what the ratios need; of outsiders ``1 - m = 1/(1 + mu)`` and ``e = r (1 - m)``, r the residual here."""
    X = _matrix(rows)
    V = X * here.root.transpose()
    squares = [_dot(row, row) for row in V.tolist()]
    target = arb_mat(len(y), 1, [arb(float(v)) for v in y])
    e, miss = (target - X * here.theta).entries(), (target - X * here.output).entries()
    if not inside:
        left = [1 / (1 + mu) for mu in squares]
        return _Rows(X, V, left, [r * v for r, v in zip(e, left, strict=True)], miss, False)
    return _Rows(X, V, [1 - m if 1 - m > 0 else None for m in squares], e, miss, True)


def _piece(
    rows: Floats, y: Floats, equations: NormalEquations, ask: Callable[[int, Floats, Floats], list[Ball | None]]
) -> LogRatios:
    """Answer for some rows: all with few bits, those that are left with more, those left at the end by exact rank."""
    answers: list[Ball | None] = [None] * len(rows)
    left = np.arange(len(rows))
    for bits in BITS:
        if not len(left):
            break
        with working_precision(bits):
            try:
                balls = ask(bits, rows[left], y[left])
            except Undecided:
                continue
        for i, ball in zip(left.tolist(), balls, strict=True):
            answers[i] = ball
        left = np.array([i for i in left if answers[i] is None or not good_enough(answers[i])], dtype=np.intp)
    for i in left.tolist():
        if answers[i] is None and not _alone(equations, rows[i]):
            raise NumericalTrouble("a realised loss could not be enclosed with 4096 bits; use a larger alpha")
    return LogRatios.of(answers)


def _posterior(gamma: float, people: _Rows) -> list[Ball | None]:
    half = arb(gamma) / 2
    return [
        None if left is None else -left.log() / 2 - half * (miss * miss - e * e / left)
        for left, e, miss in zip(people.left, people.e, people.miss, strict=True)
    ]


def _output(scale: float, mechanism: Mechanism, people: _Rows, here: Everybody) -> list[Ball | None]:
    A, gap = mechanism.precision, here.output - here.theta
    WA = here.root if A is None else here.root * _matrix(np.asarray(A, dtype=np.float64))
    along = (people.V * (WA * gap)).entries()
    bent, s2 = (people.V * (WA * here.root.transpose())).tolist(), arb(scale) ** 2
    nu = dict(mechanism.noise_parameters).get("degrees_of_freedom")
    answers: list[Ball | None] = []
    for i, (left, e, row) in enumerate(zip(people.left, people.e, people.V.tolist(), strict=True)):
        if left is None:
            answers.append(None)
            continue
        # u = H^-1 x r in H and r of the one world; o - theta here is taken with the person inside, without them outside
        r = e / left if people.inside else e
        square = r * r * _dot(bent[i], row)
        farther = 2 * r * along[i] + (square if people.inside else -square)  # |o - without|^2 - |o - with|^2, in A
        if nu is None:
            answers.append(farther / (2 * s2))
        else:
            whole = arb(nu) * s2 + _dot(gap.entries(), gap.entries()) - (0 if people.inside else farther)
            answers.append((arb(nu) + len(gap.entries())) / 2 * (farther / whole).log1p())
    return answers


def _objective(scale: float, people: _Rows, here: Everybody) -> list[Ball | None]:
    along, s2, sign = (people.X * here.gradient).entries(), arb(scale) ** 2, 1 if people.inside else -1
    return [
        None if left is None else -left.log() + (2 * e * t + sign * e * e * _dot(row, row)) / (2 * s2)
        for left, e, t, row in zip(people.left, people.miss, along, people.X.tolist(), strict=True)
    ]


def _dot(a: list[Ball], b: list[Ball]) -> Ball:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


def _matrix(rows: Floats) -> Matrix:
    return arb_mat(rows.shape[0], rows.shape[1], [arb(v) for v in rows.ravel().tolist()])


def _alone(equations: NormalEquations, row: Floats) -> bool:
    """Tell, exactly, whether nothing but this person determines some direction: nothing exists without them."""
    own = ExactGram.of(row[None, :], np.zeros(1)).normal_equations()
    e = min(equations.exponent, own.exponent)
    H = (equations.H << (equations.exponent - e)) - (own.H << (own.exponent - e))
    return bool(fmpz_mat([[int(v) for v in line] for line in H]).rank() < len(H))
