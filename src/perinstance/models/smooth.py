"""The model behind a smooth estimator, as releases ask for it: fit, movement of each person, refinement.

``method``: "exact" refits without each person (batched), "certified" gives an upper bound from one sweep and refits
only those it cannot certify, "estimate" is one Newton step. "auto" is exact while that costs seconds, else certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.models.glm import Grade, Sensitivity, SmoothModel, prepare, sensitivity
from perinstance.models.leave_one_out import distances, leave_one_out
from perinstance.models.minimise import Slopes
from perinstance.models.newton import fit_smooth, slopes
from perinstance.models.objective import SmoothObjective
from perinstance.models.problem import Movement
from perinstance.models.sweep import Sweep, refits_told

Floats = NDArray[np.float64]
T = TypeVar("T")

METHODS = ("auto", "exact", "certified", "estimate")
#: n^2 d up to which "auto" refits everyone: a few seconds
AUTO_EXACT = 5e8


@dataclass(frozen=True, slots=True)
class Classes:
    """Distinct targets of some rows and how often each occurs; adding two gives those of both sets of rows."""

    labels: tuple[float, ...]
    counts: tuple[int, ...]

    def __add__(self, other: Classes) -> Classes:
        count = dict(zip(self.labels, self.counts, strict=True))
        for label, more in zip(other.labels, other.counts, strict=True):
            count[label] = count.get(label, 0) + more
        labels = tuple(sorted(count))
        return Classes(labels, tuple(count[label] for label in labels))

    def alone(self, codes: Floats, inside: bool) -> NDArray[np.bool_]:
        """Tell who is alone in her class: without her it would not be among those that are published."""
        return inside & (np.asarray(self.counts)[codes.astype(np.intp)] == 1)

    def codes(self, y: NDArray) -> Floats:
        """Return the positions of these targets among the classes."""
        target = np.asarray(y, dtype=np.float64)
        codes = np.searchsorted(self.labels, target).clip(max=len(self.labels) - 1)
        unknown = np.asarray(self.labels)[codes] != target
        if unknown.any():
            raise InvalidInput(
                f"row {int(unknown.argmax())} of the block has a class that the model was not fitted with"
            )
        return codes.astype(np.float64)


def classes_of(X: NDArray, y: NDArray) -> Classes:
    """Return the distinct targets of a block."""
    try:
        target = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("classes must be coded as numbers; encode the labels first (LabelEncoder)") from None
    labels, counts = np.unique(target, return_counts=True)
    if len(labels) > 1000:
        raise InvalidInput(f"a block has {len(labels)} different classes; is the target a number to be regressed?")
    return Classes(tuple(labels.tolist()), tuple(counts.tolist()))


@dataclass(frozen=True, slots=True)
class CodedSweep:
    """A sweep whose targets are replaced by the codes of their classes."""

    sweep: Sweep
    classes: Classes

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.sweep.n_features

    def _step(self, X: NDArray, y: NDArray, step: Callable[[NDArray, NDArray], T]) -> T:
        return step(X, self.classes.codes(y))

    def tell(self, stage: str, done: int, total: int) -> None:
        """Pass on how far the work between two passes is."""
        tell = getattr(self.sweep, "tell", None)
        if tell is not None:
            tell(stage, done, total)

    def fold(self, step: Callable[[NDArray, NDArray], Any]) -> Any:
        """Fold with coded targets."""
        return self.sweep.fold(partial(self._step, step=step))

    def map(self, step: Callable[[NDArray, NDArray], T]) -> Iterator[T]:
        """Map with coded targets."""
        return self.sweep.map(partial(self._step, step=step))


@dataclass(frozen=True, slots=True)
class SmoothAudit:
    """The confidential state of one audit."""

    model: SmoothModel
    classes: Classes | None

    @property
    def theta(self) -> Floats:
        """The minimum of the objective; the intercept last."""
        return self.model.fit.theta

    @property
    def gradient_norm(self) -> float:
        """The proof of stationarity."""
        return self.model.fit.gradient_norm

    @property
    def decrement(self) -> float:
        """The Newton decrement at theta."""
        return self.model.fit.decrement


@dataclass(frozen=True, slots=True)
class SmoothProblem:
    """A smooth objective as a model that releases can publish.

    ``fitted`` holds the parameters of an estimator that comes fitted; they are checked, never used.

    >>> from perinstance.models.losses import PseudoHuber
    >>> from perinstance.models.objective import RidgePenalty, SmoothObjective
    >>> problem = SmoothProblem(SmoothObjective(PseudoHuber(1.35), RidgePenalty(0.1), fit_intercept=True))
    """

    objective: SmoothObjective
    fitted: tuple[float, ...] | None = None

    def fit(self, sweep: Sweep, precision: Floats | None = None, method: str = "auto") -> SmoothAudit:
        """Minimise the objective of everyone and fold for what the certificates need."""
        check_method(method)
        classes = None
        if self.objective.loss.binary:
            classes = binary_classes(sweep)
            sweep = CodedSweep(sweep, classes)
        fit = fit_smooth(sweep, self.objective)
        if self.fitted is not None:
            self._check(sweep, fit.value, np.array(self.fitted), fit.theta)
        return SmoothAudit(prepare(sweep, fit, precision, grade_of(method, fit.n, len(fit.theta))), classes)

    def movement(self, fit: SmoothAudit, X: NDArray, y: NDArray, inside: bool = True) -> Movement:
        """Map: the people of one block."""
        codes = _coded(fit, y)
        found = sensitivity(fit.model, X, codes, inside)
        kind = np.full(len(found.distance), "estimate" if fit.model.grade == "estimate" else "upper")
        distance, opened = found.distance, found.open
        if fit.classes is not None:
            alone = fit.classes.alone(codes, inside)
            distance, opened = np.where(alone, np.inf, distance), opened | alone
        return Movement(found.leverage, found.residual, distance, kind, opened if opened.any() else None)

    def refine(self, fit: SmoothAudit, sweep: Sweep, X: NDArray, y: NDArray, inside: bool = True) -> Movement:
        """Refit without (or with) each of these people."""
        inner = sweep if fit.classes is None else CodedSweep(sweep, fit.classes)
        target = _coded(fit, y)
        ways = leave_one_out(fit.model, inner, X, target, inside, refits_told(inner))
        first: Sensitivity = sensitivity(_estimating(fit.model), X, target, inside)
        distance = distances(ways, fit.model.precision)
        if fit.classes is not None:
            distance = np.where(fit.classes.alone(target, inside), np.inf, distance)
        return Movement(first.leverage, first.residual, distance, "exact")

    def _check(self, sweep: Sweep, value: float, theta: Floats, ours: Floats) -> None:
        """Refuse an estimator that was fitted to something else: its objective is too far above the minimum."""
        if theta.shape != ours.shape:
            raise InvalidInput(
                f"the estimator was fitted with {len(theta)} parameters and the data needs {len(ours)}; "
                "pass an unfitted estimator, or the data it was fitted on"
            )
        with np.errstate(over="ignore", invalid="ignore"):
            there: Slopes = sweep.fold(partial(slopes, objective=self.objective, theta=theta))
        excess = there.value + self.objective.times(there.n) * self.objective.penalty_value(theta) - value
        if not excess <= max(0.5, 1e-3 * abs(value)):
            raise InvalidInput(
                "the fitted estimator is not at the minimum of its objective on this data; pass the data it was "
                "fitted on, fit it to a smaller tol, or pass it unfitted"
            )


def _coded(fit: SmoothAudit, y: NDArray) -> Floats:
    return np.asarray(y, dtype=np.float64) if fit.classes is None else fit.classes.codes(y)


def _estimating(model: SmoothModel) -> SmoothModel:
    """The same model without certificates: for the leverages and residuals that go with an exact distance."""
    return replace(
        model,
        grade="estimate",
        inside=replace(model.inside, ceiling=None),
        outside=replace(model.outside, ceiling=None),
    )


def binary_classes(sweep: Sweep) -> Classes:
    """Return the two classes of the data, or refuse."""
    classes: Classes = sweep.fold(classes_of)
    if len(classes.labels) != 2:
        raise InvalidInput(f"this model needs two classes, got {len(classes.labels)}")
    return classes


def grade_of(method: str, n: int, width: int) -> Grade:
    """Return the grade that a method asks for; "auto" refits everybody while that costs seconds."""
    if method == "estimate":
        return "estimate"
    cheap = method == "auto" and float(n) ** 2 * width <= AUTO_EXACT
    return "exact" if method == "exact" or cheap else "certified"


def check_method(method: str) -> None:
    """Refuse a method that does not exist."""
    if method not in METHODS:
        raise InvalidInput(f"method must be one of {METHODS}, got {method!r}")
