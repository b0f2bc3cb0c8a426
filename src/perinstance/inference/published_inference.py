"""What a release says of the uncertainty of its coefficients: in its file, in words, and made into the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from perinstance.checked_numbers import got
from perinstance.errors import InvalidInput
from perinstance.inference.equation import Estimated
from perinstance.inference.table import About, Inference
from perinstance.numerics.array_types import Floats

MOST_WRITTEN = 300  # coefficients whose covariances a model's file holds
Use = Literal["published", "estimate"]
AT_MOST = (
    "Standard errors are upper bounds: the exact ones would need the table's second moments, which are not published."
)


@dataclass(frozen=True, slots=True, eq=False)
class PublishedInference:
    """What a release says of its coefficients in one of the two questions: solved, or why it cannot be."""

    solved: Estimated | None
    notes: tuple[str, ...] = ()
    refusal: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return numbers and lists; a matrix that is diagonal is its diagonal, privacy noise alone is not repeated."""
        found = self.solved
        if found is None:
            return {"refused": self.refusal}
        alone = np.array_equal(found.privacy, found.covariance)
        if len(found.estimate) > MOST_WRITTEN and _written(found.covariance).ndim == 2:
            return {"refused": f"the file holds no covariances of more than {MOST_WRITTEN} coefficients"}
        return {
            "estimate": found.estimate.tolist(),
            "covariance": _written(found.covariance).tolist(),
            "privacy": None if alone else _written(found.privacy).tolist(),
            "hidden": found.hidden.T.tolist(),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any], most: int) -> PublishedInference:
        """Read what ``to_json`` wrote of at most so many coefficients; ValueError where it is not of this form."""
        if "refused" in record:
            return cls(None, (), str(record["refused"]))
        estimate = np.array(record["estimate"], dtype=np.float64)
        count = len(estimate)
        covariance = _read(record["covariance"], count)
        privacy = covariance if record["privacy"] is None else _read(record["privacy"], count)
        hidden = np.array(record["hidden"], dtype=np.float64).reshape(-1, count).T
        numbers = (estimate, covariance, privacy, hidden)
        if estimate.ndim != 1 or not 0 < count <= most or not all(np.isfinite(one).all() for one in numbers):
            raise ValueError("not of this form")
        return cls(Estimated(estimate, covariance, privacy, hidden), tuple(map(str, record["notes"])))


def _written(matrix: Floats) -> Floats:
    diagonal = np.diag(matrix)
    return diagonal if np.array_equal(np.diag(diagonal), matrix) else matrix


def _read(values: Any, count: int) -> Floats:
    matrix = np.array(values, dtype=np.float64)
    return np.diag(matrix) if matrix.shape == (count,) else matrix.reshape(count, count)


def inference_of(
    known: PublishedInference,
    about: About,
    names: Sequence[str],
    published: Floats,
    method: str,
    promise: tuple[float, float] | None,
) -> Inference:
    """Make the table of what a release says, or refuse in its words."""
    if known.solved is None:
        raise InvalidInput(known.refusal)
    made = Inference(tuple(names), np.asarray(published), known.solved, about, method, promise, known.notes)
    lost = [name for name, seen in zip(made.names, made.resolved, strict=True) if not seen]
    if not lost:
        return made
    listed = ", ".join(lost[:20]) + (", ..." if len(lost) > 20 else "")
    more = (
        f"No interval for {listed}: privacy noise hides whether it varies by itself, or nothing that was published "
        "bounds its error. Narrower bounds, more epsilon or fewer columns help."
    )
    return replace(made, notes=(*known.notes, more))


def only_the_table(name: str) -> str:
    """Say that nothing is known of sampling."""
    return (
        f"{name} publishes nothing that tells how widely outcomes scatter, so nothing can be said of people like "
        'these; ask about="table", or publish with AdaSSP'
    )


def no_intervals(name: str) -> str:
    """Say that nothing is known of the uncertainty of what a release published."""
    return (
        f"{name} publishes nothing that standard errors could be computed from; AdaSSP, AdaOPS, "
        "PrivateLogisticRegression, OutputPerturbation, PosteriorSample and ObjectivePerturbation do"
    )


def named_coefficients(
    coef: Any, intercept: Any, features: Sequence[str] | None, count: int | None = None
) -> tuple[list[str], Floats]:
    """Name published coefficients and put the intercept behind them: ``count`` of them, or all.

    A last column of ones that an intercept stands for has a coefficient of zero, and is not named.
    """
    slopes = np.ravel(np.asarray(coef, dtype=np.float64))
    names = [f"x{j + 1}" for j in range(len(slopes))] if features is None else [str(one) for one in features]
    constant = float(np.ravel(intercept)[0])
    if count is None or count > len(slopes):
        return [*names, "intercept"], np.append(slopes, constant)
    if _stands_for_ones(names, slopes, constant, count):
        return names, np.append(slopes[:-1], constant)
    return names[:count], slopes[:count]


def _stands_for_ones(names: Sequence[str], slopes: Floats, constant: float, count: int) -> bool:
    return count == len(slopes) and names[-1] == "intercept" and slopes[-1] == 0.0 and constant != 0.0


def used_coefficients(
    use: Any, numbers: Any, features: Sequence[str] | None, known: Callable[[About], PublishedInference]
) -> tuple[Any, Any]:
    """Return coefficients and intercept to predict with, in the shapes of those of ``numbers``.

    ``"published"``: as they were published; ``"estimate"``: those that intervals belong to, which are not shrunk.
    """
    if use not in ("published", "estimate"):
        raise InvalidInput(f'use must be "published" or "estimate", got {got(use)}; try use="estimate"')
    if use == "published":
        return numbers.coef, numbers.intercept
    found = [known(about) for about in get_args(About)]
    solved = next((one.solved for one in found if one.solved is not None), None)
    if solved is None or numbers.coef is None:
        raise InvalidInput(found[0].refusal or "nothing is estimated of numbers that are published as they are")
    slopes, constant = np.ravel(numbers.coef), float(np.ravel(numbers.intercept)[0])
    names, d = named_coefficients(numbers.coef, numbers.intercept, features)[0][:-1], len(slopes)
    estimate = np.append(solved.estimate, np.zeros(max(d + 1 - len(solved.estimate), 0)))
    if _stands_for_ones(names, slopes, constant, len(solved.estimate)):
        estimate[d - 1 :] = 0.0, estimate[d - 1]
    intercept = np.reshape(estimate[d], np.shape(numbers.intercept))[()]
    return estimate[:d].reshape(np.shape(numbers.coef)), intercept
