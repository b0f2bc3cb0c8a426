"""Every linear release on one table, against the truth: nothing below, and every label true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge

import perinstance as pi
from perinstance.errors import NumericalTrouble
from perinstance.pairs import Objective, Posterior, Shift, StudentShift
from tests.fuzz.exact_truth import ExactTable, Moved, nearest, root_below
from tests.fuzz.hostile_tables import HostileTable

#: parameters may be rounded this far below the truth: epsilon is raised by 1e6 times as much
PARAMETER = 1e-15
#: an exact loss is within 1e-6 of itself, or this close where it is next to zero
SHARE, ABSOLUTE = 1e-6, 1e-10
#: losses beyond this may be stated as infinite: their squares overflow
LARGEST = 1e150
DELTAS = (1e-6, 1e-2)


@dataclass
class Count:
    """What was asked and what was found."""

    people: int = 0
    answers: int = 0
    labels: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Count) -> None:
        self.people += other.people
        self.answers += other.answers
        self.labels += other.labels
        self.refused += other.refused
        self.wrong += other.wrong

    def __str__(self) -> str:
        return (
            f"{self.people} people, {self.answers} answers, labels {dict(self.labels)}, refused {dict(self.refused)}, "
            f"wrong {len(self.wrong)}"
        )


def releases(table: HostileTable, scale: float, gamma: float, precision):
    ridge = Ridge(table.alpha, fit_intercept=table.intercept)
    if table.alpha == 0:
        ridge = LinearRegression(fit_intercept=table.intercept)
    return {
        "output": pi.OutputPerturbation(ridge, scale=scale),
        "shaped output": pi.OutputPerturbation(ridge, scale=scale, precision=precision),
        "posterior": pi.PosteriorSample(table.alpha, gamma=gamma, fit_intercept=table.intercept),
        "objective": pi.ObjectivePerturbation(ridge, scale=scale),
        "student": pi.StudentPerturbation(ridge, scale=scale, degrees_of_freedom=3),
    }


def noise(table: HostileTable, seed: int):
    """Return a scale, a gamma and a precision with entries far apart."""
    rng = np.random.default_rng([23, seed])
    p = table.X.shape[1] + int(table.intercept)
    root = rng.integers(-3, 4, size=(p, p)) + 4 * np.eye(p)
    A = root @ root.T + np.eye(p)
    stretch = 2.0 ** rng.integers(-12, 13, size=p)
    size = max(float(np.abs(table.y).max()), 1e-100)
    gamma = float(np.clip(size**-2.0, 1e-150, 1e150))
    return 0.3 * size, gamma, A * np.outer(stretch, stretch)


def check_table(table: HostileTable, seed: int, read=None) -> Count:
    """Audit with every release, insiders and outsiders. ``read`` turns arrays into what ``audit`` is given."""
    scale, gamma, A = noise(table, seed)
    total = Count()
    truths: dict[str, tuple[list[Moved], list[Moved]]] = {}
    for key, precision in (("plain", None), ("shaped", A)):
        exact = ExactTable(table.X, table.y, table.alpha, table.intercept, precision)
        inside = [exact.inside(i) for i in range(len(table.y))]
        truths[key] = inside, [exact.outside(x, t) for x, t in zip(table.X_new, table.y_new, strict=True)]
    total.people = len(table.y) + len(table.y_new)
    given = (table.X, table.y) if read is None else read(table.X, table.y)
    for name, release in releases(table, scale, gamma, A).items():
        truth = truths["shaped" if name == "shaped output" else "plain"]
        for inside, moved in ((True, truth[0]), (False, truth[1])):
            try:
                targets = None if inside else (table.X_new, table.y_new)
                audit = pi.audit(release, *given, targets=targets, delta=DELTAS[0])
            except NumericalTrouble as refused:
                total.refused[str(refused)[:40]] += len(moved)
                continue
            total.answers += len(moved)
            total.labels.update(audit.pairs.kinds.tolist())
            where = f"{table.kind} seed {seed} {name} {'inside' if inside else 'outside'}"
            rows = table.X if inside else table.X_new
            _check(audit, moved, rows, name, (scale, gamma, table.intercept), where, total)
    return total


def _check(audit, moved, rows, name, noise_of, where, total) -> None:
    exact = audit.pairs.kinds == "exact"
    lower, truth = _pairs(moved, rows, name, noise_of)
    columns = audit.pairs.parameters()
    for key, values in truth.parameters().items():
        found = np.asarray(columns[key]) * np.ones(len(moved))
        if key in ("x_squared", "dimension", "degrees_of_freedom"):
            continue
        with np.errstate(invalid="ignore"):
            below = found < values * (1 - PARAMETER)
            below |= (found == 0) & _positive(moved, key)
        for i in np.flatnonzero(below):
            total.wrong.append(f"{where} person {i}: {key} {found[i]!r} below {values[i]!r} ({exact[i]})")
    for delta in DELTAS:
        answer, low, high = audit.pairs.epsilon(delta), lower.epsilon(delta), truth.epsilon(delta)
        none = np.array([m.leverage is None for m in moved])
        with np.errstate(invalid="ignore"):
            below = answer < low * (1 - 1e-9) - 1e-12
            loose = exact & (answer > high * (1 + SHARE + 1e-8) + ABSOLUTE) & ~(high > LARGEST)
            endless = np.isinf(answer) & ~none & ~(high > LARGEST) & ~(delta == 0)
        for i in np.flatnonzero(below):
            total.wrong.append(f"{where} person {i}: epsilon {answer[i]!r} below {low[i]!r} at {delta} ({exact[i]})")
        for i in np.flatnonzero(loose):
            total.wrong.append(f"{where} person {i}: exact {answer[i]!r} for {high[i]!r} at {delta}")
        for i in np.flatnonzero(endless & ~loose):
            total.wrong.append(f"{where} person {i}: infinite for {high[i]!r} at {delta}")


def _positive(moved: Iterable[Moved], key: str):
    entry = {"distance": "distance", "leverage": "leverage", "residual": "residual", "v_squared": "direction"}[key]
    return np.array([getattr(m, entry) is not None and getattr(m, entry) != 0 for m in moved])


def _pairs(moved: list[Moved], rows, name: str, noise_of):
    """Return the pairs at the truth, every parameter rounded down, and to the nearest."""
    scale, gamma, intercept = noise_of
    d = rows.shape[1] + int(intercept)
    inf = np.inf

    def column(of):
        return np.array([inf if m.leverage is None else of(m) for m in moved])

    answers = []
    with np.errstate(over="ignore"):
        for down in (1 - 2.0**-52, 1.0):
            distance = column(lambda m: root_below(m.distance)) / scale * down
            leverage = column(lambda m: nearest(m.leverage)) * down
            residual = column(lambda m: abs(nearest(m.residual))) * down
            if name == "posterior":
                answers.append(Posterior(leverage, residual * sqrt(gamma)))
            elif name == "objective":
                Z = np.asarray(rows, dtype=np.float64)
                x_squared = (Z * Z).sum(axis=1) + float(intercept)
                v_squared = column(lambda m: inf if m.direction is None else nearest(m.direction))
                unknown = np.array([m.direction is None and m.leverage is not None for m in moved])
                with np.errstate(divide="ignore", invalid="ignore"):
                    v_squared = np.where(unknown, leverage**2 / x_squared, v_squared)
                answers.append(Objective(leverage, residual / scale, x_squared, v_squared))
            elif name == "student":
                answers.append(StudentShift(distance, 3.0, d))
            else:
                answers.append(Shift(distance))
    return answers
