"""A published model, as whoever downloads it has it: coefficients, promise, bounds, recipe. It has seen no data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from perinstance import releases
from perinstance.data.checks.cells import is_finite, refuse_missing
from perinstance.data.memory.table import read_table
from perinstance.data.recipes.preparation import Preparation
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.source import Source
from perinstance.errors import InvalidInput, InvalidTable
from perinstance.folds.block import Block
from perinstance.inference.published_inference import (
    PublishedInference,
    Use,
    inference_of,
    named_coefficients,
    used_coefficients,
)
from perinstance.inference.table import About, Inference, checked_about
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.model_document import PublishedNumbers, document_text
from perinstance.shown_decimals import declared_text, promise_sentence

IN_STEPS = "Columns and a target with a range count as the recipe scales them; perinstance intervals prints units."
_ESTIMATORS = ("Ridge", "LogisticRegression", "PoissonRegressor", "HuberRegressor")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PublishedModel:
    """What ``perinstance.load_model`` returns."""

    document: dict[str, Any]  #: the file as it was read
    method: str
    published: str  #: in words
    promise: tuple[float, float] | None  #: epsilon and delta, of a release that promises
    bounds: tuple[Any, Any] | None  #: on rows and targets, as declared: numbers, or ranges
    target: str | None
    features: tuple[str, ...] | None
    n_features: int
    recipe: Recipe | None  #: what makes the features of a raw row
    numbers: PublishedNumbers
    grid: float
    version: str  #: of the perinstance that wrote it
    known: Mapping[str, PublishedInference] = field(default_factory=dict)  #: what is known of the coefficients
    rows_per_person: int | None = None  #: that are used at most; None: the promise is made to rows

    def __repr__(self) -> str:
        of = "" if self.target is None else f" of {self.target!r}"
        promised = ""
        if self.promise is not None:
            promised = f", epsilon = {declared_text(self.promise[0])}, delta = {declared_text(self.promise[1])}"
        return f"PublishedModel({self.method}{of}, {self.n_features} feature{'s'[: self.n_features > 1]}{promised})"

    def predict(self, X: Any, use: Use = "published") -> NDArray:
        """Predict for each row of a table: numbers, or classes.

        ``use="estimate"`` predicts with the estimates that intervals belong to, which are not shrunk. A frame or a
        scanned file is asked for the model's columns by name, and may have others; an array has exactly these columns,
        in this order. With a recipe the table is a raw one, and predictions are in the target's unit.
        """
        chosen = self
        if use != "published":
            coef, intercept = used_coefficients(use, self.numbers, self.features, self._known)
            chosen = replace(self, numbers=replace(self.numbers, coef=coef, intercept=intercept))
        return chosen._answers(X, chosen.predict_rows)

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class; of a logistic regression only."""
        if not self.numbers.probabilities:
            raise InvalidInput(f"this {self.method} has no probabilities; use predict")
        return self._answers(X, self.probability_rows)

    def predict_rows(self, X: NDArray) -> NDArray:
        """Predict for rows of numbers, the features in their order."""
        numbers = self.numbers
        if numbers.task == "values":
            raise InvalidInput("this release is numbers as they are, nothing is predicted; they are in numbers.values")
        if numbers.task == "classifier":
            scores = self._scores(X)
            chosen = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
            return numbers.classes[chosen]
        eta = _by_rows(X) @ numbers.coef + numbers.intercept
        mean = np.exp(eta) if numbers.link == "log" else eta
        if self.recipe is None or self.recipe.target is None:
            return mean
        return self.recipe.inverse_transform_target(mean)  # in the unit of the raw table

    def blocks(self, X: Any, ids: Any = None) -> Iterator[Block]:
        """Yield the model's features of a table, block by block, its cells checked; y is zero."""
        source = self._source(X, ids)
        if source is None:
            return
        if source.n_features != self.n_features:
            raise InvalidTable(f"the model has {self.n_features} features, the table {source.n_features}; pass those")
        for piece in source.pieces():
            block = piece()
            if not is_finite(block.X, block.y):
                refuse_missing(block.X, block.y, block.start + source.first_row, source.names, source.numbers)
            yield block

    def _source(self, X: Any, ids: Any) -> Source | None:
        """Choose the columns; None is a table without rows."""
        wanted = self.features if self.recipe is None else self.recipe.columns
        columns = getattr(X, "column_names", getattr(X, "columns", None))  # of a pyarrow table, of every other one
        if wanted is None and columns is not None and self.recipe is None:
            raise InvalidInput("the model does not name its features; pass an array of numbers in their order")
        if columns is not None:
            absent = [name for name in wanted or () if name not in set(columns)]
            if absent:
                listed = ", ".join(repr(name) for name in absent[:20]) + (", ..." if len(absent) > 20 else "")
                raise InvalidTable(f"the table lacks {len(absent)} of the model's columns: {listed}; add them")
        preparation = None if self.recipe is None else Preparation((self.recipe,))
        features = None if wanted is None or columns is None else list(wanted)
        if hasattr(X, "select_columns"):
            chosen = {} if preparation is None else {"preparation": preparation}
            return X.select_columns(target=None, ids=ids, features=features, **chosen)
        if len(X) == 0:
            return None
        features = features if preparation is None else None
        return read_table(X, np.zeros(len(X)), ids=ids, features=features, preparation=preparation)

    def inference(self, about: About = "population") -> Inference:
        """Return standard errors, intervals and p-values of the coefficients, from the file alone.

        Parameters
        ----------
        about
            ``"population"``: people like these, sampling and privacy noise; ``"table"``: what the fit without noise
            would have said of the table, privacy noise alone.
        """
        known = self._known(checked_about(about))
        if known.solved is None:
            raise InvalidInput(known.refusal)
        names, published = named_coefficients(
            self.numbers.coef, self.numbers.intercept, self.features, len(known.solved.estimate)
        )
        if self.recipe is not None:
            known = replace(known, notes=(*known.notes, IN_STEPS))
        return inference_of(known, about, names, published, self.method, self.promise)

    def release(self) -> Any:
        """Return the release that was published, made again from the file: ``pi.audit(model.release(), table)``.

        The draw is not made again. An audit of it says who paid for this very release, by its own pairs.
        """
        kind = getattr(releases, self.method, None)
        names = [] if kind is None else kind._get_param_names()
        declared = self.document["declared"]
        chosen = {name: _estimator(declared[name]) for name in names if name in declared}
        chosen |= {name: math.inf for name in names if declared.get(f"{name}_infinite") is True}
        if kind is None or any(isinstance(value, dict) for value in chosen.values()):
            raise InvalidInput(
                f"the file of this {self.method} does not hold its parameters as numbers; pass the fitted release"
            )
        made = kind(**chosen)
        if self.numbers.coef is not None:
            made.coef_, made.intercept_ = np.asarray(self.numbers.coef), self.numbers.intercept
            made.n_features_in_ = self.n_features
            if self.features is not None and self.recipe is None:
                made.feature_names_in_ = np.array(self.features, dtype=object)
            if self.numbers.classes is not None:
                made.classes_ = self.numbers.classes
        for name, value in self.document["released"].items():
            if isinstance(value, int | float):
                setattr(made, name, value)
            elif isinstance(value, list):
                setattr(made, name, np.asarray(value, dtype=np.float64))
        return made

    def _known(self, about: About) -> PublishedInference:
        if about not in self.known:
            raise InvalidInput(
                "the file holds no standard errors: it was written by an older perinstance; publish again, or "
                "ask whoever published it"
            )
        return self.known[about]

    def statement(self) -> str:
        """Return the sentence for the people in the data: what the promise means to each of them."""
        if self.promise is None:
            raise InvalidInput(
                "this release promises nothing to everybody, so there is no sentence for the people in the data; "
                "publish with AdaSSP or AdaOPS"
            )
        return promise_sentence(*self.promise, self.target, self.rows_per_person)

    def to_json(self) -> str:
        """Return the file again, as it was read."""
        return document_text({name: value for name, value in self.document.items() if name != "checksum"})

    def to_sklearn(self) -> Any:
        """Return a plain scikit-learn estimator of the same predictions: for ONNX, PMML and other tools.

        It knows nothing of the promise or the recipe. It is fitted to zeros first, so that it has every attribute that
        its own version of scikit-learn sets.
        """
        from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
        from sklearn.svm import LinearSVC

        numbers = self.numbers
        if numbers.task == "values":
            raise InvalidInput("this release is numbers as they are: there is no estimator to make of it")
        kind, y = PoissonRegressor if numbers.link == "log" else LinearRegression, [1, 1]
        if numbers.task == "classifier":
            kind, y = LogisticRegression if numbers.probabilities else LinearSVC, numbers.classes
        estimator: Any = kind().fit(np.zeros((len(y), self.n_features)), y)
        estimator.coef_ = numbers.coef
        estimator.intercept_ = np.asarray(numbers.intercept)[()]  # a numpy number, as scikit-learn has it
        if self.features is not None:
            estimator.feature_names_in_ = np.array(self.features, dtype=object)
        return estimator

    def _answers(self, X: Any, answer: Any) -> NDArray:
        parts = [answer(block.X) for block in self.blocks(X)]
        return np.concatenate(parts or [answer(np.empty((0, self.n_features)))])

    def _scores(self, X: NDArray) -> Floats:
        return _by_rows(X) @ self.numbers.coef.T + self.numbers.intercept

    def probability_rows(self, X: NDArray) -> Floats:
        """Return the probability of each class for rows of numbers."""
        scores = self._scores(X)
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        p = expit(scores)
        return np.hstack([1 - p, p])


def _estimator(value: Any) -> Any:
    """Return scikit-learn's estimator of a file's record of it; anything else as it is."""
    if not isinstance(value, dict) or value.get("class") not in _ESTIMATORS:
        return value
    from sklearn import linear_model

    kind = getattr(linear_model, value["class"])
    given = {name: math.inf if value.get(f"{name}_infinite") is True else value.get(name) for name in value}
    return kind(**{name: one for name, one in given.items() if name in kind._get_param_names()})


def _by_rows(X: NDArray) -> Floats:
    """Return numbers row by row: a library's product may round differently if they lie otherwise in memory."""
    return np.ascontiguousarray(X, dtype=np.float64)
