"""What one run of AdaOPS told about each person: the density of all its draws, with them and without (MATH 8).

A run publishes n (where that is no declared fact), the smallest eigenvalue and the size of the estimate, each with
Gaussian noise, and one posterior sample. Floor, ridge, temperature and the scale of the size's noise follow from what
was published before: they are the same in both worlds, so

    log q/p = sum over the draws of log density(draw | rows with everybody) - log density(draw | rows without them).

Both densities are written down in balls, from exact sums of clipped rows. A person costs some factorisations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from flint import arb, arb_mat

from perinstance.releases.base.log_ratios import LogRatios, Output, two_worlds
from perinstance.sampling import ExactGram, FixedRows
from perinstance.sampling.ball_arithmetic import Ball, Matrix, exact, product
from perinstance.sampling.ideal_laws import factor
from perinstance.sampling.noisy_eigenvalue import smallest_eigenvalue


@dataclass(frozen=True, slots=True, eq=False)
class DrawnNumbers:
    """Everything that a run drew, each with the scale of its noise, and what followed from it. Public."""

    eigenvalue: tuple[Output, float]
    count: tuple[Output, float] | None
    log_size: tuple[Output, float] | None
    sample: Output
    ridge: float
    gamma: float
    x_bound: float
    y_bound: float


def drawn_log_ratios(rows: FixedRows, drawn: DrawnNumbers) -> LogRatios:
    """Return ``log q/p`` of everybody, person by person."""
    everybody = (ExactGram.of(rows.X[i : i + 1], rows.y[i : i + 1]) for i in range(len(rows.y)))
    trouble = "a realised loss could not be enclosed with 4096 bits; use a larger kappa or floor"
    return two_worlds(partial(_log_density, drawn=drawn), ExactGram.of(rows.X, rows.y), everybody, trouble)


def _log_density(sums: ExactGram, drawn: DrawnNumbers) -> Ball:
    """Return the log density of all draws around these sums, but for constants."""
    total = _gaussian(drawn.eigenvalue, smallest_eigenvalue(sums.normal_equations()))
    if drawn.count is not None:
        total += _gaussian(drawn.count, arb(sums.n))
    equations = sums.normal_equations(drawn.ridge)
    W: Matrix = factor(equations)
    theta = product(W.transpose(), product(W, equations.right_side()))
    if drawn.log_size is not None:
        size = _sum([t * t for t in theta]).sqrt()
        total += _gaussian(drawn.log_size, (exact(drawn.y_bound) + exact(drawn.x_bound) * size).log())
    gap = [o - t for o, t in zip(drawn.sample.balls(), theta, strict=True)]
    bent = product(arb_mat(equations.matrix()), gap)
    square = _sum([a * b for a, b in zip(gap, bent, strict=True)])
    half_log_det = -_sum([W[j, j].log() for j in range(equations.d)])
    return total + half_log_det - arb(drawn.gamma) * square / 2


def _gaussian(drawn: tuple[Output, float], center: Ball) -> Ball:
    gap = (drawn[0].balls()[0] - center) / arb(drawn[1])
    return -gap * gap / 2


def _sum(terms: list[Ball]) -> Ball:
    return sum(terms[1:], terms[0])
