"""What every release shares as a scikit-learn estimator: ``fit`` publishes one draw; ``predict`` uses it.

A draw is never made with floating-point noise: it comes from ``perinstance.sampling``. The rows are taken as the exact
numbers that float64 holds, sums over them are exact, and what is published is exactly the rounding to the public
``grid`` of one draw from ``ideal(X, y)``: post-processing of the release that the audit describes.
"""

from __future__ import annotations

import os
import sys
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from perinstance.errors import InvalidInput, ManyReleases, RefusedModel
from perinstance.event_log import LOG
from perinstance.folds.block import Block, in_order_of
from perinstance.folds.sweep import People, Sweep
from perinstance.inference.published_inference import (
    PublishedInference,
    Use,
    inference_of,
    named_coefficients,
    no_intervals,
    used_coefficients,
)
from perinstance.inference.table import About, Inference, checked_about
from perinstance.models.interface import Problem
from perinstance.models.kernel_ridge import KernelProblem
from perinstance.models.smooth.problem import SmoothProblem
from perinstance.models.softmax import ClassifierProblem
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.arguments import refuse_mask, validated
from perinstance.releases.base.model_document import (
    PublishedNumbers,
    document_of,
    document_text,
    feature_names,
    promise_of,
)
from perinstance.releases.base.release import Mechanism
from perinstance.sampling import ExactGram, NormalEquations, draw
from perinstance.sampling.ideal_laws import Ideal

#: scikit-learn's runners of the fits of a search or a cross-validation that was warned of: once is enough
_TOLD: WeakSet[Any] = WeakSet()


class WritesModel(BaseEstimator):
    """What every release shares besides its mechanism: no seed, its file, and what is known of its coefficients."""

    #: whether nothing can be learnt from a few dozen rows
    poor_score: ClassVar[bool] = False
    __metadata_request__predict: ClassVar = {"use": UNUSED}

    @abstractmethod
    def mechanism(self) -> Mechanism:
        """Describe the release in public terms."""

    @abstractmethod
    def published_numbers(self) -> PublishedNumbers:
        """Return what ``fit`` published."""

    @abstractmethod
    def people(self, fit: Any, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block."""

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people that ``people`` left open; here it leaves nobody open."""
        return self.people(fit, block, inside)

    def published_parameters(self) -> dict[str, Any]:
        """Return further numbers that were released with the coefficients, by name."""
        return {}

    def uncertainty(self, about: About) -> PublishedInference:
        """Return what the published numbers say of the coefficients, in one of the two questions."""
        return PublishedInference(None, (), no_intervals(type(self).__name__))

    def inference(self, about: About = "population") -> Inference:
        """Return standard errors, intervals and p-values of the published coefficients. It costs no privacy.

        Parameters
        ----------
        about
            ``"population"``: what is true of people like these, with sampling and privacy noise. ``"table"``: what the
            fit without noise would have said of this very table, with privacy noise alone.
        """
        check_is_fitted(self)
        promise = promise_of(self, self.mechanism(), self.get_params(deep=False))
        stated = None if promise is None else (promise["epsilon"], promise["delta"])
        known = self.uncertainty(checked_about(about))
        numbers = self.published_numbers()
        if np.ndim(numbers.coef) == 2 and len(numbers.coef) > 1:
            raise InvalidInput("three classes or more have no standard errors here; publish a model of two classes")
        if numbers.coef is None:
            raise InvalidInput(no_intervals(type(self).__name__))
        count = None if known.solved is None else len(known.solved.estimate)
        names, published = named_coefficients(numbers.coef, numbers.intercept, feature_names(self), count)
        return inference_of(known, about, names, published, type(self).__name__, stated)

    def _used(self, use: Use) -> tuple[Any, Any]:
        numbers = self.published_numbers()
        return used_coefficients(use, numbers, feature_names(self), self.uncertainty)

    def to_json(self, *, features: Sequence[str] | None = None, target: str | None = None, recipe: Any = None) -> str:
        """Return the published model as JSON, which ``perinstance.load_model`` and ``perinstance predict`` read.

        Parameters
        ----------
        features
            Names of the columns; None takes those of the frame that ``fit`` saw, if it was one.
        target
            What is predicted.
        recipe
            The public recipe that made these features, if one did; it becomes part of the file.
        """
        check_is_fitted(self)
        return document_text(document_of(self, features, target, recipe))

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        features: Sequence[str] | None = None,
        target: str | None = None,
        recipe: Any = None,
    ) -> Path:
        """Write the published model to a file, with recipe, units and classes; arguments as for ``to_json``."""
        text, place = self.to_json(features=features, target=target, recipe=recipe), Path(path)
        try:
            place.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InvalidInput(f"{place.name!r} cannot be written ({error.strerror}); choose another place") from None
        return place

    def _begin(self, more: dict[str, Any], weights: bool = False) -> Any:
        """Return the weights, refuse what ``fit`` does not take, and say once that a search is fitting.

        Nothing of the data is asked.
        """
        found = more.pop("sample_weight", None)
        if found is not None and not weights:
            raise RefusedModel(
                f"sample_weight is refused: nothing is known of weights in {type(self).__name__}; leave it out"
            )
        if more:
            raise TypeError(f"fit() got unexpected arguments {sorted(more)}")
        frame: FrameType | None = sys._getframe(1)
        searched = runner = None
        while frame is not None and runner is None:
            if str(frame.f_globals.get("__name__", "")).startswith("sklearn.model_selection"):
                searched, runner = True, frame.f_locals.get("parallel")
            frame = frame.f_back
        if not searched or runner in _TOLD:
            return found
        if runner is not None:
            _TOLD.add(runner)
        warnings.warn(
            f"every fit of {type(self).__name__} publishes: a search or a cross-validation is as many releases "
            "about the same people as it makes fits, and no loss or promise of one fit covers the others; "
            "choose parameters on public data, or split the budget over all fits",
            ManyReleases,
            stacklevel=3,
        )
        return found

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that two fits differ: a release cannot be seeded."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags


class PredictsLinearly(RegressorMixin):
    """Published coefficients of a linear model."""

    coef_: Floats
    intercept_: Any
    poor_score: ClassVar[bool]
    _used: Any

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn whether a score on its small tables means anything."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = self.poor_score
        return tags

    def published_numbers(self) -> PublishedNumbers:
        """Return the published coefficients."""
        return PublishedNumbers("regressor", coef=self.coef_, intercept=self.intercept_)

    def predict(self, X: Any, use: Use = "published") -> Floats:
        """Predict with the published coefficients, or (``use="estimate"``) with those that intervals belong to."""
        check_is_fitted(self)
        X = validated(self, X, reset=False, dtype=(np.float64, np.float32), order="C")
        coef, intercept = self._used(use)
        return X @ coef + intercept


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of a release in floating point, for analyses: ``mean + root @ z``, z normal or Laplace."""

    mean: Floats  #: (p,) the intercept last
    root: Floats  #: (p, k)
    noise: str = "gaussian"


class Publishing(PredictsLinearly, WritesModel):
    """A linear model whose coefficients are one draw of ``ideal(X, y)``, rounded to the public ``grid``."""

    grid: float
    #: whether rows come weighted: a copy of a release, for ``ideal`` and audits (``base.weighted_rows``)
    rows_are_weighted = False
    #: whether ``fit`` was given weights
    weighted_ = False

    @abstractmethod
    def ideal(self, X: NDArray, y: Floats) -> Ideal:
        """Return the distribution that ``fit`` draws from, in exact numbers. It is confidential."""

    @abstractmethod
    def law(self, fit: Any) -> Law:
        """Return the same distribution in floating point. It is confidential."""

    @abstractmethod
    def confidential_fit(self, sweep: Any, method: Any = "auto") -> Any:
        """Fit without noise, with everyone."""

    def fit(self, X: Any, y: Any, **more: Any) -> Any:
        """Publish one draw: ``coef_`` and ``intercept_``; ``sample_weight`` are weights of rows, where these count."""
        weights, table = self._begin(more, weights=True), X
        X, y = validated(self, X, y, y_numeric=True, dtype=(np.float64, np.float32))
        ideal: Any = self.ideal if weights is None else partial(self._weighted_ideal, table, weights)
        theta = draw(ideal(X, np.asarray(y, dtype=np.float64)), self.grid).values
        self.weighted_ = weights is not None
        self._publish(theta, y)
        LOG.info("%s published one draw", type(self).__name__)
        return self

    def _weighted_ideal(self, table: Any, sample_weight: Any, X: NDArray, y: Floats) -> Ideal:
        from perinstance.releases.base.weighted_rows import row_weights, weighing_of

        weighing = weighing_of(self)
        found: Ideal = weighing.release.ideal(*weighing.rows(X, y, row_weights(table, sample_weight, len(y))))
        return found

    def published_parameters(self) -> dict[str, Any]:
        """Tell that rows were weighted: whoever audits the release needs the weights."""
        return {"weighted_": True} if self.weighted_ else {}

    def _publish(self, theta: Floats, y: Any) -> None:
        """Set what is published, in scikit-learn's shapes."""
        d = self.n_features_in_
        self.coef_ = theta[:d]
        self.intercept_ = float(theta[d]) if len(theta) > d else 0.0


def exact_equations(
    X: NDArray, y: Floats, alpha: float, fit_intercept: bool, weighted: bool = False
) -> NormalEquations:
    """``H theta = X'y`` without a rounding error; an intercept is a column of ones, last, and not penalised.

    Weighted rows bring their own ones.
    """
    own = fit_intercept and weighted
    penalties = [alpha] * (X.shape[1] - own) + [0.0] * fit_intercept
    return ExactGram.of(X, y, fit_intercept and not own).normal_equations(penalties)


def is_classifier(problem: Any) -> bool:
    """Tell whether the model's targets are classes."""
    return isinstance(problem, ClassifierProblem) or (
        isinstance(problem, SmoothProblem) and problem.objective.loss.binary
    )


def _has_probabilities(release: Any) -> bool:
    problem = release.problem()
    return isinstance(problem, ClassifierProblem) or (
        isinstance(problem, SmoothProblem) and problem.objective.loss.predicts_probabilities
    )


class AnsweringModel(Publishing):
    """A release of the parameters of some model: linear, generalised linear, kernel, network."""

    @abstractmethod
    def problem(self) -> Problem:
        """Return the model whose parameters are published."""

    def fit(self, X: Any, y: Any, **more: Any) -> Publishing:
        """Publish one draw: ``coef_`` and ``intercept_``, and ``classes_`` of a classifier.

        ``sample_weight`` are weights of rows, where these count.
        """
        if y is None or not is_classifier(self.problem()):
            return super().fit(X, y, **more)
        y = in_order_of(X, y)  # codes have no index any more
        refuse_mask("y", y)
        labels, codes = np.unique(np.asarray(y), return_inverse=True)  # text never reaches a message
        super().fit(X, codes.reshape(np.shape(y)), **more)
        self.classes_ = labels
        return self

    def _publish(self, theta: Floats, y: Any) -> None:
        problem, d = self.problem(), self.n_features_in_
        if hasattr(problem, "published"):  # predictions at public points, parameters of a network
            setattr(self, problem.published, theta)
        elif is_classifier(problem):
            K = len(np.unique(y))
            rows = theta.reshape(1 if K == 2 else K, -1)
            self.coef_ = rows[:, :d]
            self.intercept_: Any = rows[:, d] if rows.shape[1] > d else np.zeros(len(rows))
        else:
            super()._publish(theta, y)

    def published_numbers(self) -> PublishedNumbers:
        """Return the published parameters, and how they answer."""
        problem = self.problem()
        if isinstance(problem, KernelProblem):
            return PublishedNumbers("values", values=getattr(self, problem.published), points=problem.points)
        if hasattr(problem, "published"):
            raise InvalidInput(
                f"a network's shape is code, which a model file does not hold; its numbers are in {problem.published}"
            )
        if is_classifier(problem):
            likely = _has_probabilities(self)
            return PublishedNumbers(
                "classifier", "", self.coef_, self.intercept_, classes=self.classes_, probabilities=likely
            )
        link = problem.objective.loss.link if isinstance(problem, SmoothProblem) else "identity"
        return PublishedNumbers("regressor", link, self.coef_, self.intercept_)

    def predict(self, X: Any, use: Use = "published") -> NDArray:
        """Predict with the published parameters, or the estimates that intervals belong to: means, or classes."""
        check_is_fitted(self)
        problem = self.problem()
        if hasattr(problem, "published"):
            raise InvalidInput(f"this model publishes its numbers as they are: they are in {problem.published}")
        X = validated(self, X, reset=False, dtype=(np.float64, np.float32), order="C")
        coef, intercept = self._used(use)
        if is_classifier(problem):
            scores = X @ coef.T + intercept
            chosen = (scores[:, 0] > 0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
            return self.classes_[chosen]
        eta = X @ coef + intercept
        return problem.objective.loss.mean(eta) if isinstance(problem, SmoothProblem) else eta

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class; logistic regression only."""
        check_is_fitted(self)
        X = validated(self, X, reset=False, dtype=(np.float64, np.float32), order="C")
        scores = X @ self.coef_.T + self.intercept_
        if scores.shape[1] > 1:
            return softmax(scores, axis=1)
        p = expit(scores[:, 0])
        return np.column_stack([1 - p, p])

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]
        """Return the accuracy of a classifier, R^2 of a regressor."""
        if is_classifier(self.problem()):
            return float(np.mean(self.predict(X) == np.asarray(y)))
        return super().score(X, y)
