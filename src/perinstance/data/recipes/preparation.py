"""How raw rows become numbers before an audit: by a recipe, or by the transformers of a Pipeline that learn nothing.

Only a transformer whose numbers of a row depend on that row alone may stand before a release. What is learnt from the
data (a mean, a list of categories) moves with every person, and moves everybody's numbers: the losses of the numbers
would not be the losses of the people. Such a step is refused with the reason and the way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from perinstance.data.recipes.recipe import Recipe
from perinstance.errors import InvalidInput, InvalidTable, PerinstanceError, RefusedModel

EXAMPLE_ROWS = 16  #: raw rows that scikit-learn's transformers are shown, to know how many columns there are
_NO_ROWS = "the steps before the release must give one row of numbers per person"
#: scikit-learn's transformers that learn nothing, whatever their parameters are; those that learn nothing if told all
_STATELESS = ("FunctionTransformer", "PolynomialFeatures", "Normalizer", "Binarizer", "AdditiveChi2Sampler")
_ENCODERS = ("OneHotEncoder", "OrdinalEncoder")
_SCALE = ("its scale is computed from everybody", "declare a range in a Recipe")
_DIRECTIONS = ("its directions are computed from everybody", "multiply by a fixed matrix, with FunctionTransformer")
_CHOICE = ("which columns it keeps is decided by everybody's data", "name the columns to use")
_REASONS = {  # of scikit-learn's transformers that learn, by the end of their names: why they are refused, the way out
    "TargetEncoder": ("its codes are means of targets", "declare the categories in a Recipe"),
    "Imputer": ("what it fills in is computed from everybody", "declare the answer for missing cells in a Recipe"),
    "KBinsDiscretizer": ("its edges are computed from everybody", "cut at declared edges, with FunctionTransformer"),
    "SplineTransformer": ("its knots are computed from everybody", "use PolynomialFeatures of a Recipe"),
    "Vectorizer": ("its vocabulary is learnt from the texts", "declare the categories in a Recipe"),
    **dict.fromkeys(("Scaler", "PowerTransformer", "QuantileTransformer"), _SCALE),
    **dict.fromkeys(("PCA", "SVD", "NMF", "FastICA"), _DIRECTIONS),
    **dict.fromkeys(
        ("SelectKBest", "SelectPercentile", "VarianceThreshold", "SelectFromModel", "RFE", "RFECV"), _CHOICE
    ),
    "": (
        "nothing is known about what it learns from the data",
        "use a Recipe, or a FunctionTransformer of a fixed function",
    ),
}


@dataclass(frozen=True, slots=True)
class Preparation:
    """Steps that learn nothing, in their order."""

    steps: tuple[Any, ...]
    target: Recipe | None = None  #: the recipe that declares the target too

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The raw columns that are used; None: all but target and ids."""
        first = self.steps[0]
        return tuple(first.columns) if isinstance(first, Recipe) and first.columns is not None else None

    def on(self, example: Any) -> PreparedRows:
        """Make the steps ready for tables like this one: some raw rows, of which only the columns are looked at."""
        from sklearn.base import clone

        if len(self.steps) == 1 and isinstance(self.steps[0], Recipe):
            recipe = clone(self.steps[0])
            labels = _labels(example) or [f"x{k}" for k in range(example.shape[1])]
            return PreparedRows((recipe,), tuple(recipe.get_feature_names_out(labels)))
        ready, values = [], example
        names: Any = _labels(example)
        for step in self.steps:
            one = clone(step)
            with _without_quotes(step):
                values = one.fit_transform(values)
            ready.append(one)
            try:
                names = [str(name) for name in one.get_feature_names_out(None if isinstance(one, Recipe) else names)]
            except Exception:  # FunctionTransformer knows no names unless it is told; that costs the names only
                names = None
        if getattr(values, "ndim", 0) != 2:
            raise InvalidTable(_NO_ROWS)
        width = values.shape[1]
        names = names if names is not None and len(names) == width else [f"x{k}" for k in range(width)]
        rows = PreparedRows(tuple(ready), tuple(names))
        for k, row in enumerate(rows.numbers(example, 0)):
            alone = rows.numbers(rows_between(example, k, k + 1), k)[0]
            if not np.allclose(row, alone, rtol=1e-6, atol=1e-7, equal_nan=True):
                raise RefusedModel(  # a FunctionTransformer that takes means
                    f"{', '.join(type(step).__name__ for step in self.steps)}: the numbers of a row depend on the "
                    "other rows, so one person would move everybody's; use functions of one row at a time"
                )
        return rows


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """Steps that are ready, and the names of their numbers."""

    steps: tuple[Any, ...]
    names: tuple[str, ...]

    def numbers(self, part: Any, start: int) -> NDArray:
        """Return the numbers of some raw rows; ``start`` is what the table calls the first."""
        values = part
        for step in self.steps:
            with _without_quotes(step):
                values = step.rows(values, start) if isinstance(step, Recipe) else step.transform(values)
        dense = values.toarray() if hasattr(values, "toarray") else values
        numbers = np.asarray(dense)
        if numbers.ndim != 2 or numbers.shape[1] != len(self.names) or numbers.dtype.kind not in "fiub":
            raise InvalidTable(_NO_ROWS)
        return numbers if numbers.dtype in (np.float32, np.float64) else numbers.astype(np.float64)


def split_pipeline(release: Any, recipe: Any) -> tuple[Any, Preparation | None]:
    """Take a Pipeline apart: the release at its end, and the steps before it, which must learn nothing."""
    from sklearn.pipeline import Pipeline

    if not isinstance(release, Pipeline):
        if recipe is None or isinstance(recipe, Preparation):
            return release, recipe
        if not isinstance(recipe, Recipe):
            raise InvalidInput(f"recipe must be a perinstance.Recipe, got {type(recipe).__name__}")
        return release, Preparation((recipe,), recipe if recipe.target is not None else None)
    if recipe is not None:
        raise InvalidInput("a Pipeline has its recipe inside; leave recipe= away")
    for label, step in release.steps[:-1]:
        refuse_learning(step, label)
    steps = tuple(step for _, step in release.steps[:-1] if step is not None and step != "passthrough")
    return release.steps[-1][1], Preparation(steps) if steps else None


def refuse_target_of_recipe(preparation: Preparation | None, target: Any) -> None:
    """Refuse a target that a Pipeline's recipe would transform here, but not when the Pipeline is fitted."""
    if preparation is None or preparation.target is not None or target is None:
        return
    if any(isinstance(step, Recipe) and step.target is not None for step in preparation.steps):
        raise InvalidInput(
            "a Pipeline hands y on as it is, so the target that its recipe declares would not be used by fit; "
            "pass y=recipe.transform_target(table) here and to fit, or audit(release, table, recipe=recipe)"
        )


@contextmanager
def _without_quotes(step: Any) -> Iterator[None]:
    """Whatever a foreign transformer raises may quote a cell: only its name and the kind of trouble are told."""
    try:
        yield
    except PerinstanceError:
        raise
    except Exception as trouble:
        raise InvalidTable(
            f"{type(step).__name__} cannot transform some rows ({type(trouble).__name__}); try it on the table alone"
        ) from None


def _labels(example: Any) -> Any:
    arrow = isinstance(example, (pa.Table, pa.RecordBatch))
    names = example.schema.names if arrow else getattr(example, "columns", None)
    return None if names is None else [str(name) for name in names]


def rows_between(table: Any, start: int, stop: int) -> Any:
    """Return some rows of a matrix or of a frame, as the same kind."""
    if hasattr(table, "iloc"):
        return table.iloc[start:stop]
    return table.slice(start, min(stop, len(table)) - start) if hasattr(table, "slice") else table[start:stop]


def refuse_learning(step: Any, name: str = "") -> None:
    """Refuse a transformer that learns from the data; inside others too."""
    where = f" (step {name!r} of the pipeline)" if name else ""
    if step is None or (isinstance(step, str) and step in ("passthrough", "drop")) or isinstance(step, Recipe):
        return
    kind = type(step).__name__
    inner = list(_inner(step))
    if inner:
        for label, one in inner:
            refuse_learning(one, label)
        return
    ours = type(step).__module__.split(".")[0] == "sklearn"
    if ours and kind in _STATELESS:
        return
    if ours and kind in _ENCODERS:
        way_out = "pass categories=[[...], ...] that are publicly known, or declare them in a Recipe"
        if isinstance(step.categories, str):
            raise RefusedModel(
                f"{kind}{where} with categories='auto' is refused: it learns them from the data; {way_out}"
            )
        if getattr(step, "min_frequency", None) is None and getattr(step, "max_categories", None) is None:
            return
        raise RefusedModel(
            f"{kind}{where} with min_frequency or max_categories is refused: it counts everybody; {way_out}"
        )
    reason, way_out = next(why for end, why in _REASONS.items() if kind.endswith(end))
    raise RefusedModel(f"{kind}{where} is refused: {reason}, so one person would move everybody's numbers; {way_out}")


def _inner(step: Any) -> Iterator[tuple[str, Any]]:
    """Yield the transformers inside a Pipeline, a FeatureUnion or a ColumnTransformer."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.pipeline import FeatureUnion, Pipeline

    if isinstance(step, Pipeline):
        yield from step.steps
    elif isinstance(step, FeatureUnion):
        yield from step.transformer_list
    elif isinstance(step, ColumnTransformer):
        for label, one, columns in step.transformers:
            if callable(columns) and not isinstance(columns, make_column_selector):
                raise RefusedModel(f"{label!r} chooses its columns by a function of the data; name the columns")
            yield label, one
        yield "remainder", step.remainder
