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
from perinstance.folds.block import Block
from perinstance.folds.sweep import ArraySweep
from perinstance.pairs import GaussianShift, ObjectivePair, Pairs, PosteriorSamplePair, StudentShift
from tests.fuzz.exact_truth import ExactTable, Moved, nearest, root_below
from tests.fuzz.hostile_tables import HostileTable

#: parameters may be rounded this far below the truth: epsilon is raised by 1e6 times as much
PARAMETER = 1e-15
#: an exact loss is within 1e-6 of itself, or this close where it is next to zero
SHARE, ABSOLUTE = 1e-6, 1e-9
#: losses beyond this may be stated as infinite: their squares overflow
LARGEST = 1e150
LARGEST_PLANE = 1e24
DELTAS = (1e-6, 1e-2)
#: the profile of a Student shift takes milliseconds for each person; its largest loss does not
STUDENT_DELTAS = (0.0,)


@dataclass
class Count:
    """What was asked and what was found."""

    people: int = 0
    answers: int = 0
    skipped: int = 0
    labels: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: Count) -> None:
        self.people += other.people
        self.answers += other.answers
        self.skipped += other.skipped
        self.labels += other.labels
        self.refused += other.refused
        self.wrong += other.wrong

    def __str__(self) -> str:
        return (
            f"{self.people} people, {self.answers} answers, labels {dict(self.labels)}, "
            f"epsilon not compared {self.skipped}, "
            f"refused {dict(self.refused)}, wrong {len(self.wrong)}"
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


def check_table(table: HostileTable, seed: int) -> Count:
    """Compare every release, insiders and outsiders."""
    scale, gamma, A = noise(table, seed)
    total = Count()
    truths: dict[str, tuple[list[Moved], list[Moved]]] = {}
    for key, precision in (("plain", None), ("shaped", A)):
        exact = ExactTable(table.X, table.y, table.alpha, table.intercept, precision)
        inside = [exact.inside(i) for i in range(len(table.y))]
        truths[key] = inside, [exact.outside(x, t) for x, t in zip(table.X_new, table.y_new, strict=True)]
    total.people = len(table.y) + len(table.y_new)
    for name, release in releases(table, scale, gamma, A).items():
        truth = truths["shaped" if name == "shaped output" else "plain"]
        try:
            both = direct(release, table)
        except NumericalTrouble as refused:
            total.refused[str(refused)[:40]] += len(truth[0]) + len(truth[1])
            continue
        for inside, moved, pairs in zip((True, False), truth, both, strict=True):
            total.answers += len(moved)
            total.labels.update(pairs.kinds.tolist())
            where = f"{table.kind} seed {seed} {name} {'inside' if inside else 'outside'}"
            rows = table.X if inside else table.X_new
            _check(pairs, moved, rows, name, (scale, gamma, table.intercept), where, total)
    return total


def direct(release, table: HostileTable) -> tuple[Pairs, Pairs]:
    """Ask the release itself, as an audit does, for the pairs of insiders and outsiders."""
    X = table.X if table.X.dtype.kind == "f" else table.X.astype(np.float64)
    sweep = ArraySweep(X, table.y, rows=16)
    fit = release.confidential_fit(sweep)
    found = []
    for inside, block in ((True, Block(X, table.y)), (False, Block(table.X_new, table.y_new))):
        people = release.people(fit, block, inside)
        pairs = people.pairs
        if people.open is not None and people.open.any():
            better = release.refine(fit, sweep, block.picked(people.open), inside)
            order = np.arange(len(block))
            order[people.open] = len(order) + np.arange(int(people.open.sum()))
            pairs = type(pairs).concatenate([pairs, better.pairs])[order]
        found.append(pairs)
    return found[0], found[1]


def _check(pairs, moved, rows, name, noise_of, where, total) -> None:
    exact = pairs.kinds == "exact"
    truth = _pairs(moved, rows, name, noise_of)
    columns = pairs.parameters()
    for key, values in truth.parameters().items():
        found = np.asarray(columns[key]) * np.ones(len(moved))
        if key in ("x_squared", "dimension", "degrees_of_freedom") or (key == "v_squared" and not _known(moved)):
            continue
        with np.errstate(invalid="ignore"):
            below = found < values * (1 - PARAMETER)
            below |= (found == 0) & _positive(moved, key)
        for i in np.flatnonzero(below):
            total.wrong.append(f"{where} person {i}: {key} {found[i]!r} below {values[i]!r} ({exact[i]})")
    none = np.array([m.leverage is None for m in moved])
    # without a minimum there is no such release; and squares of squares overflow
    skipped = np.array([name == "objective" and m.direction is None for m in moved]) & ~none
    if name == "objective":
        with np.errstate(over="ignore", invalid="ignore"):
            size = truth.x_squared * np.maximum(truth.v_squared, truth.residual**2)
            skipped |= ~(size < LARGEST_PLANE) & ~none
    total.skipped += int(skipped.sum())
    for delta in _deltas(name):
        answer, high = pairs.epsilon(delta), truth.epsilon(delta)
        with np.errstate(invalid="ignore"):
            below = (answer < high * (1 - 1e-9) - 1e-12) & ~skipped
            loose = exact & (answer > high * (1 + SHARE + 1e-8) + ABSOLUTE) & ~(high > LARGEST) & ~skipped
            endless = np.isinf(answer) & ~none & ~(high > LARGEST) & ~skipped
        for i in np.flatnonzero(below):
            total.wrong.append(f"{where} person {i}: epsilon {answer[i]!r} below {high[i]!r} at {delta} ({exact[i]})")
        for i in np.flatnonzero(loose):
            total.wrong.append(f"{where} person {i}: exact {answer[i]!r} for {high[i]!r} at {delta}")
        for i in np.flatnonzero(endless & ~loose):
            total.wrong.append(f"{where} person {i}: infinite for {high[i]!r} at {delta}")


def _deltas(name: str) -> tuple[float, ...]:
    return STUDENT_DELTAS if name == "student" else DELTAS[: 1 + (name != "objective")]


def _known(moved: Iterable[Moved]) -> bool:
    return all(m.direction is not None for m in moved)


def _positive(moved: Iterable[Moved], key: str):
    entry = {"distance": "distance", "leverage": "leverage", "residual": "residual", "v_squared": "direction"}[key]
    return np.array([getattr(m, entry) is not None and getattr(m, entry) != 0 for m in moved])


def _pairs(moved: list[Moved], rows, name: str, noise_of):
    """Return the pairs at the truth, rounded to the nearest."""
    scale, gamma, intercept = noise_of
    d = rows.shape[1] + int(intercept)
    inf = np.inf

    def column(of):
        return np.array([inf if m.leverage is None else of(m) for m in moved])

    with np.errstate(over="ignore"):
        if name == "posterior":
            residual = column(lambda m: abs(nearest(m.residual)))
            return PosteriorSamplePair(column(lambda m: nearest(m.leverage)), residual * sqrt(gamma))
        if name == "objective":
            Z = np.asarray(rows, dtype=np.float64)
            x_squared = (Z * Z).sum(axis=1) + float(intercept)
            v_squared = column(lambda m: inf if m.direction is None else nearest(m.direction))
            residual = column(lambda m: abs(nearest(m.residual)))
            leverage = column(lambda m: nearest(m.leverage))
            tiny = np.nextafter(0.0, 1.0)  # a square that underflowed is not zero
            v_squared = np.where((v_squared < tiny) & (leverage > 0), tiny, v_squared)
            x_squared = np.where((x_squared < tiny) & (leverage > 0), tiny, x_squared)
            return ObjectivePair(leverage, residual / scale, x_squared, v_squared)
        distance = column(lambda m: root_below(m.distance)) / scale
        return StudentShift(distance, 3.0, d) if name == "student" else GaussianShift(distance)
