"""What every release shares as a scikit-learn estimator: ``fit`` publishes one draw; ``predict`` uses it.

A draw is never made with floating-point noise: it comes from ``perinstance.sampling``. The rows are taken as the exact
numbers that float64 holds, sums over them are exact, and what is published is exactly the rounding to the public
``grid`` of one draw from ``ideal(X, y)``: post-processing of the release that the audit describes.
"""

from __future__ import annotations

import sys
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from perinstance.errors import ManyReleases, RefusedModel
from perinstance.event_log import LOG
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.arguments import validated
from perinstance.releases.base.model_document import PublishedNumbers, WritesModel
from perinstance.sampling import ExactGram, NormalEquations, draw
from perinstance.sampling.ideal_laws import Ideal


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of a release in floating point, for analyses: ``mean + root @ z``, z normal or Laplace."""

    mean: Floats  #: (p,) the intercept last
    root: Floats  #: (p, k)
    noise: str = "gaussian"


class Publishing(WritesModel, RegressorMixin, BaseEstimator):
    """A linear model whose coefficients are one draw of ``ideal(X, y)``, rounded to the public ``grid``."""

    grid: float

    @abstractmethod
    def ideal(self, X: NDArray, y: Floats) -> Ideal:
        """Return the distribution that ``fit`` draws from, in exact numbers. It is confidential."""

    @abstractmethod
    def law(self, fit: Any) -> Law:
        """Return the same distribution in floating point. It is confidential."""

    @abstractmethod
    def confidential_fit(self, sweep: Any, method: Any = "auto") -> Any:
        """Fit without noise, with everyone."""

    def fit(self, X: Any, y: Any, **refused: Any) -> Publishing:
        """Publish one draw: ``coef_`` and ``intercept_``."""
        refuse_weights(refused)
        warn_inside_search(self)
        X, y = validated(self, X, y, y_numeric=True, dtype=(np.float64, np.float32))
        theta = draw(self.ideal(X, np.asarray(y, dtype=np.float64)), self.grid).values
        self._publish(theta, y)
        LOG.info("%s published one draw", type(self).__name__)
        return self

    def _publish(self, theta: Floats, y: Any) -> None:
        """Set what is published, in scikit-learn's shapes."""
        d = self.n_features_in_
        self.coef_ = theta[:d]
        self.intercept_ = float(theta[d]) if len(theta) > d else 0.0

    def published_numbers(self) -> PublishedNumbers:
        """Return the published coefficients."""
        return PublishedNumbers("regressor", coef=self.coef_, intercept=self.intercept_)

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn that two fits differ: a release cannot be seeded."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def predict(self, X: Any) -> Floats:
        """Predict with the published coefficients."""
        check_is_fitted(self)
        X = validated(self, X, reset=False, dtype=(np.float64, np.float32), order="C")
        return X @ self.coef_ + self.intercept_


def exact_equations(X: NDArray, y: Floats, alpha: float, fit_intercept: bool) -> NormalEquations:
    """``H theta = X'y`` without a rounding error; an intercept is a column of ones, last, and not penalised."""
    penalties = [alpha] * X.shape[1] + [0.0] * fit_intercept
    return ExactGram.of(X, y, fit_intercept).normal_equations(penalties)


def refuse_weights(arguments: dict[str, Any]) -> None:
    """Refuse what ``fit`` does not take, with the reason."""
    if "sample_weight" in arguments:
        raise RefusedModel(
            "sample_weight is refused: a weight is part of a person's data and the losses would not be theirs alone; "
            "leave it out"
        )
    if arguments:
        raise TypeError(f"fit() got unexpected arguments {sorted(arguments)}")


def warn_inside_search(release: object) -> None:
    """Tell the curator that a search is fitting this release: it asks who calls, and nothing of the data."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("sklearn.model_selection"):
            name = type(release).__name__
            warnings.warn(
                f"every fit of {name} publishes: a search or a cross-validation is as many releases about the same "
                "people as it makes fits, and no loss or promise of one fit covers the others; choose parameters on "
                "public data, or split the budget over all fits",
                ManyReleases,
                stacklevel=3,
            )
            return
        frame = frame.f_back
