"""What every release shares as a scikit-learn estimator: ``fit`` publishes one draw; ``predict`` uses it.

This is the only place where a draw is made. A draw is never made with floating-point noise: it comes from
``perinstance.sampling``, exact and rounded to a public grid.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from perinstance.errors import NotYet, RefusedModel
from perinstance.models.sweep import ArraySweep

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Law:
    """The distribution of a release: ``mean + root @ z``, z independent standard normal or Laplace."""

    mean: Floats  #: (p,) the intercept last
    root: Floats  #: (p, k)
    noise: str = "gaussian"


class Publishing(RegressorMixin, BaseEstimator):
    """A linear model whose coefficients are one draw of ``law(fit)``."""

    @abstractmethod
    def law(self, fit: Any) -> Law:
        """Return the distribution that ``fit`` draws from. It is confidential."""

    @abstractmethod
    def confidential_fit(self, sweep: Any, method: Any = "auto") -> Any:
        """Fit without noise, with everyone."""

    def fit(self, X: Any, y: Any, **refused: Any) -> Publishing:
        """Publish one draw: ``coef_`` and ``intercept_``."""
        refuse_weights(refused)
        X, y = validate_data(self, X, y, y_numeric=True, dtype=(np.float64, np.float32))
        fit = self.confidential_fit(ArraySweep(X, np.asarray(y, dtype=np.float64)))
        theta = draw(self.law(fit))
        d = self.n_features_in_
        self.coef_ = theta[:d]
        self.intercept_ = float(theta[d]) if len(theta) > d else 0.0
        return self

    def predict(self, X: Any) -> Floats:
        """Predict with the published coefficients."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32))
        return X @ self.coef_ + self.intercept_


def draw(law: Law) -> Floats:
    """Draw exactly, on a public grid."""
    raise NotYet(
        "publishing a draw needs the exact sampler, which this version does not have; "
        "audit(release, X, y) works, and no floating-point noise is offered instead"
    )


def refuse_weights(arguments: dict[str, Any]) -> None:
    """Refuse what ``fit`` does not take, with the reason."""
    if "sample_weight" in arguments:
        raise RefusedModel(
            "sample_weight is refused: a weight is part of a person's data and the losses would not be hers alone; "
            "repeat or scale rows instead, and audit those"
        )
    if arguments:
        raise TypeError(f"fit() got unexpected arguments {sorted(arguments)}")
