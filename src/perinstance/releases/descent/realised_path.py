"""What a published path told about each person: the noisy sum of every step, with their gradient and without (MATH 8).

All iterates are public, so each step's noisy sum follows from two of them, ``(theta_t - theta_{t+1})/eta - penalty``.
With everybody it is Gaussian around the sum of all clipped gradients at ``theta_t``, without the person around that sum
less theirs; the log ratios of the steps add up, because the next step depends on the rows through what was published.
A clip of one's own (a filter) follows from the path and the person's row.

Every iterate stands for a cell: of the grid, and of what float64 rounded on the way from the noisy sum to the iterate.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from perinstance.models.losses.penalised_objective import SmoothObjective, design
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import UNIT
from perinstance.releases.base.log_ratios import LogRatios, NoisySums, Output, cell, two_worlds
from perinstance.releases.descent.clipped_steps import OwnClips, Steps, SummedGradients, shortened
from perinstance.releases.descent.ridge_iterates import RidgeDescent
from perinstance.sampling import ExactGram, exact_sums
from perinstance.sampling.ball_arithmetic import Ball, exact, inverse_factor, product

PRECISION = 256  # bits: sums of products of float64


def clipped_log_ratios(objective: SmoothObjective, X: NDArray, y: Floats, path: Floats, steps: Steps) -> LogRatios:
    """Return ``log q/p`` of everybody along a path of clipped gradients, at rate 1."""
    people = SummedGradients(objective, X, y)
    clips, totals = OwnClips(people, steps), [arb(0)] * len(X)
    with working_precision(PRECISION):
        for t in range(steps.count):
            own = shortened(people.at(path[t]), clips.at(t, path[t]))
            drawn = _noisy_sum(path[t], path[t + 1], objective.penalty_slope(path[t]), steps)
            gap = [o - exact(total) for o, total in zip(drawn, exact_sums(own), strict=True)]
            totals = _added(totals, gap, steps.noise, (map(arb, row) for row in own.tolist()))
        return LogRatios.of(totals)


def unclipped_log_ratios(descent: RidgeDescent, X: NDArray, y: NDArray, path: Floats, grid: float) -> LogRatios:
    """Return ``log q/p`` of everybody at all iterates of ridge regression without clipping.

    A person's part of a step is ``x (x'theta_t - y)``.
    """
    rows, targets = design(np.asarray(X, dtype=np.float64), descent.fit_intercept), np.asarray(y).tolist()
    equations, totals = descent.gram.normal_equations(descent.penalty), [arb(0)] * len(rows)
    with working_precision(PRECISION):
        H, b, eta = arb_mat(equations.matrix()), equations.right_side(), arb(descent.learning_rate)
        table = [[arb(v) for v in row] for row in rows.tolist()]
        iterates = [[arb(v) for v in path[0].tolist()], *(cell(theta, grid).balls() for theta in path[1:])]
        for here, there in zip(iterates[:-1], iterates[1:], strict=True):
            gap = [(u - v) / eta - h + r for u, v, h, r in zip(here, there, product(H, here), b, strict=True)]
            misses = product(arb_mat(table), here)
            moves = ([v * (miss - arb(t)) for v in row] for row, miss, t in zip(table, misses, targets, strict=True))
            totals = _added(totals, gap, descent.noise, moves)
        return LogRatios.of(totals)


def last_log_ratios(descent: RidgeDescent, X: NDArray, y: NDArray, output: Output) -> LogRatios:
    """Return ``log q/p`` at the last iterate alone of ridge regression without clipping: Gaussian in both worlds."""
    rows, targets = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)

    def log_density(sums: ExactGram) -> Ball:
        mean, covariance = descent.law(sums.normal_equations(descent.penalty))
        W = inverse_factor(covariance.tolist())
        gap = product(W, [o - m for o, m in zip(output.balls(), mean.entries(), strict=True)])
        return sum((W[j, j].log() - v * v / 2 for j, v in enumerate(gap)), arb(0))

    everybody = (ExactGram.of(rows[[i]], targets[[i]], descent.fit_intercept) for i in range(len(rows)))
    trouble = "the iterates spread over too many magnitudes; use a smaller learning_rate"
    return two_worlds(log_density, descent.gram, everybody, trouble)


def _added(totals: list[Ball], gap: list[Ball], noise: float, moves: Iterable[Iterable[Ball]]) -> list[Ball]:
    """Add the log ratios of one step, whose noisy sum lies by ``gap`` off the sum of everybody's parts."""
    step = NoisySums(gap, [arb(noise)] * len(gap))
    return [total + step.log_ratio(move) for total, move in zip(totals, moves, strict=True)]


def _noisy_sum(here: Floats, there: Floats, penalty: Floats, steps: Steps) -> list[Ball]:
    """Enclose the sum that led from one iterate to the next: four roundings on the way, and the cell of the grid."""
    found = []
    for a, b, slope in zip(here.tolist(), there.tolist(), np.asarray(penalty).tolist(), strict=True):
        step = (arb(a) - arb(b)) / arb(steps.learning_rate)
        lost = 4 * UNIT * (abs(step) + abs(arb(slope)) + (abs(arb(a)) + abs(arb(b))) / arb(steps.learning_rate))
        found.append(step - arb(slope) + arb(0, (lost + arb(steps.grid) / 2).upper()))
    return found
