"""A published model as its readers want it: coefficients in their own units with intervals, what is promised, bounds.

Everything follows from the model file: it is public, and costs no privacy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from perinstance.data.recipes import column_kinds as kinds_of_columns
from perinstance.errors import InvalidInput
from perinstance.inference.table import ABOUT, LEVEL, About, Inference
from perinstance.published.model import IN_STEPS, PublishedModel
from perinstance.releases.base.model_document import NEIGHBOURS
from perinstance.shown_decimals import declared_text

IN_UNITS = "Coefficients are in the columns' own units; the intercept counts at the middle of every range, no word."
YEAR = 365.25  # days: a coefficient of a date is told per year


@dataclass(frozen=True, slots=True)
class ReadableCoefficient:
    """One coefficient in the user's units."""

    name: str
    value: float
    low: float | None  #: of the interval; None where the file holds none, infinite where the noise hides it
    high: float | None
    reads: str  #: what it is per, or when it counts


@dataclass(frozen=True, slots=True)
class ReadableModel:
    """What ``perinstance show`` prints."""

    method: str
    target: str  #: with its unit
    promise: str
    coefficients: tuple[ReadableCoefficient, ...]
    intervals: str  #: what the intervals are about, or why there are none
    bounds: str
    example: str  #: one coefficient, read aloud

    def lines(self) -> Iterator[str]:
        """Yield the page, line by line."""
        yield f"{self.method} of {self.target}"
        yield f"Promise: {self.promise}"
        wide = max([11, *(len(one.name) for one in self.coefficients)])
        bounded = any(one.low is not None for one in self.coefficients)
        yield f"{'':<{wide}}{'coefficient':>13}" + (f"{'95% interval':>27}" if bounded else "")
        for one in self.coefficients:
            ends = "" if one.low is None or one.high is None else f"{one.low:.4g} to {one.high:.4g}"
            ends = "hidden by the noise" if "inf" in ends else ends
            yield f"{one.name:<{wide}}{one.value:>13.5g}" + (f"{ends:>27}" if bounded else "") + f"  {one.reads}"
        yield from filter(None, (self.intervals, self.bounds, self.example))


def readable_model(model: PublishedModel) -> ReadableModel:
    """Put the numbers of a model into its users' units; intervals about people like these, or else about the table."""
    numbers, recipe = model.numbers, model.recipe
    if numbers.task == "values":
        raise InvalidInput("this release is numbers as they are, not a model of a target; they are in numbers.values")
    unit, center, scale = _target_unit(model)
    if numbers.task == "classifier":
        unit = f"log odds of {str(numbers.classes[-1])!r}" if len(numbers.classes) == 2 else "scores"
    elif numbers.link == "log":
        unit = "on the log scale"
    found, why = readable_inference(model)
    promise = "none to everybody; each person's loss is a matter of their row"
    if model.promise is not None:
        neighbours = (model.document.get("promise") or {}).get("neighbours", NEIGHBOURS)
        epsilon, delta = map(declared_text, model.promise)
        promise = f"(ε, δ) = ({epsilon}, {delta}), for everybody; neighbours: {neighbours}"
    factors, coefs, lines = list(_factors(model)), np.atleast_2d(numbers.coef), []
    where = "where every column is 0" if recipe is None else "at the middle of every range, no word"
    for k, (coef, constant) in enumerate(zip(coefs, np.ravel(numbers.intercept), strict=True)):
        label = f"{numbers.classes[k]}: " if len(coefs) > 1 else ""
        ends = {} if found is None or label else dict(zip(found.names, found.conf_int(LEVEL).tolist(), strict=True))
        own = [(n, float(value * by * scale), reads) for (n, by, reads), value in zip(factors, coef, strict=True)]
        own += [("intercept", float(center + scale * constant), where)] if constant or "intercept" in ends else []
        for place, (name, value, reads) in enumerate(own):
            low, high = ends.get(name, (None, None))
            shown = label + (_shown(name) if place < len(factors) else "(intercept)")
            lines.append(ReadableCoefficient(shown, value, low, high, reads))
    target = repr(model.target) if model.target else "the target"
    about = "estimates that are not shrunk, which perinstance intervals shows."
    return ReadableModel(
        method=model.method,
        target=f"{target} ({unit})" if unit else target,
        promise=promise,
        coefficients=tuple(lines),
        intervals=why if found is None else f"Intervals are about {ABOUT[found.about]}; they belong to {about}",
        bounds=_bounds(model),
        example=_example(lines, factors, target, unit),
    )


def readable_inference(model: PublishedModel) -> tuple[Inference | None, str]:
    """Return intervals about people like these, or else about the table, in units; or why there are none."""
    for question in get_args(About):
        try:
            return inference_in_units(model, question), ""
        except InvalidInput as refusal:
            why = f"No intervals: {refusal}."
    return None, why


def inference_in_units(model: PublishedModel, about: About) -> Inference:
    """Return ``model.inference(about)`` in the units of the raw table, where a recipe knows them."""
    found = model.inference(about)
    if model.recipe is None:
        return found
    _, center, scale = _target_unit(model)
    steps, start = [by * scale for _, by, _ in _factors(model)][: len(found.names)], np.zeros(len(found.names))
    if found.names[-1] == "intercept":
        steps[len(start) - 1 :], start[-1] = [scale], center
    notes = tuple(IN_UNITS if note == IN_STEPS else note for note in found.notes)
    published = start + np.array(steps) * found.published
    return replace(found, published=published, solved=found.solved.mapped(np.diag(steps), start), notes=notes)


def _target_unit(model: PublishedModel) -> tuple[str, float, float]:
    """Return the target's unit, and in it the zero and the length of one step of the model's numbers."""
    recipe, numbers = model.recipe, model.numbers
    if recipe is None or recipe.target is None or numbers.task != "regressor" or numbers.link != "identity":
        return "", 0.0, 1.0
    at = recipe.inverse_transform_target([0.0, 1.0])
    return recipe.declared_kinds()[recipe.target_column or ""].rules.unit, float(at[0]), float(at[1] - at[0])


def _factors(model: PublishedModel) -> Iterator[tuple[str, float, str]]:
    """Yield of each feature its name, how many of its numbers one unit is, and what the coefficient is per."""
    names = model.features or tuple(f"x{j + 1}" for j in range(model.n_features))
    if model.recipe is None or model.recipe.columns is None:
        yield from ((name, 1.0, "per 1") for name in names)
        return
    kinds, at = model.recipe.declared_kinds(), 0
    for column in model.recipe.columns:
        kind = kinds[column]
        for k in range(len(kind.suffixes)):
            yield names[at], *_factor(kind, k)
            at += 1
    yield from ((name, 1.0, "always") for name in names[at:])  # a column of ones


def _factor(kind: kinds_of_columns.ColumnKind, k: int) -> tuple[float, str]:
    if isinstance(kind, kinds_of_columns.DeclaredDates):
        first, last = kind.plain["dates"]
        return YEAR * 2 / (kind.high - kind.low), f"per 1 year, counted from {first} to {last}"
    if isinstance(kind, kinds_of_columns.DeclaredRange):
        within = f"counted from {kind.low:g} to {kind.high:g}"
        return 2 / (kind.high - kind.low) if kind.scale else 1.0, f"per 1 {kind.rules.unit}".rstrip() + f", {within}"
    if isinstance(kind, kinds_of_columns.DeclaredCategories):
        return 1.0, "if so" if k < len(kind.words) else "if any other word"
    return 1.0, "if yes" if isinstance(kind, kinds_of_columns.DeclaredYesNo) else f"per 1 {kind.rules.unit}".rstrip()


def _bounds(model: PublishedModel) -> str:
    if model.bounds is None:
        return ""
    if model.recipe is not None:
        return "Bounds are those of the recipe, declared in advance; what lies beyond counts as the bound (clipped)."
    rows, target = model.bounds
    shown = rows if isinstance(rows, float) else "one per column"
    norm = f"rows have norm at most {shown:g}" if isinstance(shown, float) else f"rows are bounded by {shown}"
    ends = "" if target is None else f", targets at most {target:g} in size"
    ends = f", targets from {target[0]:g} to {target[1]:g}" if isinstance(target, tuple) else ends
    return f"Declared bounds: {norm}{ends}; what lies beyond is clipped."


def _example(lines: list[ReadableCoefficient], factors: list[tuple[str, float, str]], target: str, unit: str) -> str:
    """Read the first coefficient of a number aloud whose interval, if it has one, does not hold zero."""
    for one, (name, _, reads) in zip(lines, factors, strict=False):
        if reads.startswith("per") and (one.low is None or one.low > 0.0 or (one.high or 0.0) < 0.0):
            more = "more" if one.value >= 0 else "less"
            step = reads.split(",")[0].removeprefix("per ")
            of = f"{abs(one.value):.3g} {unit} {more}" if unit else f"{abs(one.value):.3g} {more} of {target}"
            return f"Read so: {step} more of {_shown(name)!r} goes with {of}, all else equal."
    return (
        "" if lines[0].low is None else "No coefficient of a number stands out of the noise; do not read them singly."
    )


def _shown(name: str) -> str:
    """A name of a file that anybody may have written: no control characters, not endless."""
    plain = "".join(letter for letter in name if letter.isprintable())
    return plain if len(plain) <= 40 else plain[:39] + "…"
