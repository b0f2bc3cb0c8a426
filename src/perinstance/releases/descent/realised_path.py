"""What a published path told about each person: the noisy sum of every step, with their gradient and without (MATH 8).

All iterates are public, so each step's noisy sum follows from two of them, ``(theta_t - theta_{t+1})/eta - penalty``.
With everybody it is Gaussian around the sum of all clipped gradients at ``theta_t``, without the person around that sum
less theirs; the log ratios of the steps add up, because the next step depends on the rows through what was published.
A clip of one's own (a filter) follows from the path and the person's row.

Every iterate stands for a cell: of the grid, and of what float64 rounded on the way from the noisy sum to the iterate.
"""

from __future__ import annotations

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from perinstance.models.losses.penalised_objective import design
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import UNIT
from perinstance.releases.base.log_ratios import LogRatios, NoisySums, Output, cell, two_worlds
from perinstance.releases.descent.clipped_steps import OwnClips, PersonGradients, Steps, SummedGradients, shortened
from perinstance.releases.descent.ridge_iterates import RidgeDescent, RidgeMoments
from perinstance.sampling import ExactGram, exact_sums
from perinstance.sampling.ball_arithmetic import Ball, exact, inverse_factor, product

PRECISION = 256  # bits: sums of products of float64


def clipped_log_ratios(gradients: PersonGradients, X: NDArray, y: Floats, path: Floats, steps: Steps) -> LogRatios:
    """Return ``log q/p`` of everybody along a path of clipped gradients, at rate 1."""
    clips = OwnClips(SummedGradients(gradients, X, y), steps)
    totals: list[Ball] = [arb(0)] * len(X)
    with working_precision(PRECISION):
        for t in range(steps.count):
            own = shortened(gradients.of(X, y, path[t]), clips.at(t, path[t]))
            center = [exact(total) for total in exact_sums(own)]
            drawn = _noisy_sum(path[t], path[t + 1], gradients.penalty(path[t]), steps)
            gap = [o - c for o, c in zip(drawn, center, strict=True)]
            step = NoisySums(gap, [arb(steps.noise)] * len(gap))
            totals = [total + step.log_ratio(map(arb, row)) for total, row in zip(totals, own.tolist(), strict=True)]
        return LogRatios.of(totals)


def unclipped_log_ratios(moments: RidgeMoments, X: NDArray, y: NDArray, path: Floats, steps: Steps) -> LogRatios:
    """Return the same for ridge regression without clipping: a person's part of a step is ``x (x'theta_t - y)``."""
    rows = design(np.asarray(X, dtype=np.float64), moments.fit_intercept)
    equations = moments.gram.normal_equations(list(moments.penalty))
    totals: list[Ball] = [arb(0)] * len(rows)
    with working_precision(PRECISION):
        H, b, eta = arb_mat(equations.matrix()), equations.right_side(), arb(steps.learning_rate)
        table = [[arb(v) for v in row] for row in rows.tolist()]
        targets = [arb(v) for v in np.asarray(y, dtype=np.float64).tolist()]
        cells = [cell(theta, steps.grid).balls() for theta in path[1:]]
        for here, there in zip([[arb(v) for v in path[0].tolist()], *cells], cells, strict=False):
            center = [h - r for h, r in zip(product(H, here), b, strict=True)]
            gap = [(u - v) / eta - c for u, v, c in zip(here, there, center, strict=True)]
            step = NoisySums(gap, [arb(steps.noise)] * len(gap))
            misses = [_dot(row, here) - t for row, t in zip(table, targets, strict=True)]
            moves = ([v * miss for v in row] for row, miss in zip(table, misses, strict=True))
            totals = [total + step.log_ratio(move) for total, move in zip(totals, moves, strict=True)]
        return LogRatios.of(totals)


def last_log_ratios(descent: RidgeDescent, X: NDArray, y: NDArray, output: Output) -> LogRatios:
    """Return the same for the last iterate alone of ridge regression without clipping: a Gaussian, in both worlds."""
    rows, targets, moments = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64), descent.moments

    def log_density(sums: ExactGram) -> Ball:
        mean, covariance = descent.enclosed_law(sums.normal_equations(moments.penalty))
        W = inverse_factor(covariance.tolist())
        gap = product(W, [o - m for o, m in zip(output.balls(), mean.entries(), strict=True)])
        return sum((W[j, j].log() - v * v / 2 for j, v in enumerate(gap)), arb(0))

    everybody = (ExactGram.of(rows[[i]], targets[[i]], moments.fit_intercept) for i in range(len(rows)))
    trouble = "the iterates spread over too many magnitudes; use a smaller learning_rate"
    return two_worlds(log_density, moments.gram, everybody, trouble)


def _dot(a: list[Ball], b: list[Ball]) -> Ball:
    return sum((u * v for u, v in zip(a, b, strict=True)), arb(0))


def _noisy_sum(here: Floats, there: Floats, penalty: Floats, steps: Steps) -> list[Ball]:
    """Enclose the sum that led from one iterate to the next: four roundings on the way, and the cell of the grid."""
    found = []
    for a, b, slope in zip(here.tolist(), there.tolist(), np.asarray(penalty).tolist(), strict=True):
        step = (arb(a) - arb(b)) / arb(steps.learning_rate)
        lost = 4 * UNIT * (abs(step) + abs(arb(slope)) + (abs(arb(a)) + abs(arb(b))) / arb(steps.learning_rate))
        found.append(step - arb(slope) + arb(0, (lost + arb(steps.grid) / 2).upper()))
    return found
