"""Which transformers may stand before a release: those whose numbers of a row depend on that row alone.

What is learnt from the data (a mean, a list of categories) moves with every person, and moves everybody's numbers: the
losses of the numbers would not be the losses of the people. Such a step is refused with the reason and the way out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.data.recipes.recipe import Recipe
from perinstance.errors import RefusedModel

#: scikit-learn's transformers that learn nothing, whatever their parameters are
_STATELESS = ("FunctionTransformer", "PolynomialFeatures", "Normalizer", "Binarizer", "AdditiveChi2Sampler")
_ENCODERS = ("OneHotEncoder", "OrdinalEncoder")
_REASONS = {  # of scikit-learn's transformers that learn: why they are refused, and the way out
    "Scaler": ("its scale is computed from everybody", "declare a range in a Recipe"),
    "PowerTransformer": ("its scale is computed from everybody", "declare a range in a Recipe"),
    "QuantileTransformer": ("its scale is computed from everybody", "declare a range in a Recipe"),
    "Imputer": ("what it fills in is computed from everybody", "declare the answer for missing cells in a Recipe"),
    "KBinsDiscretizer": ("its edges are computed from everybody", "cut at declared edges, with FunctionTransformer"),
    "SplineTransformer": ("its knots are computed from everybody", "use PolynomialFeatures of a Recipe"),
    "TargetEncoder": ("its codes are means of targets", "declare the categories in a Recipe"),
    **dict.fromkeys(
        ("PCA", "SVD", "NMF", "FastICA"),
        ("its directions are computed from everybody", "multiply by a fixed matrix, with FunctionTransformer"),
    ),
    **dict.fromkeys(
        ("SelectKBest", "SelectPercentile", "VarianceThreshold", "SelectFromModel", "RFE", "RFECV"),
        ("which columns it keeps is decided by everybody's data", "name the columns to use"),
    ),
    "Vectorizer": ("its vocabulary is learnt from the texts", "declare the categories in a Recipe"),
}
_UNKNOWN = (
    "nothing is known about what it learns from the data",
    "use a Recipe, or a FunctionTransformer of a fixed function",
)


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
    reason, way_out = next((why for end, why in _REASONS.items() if kind.endswith(end)), _UNKNOWN)
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


def refuse_mixed_rows(steps: tuple[Any, ...], whole: NDArray, alone: list[NDArray]) -> None:
    """Refuse steps that give a row other numbers when it stands alone (a FunctionTransformer that takes means)."""
    for row, one in enumerate(alone):
        if not np.allclose(whole[row], one, rtol=1e-6, atol=1e-7, equal_nan=True):
            names = ", ".join(type(step).__name__ for step in steps)
            raise RefusedModel(
                f"{names}: the numbers of a row depend on the other rows, so one person would move everybody's; "
                "use functions of one row at a time"
            )
