"""The loss of one person in one data set by simulated trainings: what no formula gives for a clipped descent.

With L the log ratio ``log q/p`` of the iterates with the person (Q) over those without (P),

    delta(epsilon) = E_Q[(1 - e^{epsilon - L})_+]   and   E_P[(1 - e^{epsilon + L})_+]   the other way,

means of numbers between 0 and 1 over trainings. The interval is Maurer and Pontil's (2009) empirical Bernstein bound,
which holds for any such mean. The noise is numpy's: nothing here is published.

A step's log ratio is ``log(1 - q + q exp((r'g - |g|^2/2) / sigma^2))``: g the person's clipped gradient, r the noisy
sum less what the others in the batch contributed. At rate q = 1 this is the log ratio of the iterates. Below, it is
that of somebody who is told the others' batches besides, who learns no less: the answer bounds that of the iterates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from perinstance.checked_numbers import is_number, probability, whole_number
from perinstance.errors import InvalidInput
from perinstance.models.losses.penalised_objective import SmoothObjective
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import Kind
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.publishing import is_classifier
from perinstance.releases.descent.clipped_steps import Steps, objective_of, row_gradients
from perinstance.releases.descent.estimator import NoisyDescent
from perinstance.releases.promises.class_labels import classes_of_labels, labels_as_they_are, signs


@dataclass(frozen=True, slots=True)
class SimulatedLoss(ShownAsTable):
    """The larger of both directions of a person's delta at epsilon, with an interval. Confidential."""

    epsilon: float
    delta: float
    low: float  #: the interval holds the true delta with probability ``confidence``; below rate 1, see ``assumptions``
    high: float
    confidence: float
    trainings: int  #: in each direction
    kind: Kind
    assumptions: tuple[str, ...]


def simulate(
    release: NoisyDescent,
    X: Any,
    y: Any,
    person: int,
    epsilon: float,
    *,
    trainings: int = 1000,
    confidence: float = 0.95,
    rng: np.random.Generator | None = None,
) -> SimulatedLoss:
    """Estimate the delta at ``epsilon`` of one person of this data set, all iterates published.

    For small problems: each training takes as long as the release, and a delta far below one over ``trainings`` is
    not seen. Labels that are none of the declared classes, and rows with a missing cell, count as in ``fit``.
    """
    if not isinstance(release, NoisyDescent):
        raise InvalidInput(f"trainings of a NoisyDescent are simulated, got {type(release).__name__}")
    steps, rows = release.declared_steps(), np.asarray(X, dtype=np.float64)
    if steps.filter is not None:
        raise InvalidInput("a descent under a filter is not simulated; pass filter=None")
    if is_classifier(release.problem()):  # the declared classes, as in fit: another label is missing
        y = labels_as_they_are(release, X, y)
        y = (signs(y, classes_of_labels(release.classes, y)) + 1.0) / 2.0
    targets = np.asarray(y)
    if rows.ndim != 2 or targets.shape != rows.shape[:1] or len(rows) < 1:
        raise InvalidInput(f"X must be rows x columns and y one per row, got shapes {rows.shape} and {targets.shape}")
    targets = targets.astype(np.float64)
    person = whole_number("person", person, 0, len(rows) - 1, 0)
    trainings = whole_number("trainings", trainings, 2, 10**7, 1000)
    if not is_number(epsilon) or not np.isfinite(epsilon):
        raise InvalidInput(f"epsilon must be a finite number, got {epsilon!r}; try epsilon=1.0")
    # each of two ends, in each of two directions, errs with a quarter of the probability
    log = math.log(8.0 / (1.0 - probability("confidence", confidence)))
    rng = np.random.default_rng() if rng is None else rng
    objective, found = objective_of(release.problem()), []
    for inside, sign in ((True, 1.0), (False, -1.0)):
        L = [_log_ratio(objective, rows, targets, person, steps, inside, rng) for _ in range(trainings)]
        values = np.maximum(-np.expm1(np.minimum(epsilon - sign * np.array(L), 0.0)), 0.0)
        mean = float(values.mean())
        off = math.sqrt(2.0 * float(values.var(ddof=1)) * log / trainings) + 7.0 * log / (3.0 * (trainings - 1))
        found.append((mean, max(mean - off, 0.0), min(mean + off, 1.0)))
    best, low, high = (max(numbers) for numbers in zip(*found, strict=True))
    told = () if steps.rate == 1.0 else ("who looks knows the others' batches: at least as much as the iterates tell",)
    published = ("all iterates are published, which tells at least as much as the last one",)
    return SimulatedLoss(float(epsilon), best, low, high, confidence, trainings, "estimate", published + told)


def _log_ratio(
    objective: SmoothObjective, rows: Floats, targets: Floats, person: int, steps: Steps, inside: bool, rng: Any
) -> float:
    """Descend once, with the person or without, and return the log ratio with over without of what came out."""
    q = steps.rate
    X, y, x, t = np.delete(rows, person, 0), np.delete(targets, person), rows[[person]], targets[[person]]
    theta, total = np.zeros(objective.width(X.shape[1])), 0.0
    for _ in range(steps.count):
        here = slice(None) if q == 1.0 else rng.random(len(X)) < q
        others = _clipped(row_gradients(objective, X[here], y[here], theta), steps.clip).sum(axis=0)
        g = _clipped(row_gradients(objective, x, t, theta), steps.clip)[0]
        r = steps.noise * rng.normal(size=len(theta))
        if inside and (q == 1.0 or rng.random() < q):
            r = r + g
        exponent = float(r @ g - 0.5 * g @ g) / steps.noise**2
        total += exponent if q == 1.0 else float(np.logaddexp(math.log1p(-q), math.log(q) + exponent))
        theta = theta - steps.learning_rate * ((others + r) / q + objective.penalty_slope(theta))
    return total


def _clipped(gradients: Floats, clip: float) -> Floats:
    """Shrink gradients to the length ``clip``; what is not a number becomes zero, as in ``fit``."""
    gradients = np.where(np.isfinite(gradients).all(axis=1, keepdims=True), gradients, 0.0)
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * (np.minimum(lengths, clip) / np.where(lengths > 0, lengths, 1.0))
