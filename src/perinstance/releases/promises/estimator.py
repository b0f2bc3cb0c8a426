"""What AdaOPS and AdaSSP share: declared bounds, clipped rows, a promise kept, scikit-learn's contract."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from perinstance.checked_numbers import got, is_number
from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import M, Sweep
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.arguments import rows_as_they_are, validated
from perinstance.releases.base.mechanism import Mechanism
from perinstance.releases.base.publishing import refuse_weights
from perinstance.releases.base.shown_decimals import declared_text
from perinstance.releases.promises.calibration import check_promise
from perinstance.releases.promises.noisy_queries import ExactWindow, Window
from perinstance.releases.promises.promise import Promise
from perinstance.sampling import FixedRows, fixed_rows

T = TypeVar("T")


class Promised(RegressorMixin, BaseEstimator):
    """A linear model without intercept, published under an (epsilon, delta) promise and declared bounds."""

    epsilon: Any
    delta: Any
    x_bound: Any
    y_bound: Any

    #: what is published, in words
    what: ClassVar[str]

    def mechanism(self) -> Mechanism:
        """Describe the release: what it promises does not depend on the data."""
        epsilon, delta, *_ = self._declared()
        promised = f"promised at epsilon = {declared_text(epsilon)}, delta = {declared_text(delta)}"
        return Mechanism(
            name=type(self).__name__,
            moved="ridge",
            family="adaptive",
            noise="gaussian",
            scale=float("nan"),  # chosen by the mechanism, from noisy numbers
            words=(f"{self.what}, {promised}",),
            promises=True,
        )

    @abstractmethod
    def _publish(self, window: Window) -> None:
        """Look through the window, and set what is published."""

    @abstractmethod
    def promise(self, n_features: int) -> Promise:
        """Return the promise that ``fit`` will keep, before any data is seen: it depends on declarations alone."""

    def published_parameters(self) -> dict[str, float | None]:
        """Return the numbers that were released with the coefficients, by name; each is paid for by the promise."""
        return {}

    def fit(self, X: Any, y: Any, **refused: Any) -> Any:
        """Clip the rows to the declared bounds and publish one draw, exact and on a public grid.

        Whatever the rows hold, and however many there are (none at all), something is published: a refusal would tell.
        A row with a missing cell (NaN, None) counts as a row of zeros, an infinite cell as the bound. Refused are
        declared facts only: the number of columns, types, names. ``confidential_clipped_`` counts the rows that were
        clipped (features, labels) or missing: for the curator only.
        """
        refuse_weights(refused)
        self._declared()
        X, y = self._validated(X, y)
        rows = fixed_rows(X, y, float(self.x_bound), float(self.y_bound))
        self._publish(ExactWindow(rows))
        self.intercept_ = 0.0
        self.confidential_clipped_ = Clipped(rows.clipped_x, rows.clipped_y, rows.missing)
        return self

    def predict(self, X: Any) -> Floats:
        """Predict with the published coefficients."""
        check_is_fitted(self, "coef_")
        X = validated(self, X, reset=False, dtype=np.float64)
        return X @ self.coef_

    def _declared(self) -> tuple[float, float, float, float]:
        """Validate the promise and the bounds."""
        epsilon, delta = check_promise(self.epsilon, self.delta)
        return epsilon, delta, declared_bound("x_bound", self.x_bound), declared_bound("y_bound", self.y_bound)

    def _clip(self, X: NDArray, y: NDArray) -> FixedRows:
        """Return rows as the release sees them."""
        return fixed_rows(X, y, float(self.x_bound), float(self.y_bound))

    def _validated(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        return rows_as_they_are(self, X, y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.regressor_tags.poor_score = True  # of a few dozen rows nothing can be said privately
        return tags


@dataclass(frozen=True, slots=True)
class Clipped:
    """How many rows were clipped, and how many had a missing cell. Confidential: counts of people."""

    features: int
    labels: int
    missing: int = 0

    def __repr__(self) -> str:
        return "Clipped(confidential)"  # a repr ends up in logs


@dataclass(frozen=True, slots=True)
class ClippedSweep(Sweep):
    """The table as the release sees it: every block clipped to the declared bounds."""

    sweep: Sweep
    clip: Callable[[NDArray, NDArray], FixedRows]

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.sweep.n_features

    def fold(self, step: Callable[[Block], M]) -> M:
        """Return the sum of ``step(block)`` over all clipped blocks."""
        return self.sweep.fold(lambda block: step(self._seen(block)))

    def map(self, step: Callable[[Block], T]) -> Iterator[T]:
        """Yield ``step(block)`` of every clipped block."""
        return self.sweep.map(lambda block: step(self._seen(block)))

    def _seen(self, block: Block) -> Block:
        rows = self.clip(block.X, block.y)
        return Block(rows.X, rows.y, block.start)


def declared_bound(name: str, value: Any) -> float:
    """Validate a bound; a missing one is never guessed from the data.

    >>> declared_bound("x_bound", None)
    Traceback (most recent call last):
    ...
    perinstance.errors.InvalidInput: x_bound must be declared: a number > 0 chosen without looking at the data, got None
    """
    if not is_number(value) or not 0 < value < np.inf:
        raise InvalidInput(
            f"{name} must be declared: a number > 0 chosen without looking at the data, got {got(value)}"
        )
    return float(value)
