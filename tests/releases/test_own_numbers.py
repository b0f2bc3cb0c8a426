"""What follows from a person's own row: the bits do not change when others come or go, nor with the table's layout."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.models.linear.ridge import LinearProblem
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.base.row_sums import squared_lengths
from perinstance.releases.descent.clipped_steps import (
    OwnClips,
    Steps,
    SummedGradients,
    clipped_lengths,
    longest_gradients,
    objective_of,
    row_gradients,
    shortened,
)
from perinstance.releases.descent.step_losses import PersonalBudget
from perinstance.releases.promises.declared_box import box_of

FEW, MANY = (1, 2, 3, 8, 9, 100), (8192, 8193)  # people: the sums of numpy change at 8 cells and at 8192
COLUMNS = [*((columns, FEW, np.float64) for columns in range(1, 41)), *((12, FEW, np.float32), (33, FEW, np.float32))]
COLUMNS += [(1, MANY, np.float64), (12, MANY, np.float64), (39, MANY, np.float32)]
DELTA = 1e-6


def descent(model):
    """Gradients of a model at a theta, with their lengths, their bounds and what a filter leaves of them."""
    objective = objective_of(pi.NoisyDescent(model, noise=1.0).problem())
    steps = Steps(2, 0.1, 1.0, 1.0, 1.0, 2.0**-40, PersonalBudget(8.0, 1.0, 1))

    def own(X, y):
        theta = np.linspace(-0.3, 0.4, objective.width(X.shape[1]))
        slopes = row_gradients(objective, X, y > 0.5, theta)
        clips = OwnClips(SummedGradients(objective, X, y > 0.5), steps).at(0, theta)
        lengths = clipped_lengths(slopes, 1.0), clipped_lengths(slopes, 10.0)
        return np.column_stack([slopes, *lengths, longest_gradients(objective, X), clips, shortened(slopes, clips)])

    return own


def objective(X, y):
    """What ``ObjectivePerturbation`` takes of a row, whatever its type."""
    return squared_lengths(X)


def promised(release):
    """The losses that ``people`` charges for rows and public facts alone."""

    def own(X, y):
        box = release._box(X.shape[1])
        return release._pairs(box.rows(X, y), box, None)

    return lambda X, y: own(X, np.sign(y)).to_columns()["distance"]


def reading(X, y):
    """AdaSSP's parts at a run that was drawn: rows in its frame, residuals at its estimates."""
    rounds, box, run = _run(X.shape[1])
    return adassp_mechanism.people_squares(rounds, box.rows(X, y), run)


def _run(d):
    box = box_of([(-4.0, 4.0)] * d, (-1.0, 1.0), d, True)
    rounds = adassp_mechanism.spend(1.0, DELTA, box, None, 3, None)
    path = tuple(np.linspace(-0.2, 0.3 + k, d + 1) for k in range(3))
    opening = adassp_mechanism.Opening(100.0, 0.0, 0.5, 0.8, 0.1)
    frame = adassp_mechanism.StandardFrame(np.linspace(-0.1, 0.1, d), np.full(d, 0.4), 1.5, 0.7)
    clips = (1.0, 0.5, 0.5)
    empty = np.empty(0)
    totals = np.ones(1) if rounds.column_look is not None else empty
    return rounds, box, adassp_mechanism.Published(empty, empty, (), empty, totals, opening, frame, clips, path)


NUMBERS = {
    "descent of least squares": descent(Ridge(fit_intercept=False)),
    "descent of logistic regression": descent(LogisticRegression()),
    "objective perturbation": objective,
    "private logistic": promised(pi.PrivateLogisticRegression(1.0, DELTA, x_bound=3.0, fit_intercept=False)),
    "adassp": promised(pi.AdaSSP(1.0, DELTA, x_bound=3.0, y_bound=1.0, fit_intercept=False)),
    "adassp, one round": promised(pi.AdaSSP(1.0, DELTA, x_bound=3.0, y_bound=1.0, rounds=1)),
    "adassp in a box, as drawn": reading,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_nobody_elses_row_changes_a_bit(name):
    own = NUMBERS[name]
    for columns, people, dtype in COLUMNS:
        rng = np.random.default_rng(columns)
        X = rng.normal(size=(max(people), columns)).astype(dtype)
        y = rng.choice([-0.7, 0.3, 0.9], size=len(X))
        whole = np.asarray(own(X, y))
        for n in people:
            for layout in (np.ascontiguousarray, np.asfortranarray):
                assert (np.asarray(own(layout(X[:n]), y[:n])) == whole[:n]).all(), (columns, n, layout.__name__)


@pytest.mark.parametrize("seed", range(20))
def test_a_second_row_changes_no_ones_clip(seed):
    # 12 columns of a frame: of one row numpy's norm adds pairwise, of two column by column; a length at the border of
    # a level is then at another one, and so is what is left of the row in every later step
    objective, terms = objective_of(LinearProblem(1.0, False)), PersonalBudget(8.0, 0.5, 1)
    X = np.asfortranarray(np.random.default_rng(seed).normal(size=(2, 12)))
    y, theta = np.full(2, 0.01), np.zeros(12)
    seen = [SummedGradients(objective, rows, y[: len(rows)]) for rows in (X, X[:1])]
    both, alone = (clipped_lengths(people.at(theta), 1.0)[0] for people in seen)
    clip = 128.0 * max(both, alone) / 100.0  # the longer of the two is at level 100, or just above it
    steps = Steps(1, 0.1, clip, 1.0, 1.0, 2.0**-40, terms)
    clips = [OwnClips(people, steps).at(0, theta)[0] for people in seen]
    assert both == alone and clips[0] == clips[1]
