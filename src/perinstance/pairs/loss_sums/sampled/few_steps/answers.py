"""Answers for people who took two sampled steps and nothing else: quick, one by one, whoever asks along with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.pairs.loss_sums.coordinates import LossCoordinates
from perinstance.pairs.loss_sums.sampled.few_steps.gauss_rule import RULE
from perinstance.pairs.loss_sums.sampled.few_steps.two_steps import profile_all, solve_all


def two_steps_each(view: LossCoordinates) -> NDArray[np.bool_]:
    """Of each person: whether two sampled steps are all that happened to them."""
    steps = view.sampled
    assert steps is not None
    others = [part.any(axis=1) for part in (view.m2 != 0.0, view.nu != 0.0, view.lap != 0.0)]
    return np.asarray((steps.taken == 2.0) & ~np.logical_or.reduce(others))


def _table(view: LossCoordinates) -> Floats:
    """Return rate and distance of everybody's first step, then of the second."""
    steps = view.sampled
    assert steps is not None
    n = len(steps.steps)
    taken = steps.steps > 0.0
    first = taken.argmax(axis=1)
    last = taken.shape[1] - 1 - taken[:, ::-1].argmax(axis=1)
    which = np.stack([first, last], axis=1)
    if steps.index is not None:
        which = steps.index[np.arange(n)[:, None], which]
    return np.stack([steps.rates[which], steps.distances[which]], axis=2).reshape(n, 4)


def two_steps_epsilon(view: LossCoordinates, delta: Floats, edge: Floats, _tolerance: object = None) -> Floats:
    """Return an epsilon >= 0 next to the least whose delta is at most the one asked for (which is above zero).

    It is always as near as floats allow, whatever is asked for.
    """
    steps = view.sampled
    assert steps is not None
    out = np.empty(len(delta))
    solve_all(_table(view), 1.0 if steps.over else -1.0, np.log(delta), np.ascontiguousarray(edge), RULE, out)
    return out


def two_steps_profile(view: LossCoordinates, epsilon: Floats) -> Floats:
    """Return the bound of log delta at epsilon >= 0, and minus its slope, as ``invert`` does."""
    steps = view.sampled
    assert steps is not None
    table = _table(view)
    out = np.empty((len(epsilon), 2))
    profile_all(table, 1.0 if steps.over else -1.0, epsilon, RULE, out)
    return out
