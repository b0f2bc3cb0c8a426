"""What AdaOPS and AdaSSP share: declared bounds, clipped rows, a promise kept, scikit-learn's contract."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from perinstance.checked_numbers import got, is_number
from perinstance.errors import InvalidInput
from perinstance.event_log import LOG
from perinstance.folds.block import Block
from perinstance.folds.sweep import M, Sweep
from perinstance.numerics.array_types import Floats
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.arguments import rows_as_they_are, validated
from perinstance.releases.base.mechanism import Mechanism
from perinstance.releases.base.model_document import PublishedNumbers, WritesModel
from perinstance.releases.base.publishing import refuse_weights
from perinstance.releases.base.repeated_fits import warn_inside_search
from perinstance.releases.base.shown_decimals import declared_text
from perinstance.releases.promises.calibration import check_promise
from perinstance.releases.promises.noisy_queries import ExactWindow, Window
from perinstance.releases.promises.promise import Promise
from perinstance.sampling import FixedRows, fixed_rows

T = TypeVar("T")


class Promised(WritesModel, RegressorMixin, BaseEstimator):
    """A linear model without intercept, published under an (epsilon, delta) promise and declared bounds."""

    epsilon: Any
    delta: Any
    x_bound: Any
    y_bound: Any

    #: what is published, in words
    what: ClassVar[str]
    #: Whether what it costs a person is a function of their own row and of what was published.
    own_row: ClassVar[bool] = False

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
            own_row=self.own_row,
        )

    @abstractmethod
    def _publish(self, window: Window) -> None:
        """Look through the window, and set what is published."""

    @abstractmethod
    def promise(self, n_features: int) -> Promise:
        """Return the promise that ``fit`` will keep, before any data is seen: it depends on declarations alone."""

    def published_numbers(self) -> PublishedNumbers:
        """Return the published coefficients."""
        return PublishedNumbers("regressor", coef=self.coef_, intercept=self.intercept_)

    def fit(self, X: Any, y: Any, **refused: Any) -> Any:
        """Clip the rows to the declared bounds and publish one draw, exact and on a public grid.

        Whatever the rows hold, and however many there are (none at all), something is published: a refusal would tell.
        A row with a missing cell (NaN, None) counts as a row of zeros, an infinite cell as the bound. Refused are
        declared facts only: the number of columns, types, names. Nothing else of the data is kept: how many rows were
        clipped or missing is asked for by ``clipped``.
        """
        refuse_weights(refused)
        warn_inside_search(self)
        self._declared()
        X, y = self._validated(X, y)
        rows = fixed_rows(X, y, float(self.x_bound), float(self.y_bound))
        self._publish(ExactWindow(rows))
        LOG.info("%s published one draw", type(self).__name__)
        self.intercept_ = 0.0
        return self

    def clipped(self, X: Any, y: Any) -> Clipped:
        """Count the rows that the declared bounds clip. Confidential, for the curator; the estimator keeps nothing."""
        self._declared()
        return _counted(self._clip(*rows_as_they_are(clone(self), X, y)))  # the clone keeps what is learnt of X

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

    def _clipped_in(self, sweep: Sweep) -> Clipped:
        """Count the same over a table that is read block by block."""
        return sweep.fold(lambda block: _counted(self._clip(block.X, block.y)))

    def _validated(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        return rows_as_they_are(self, X, y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.regressor_tags.poor_score = True  # of a few dozen rows nothing can be said privately
        return tags


@dataclass(frozen=True, slots=True)
class Clipped(ShownAsTable):
    """How many rows were clipped, and how many had a missing cell. Confidential: counts of people."""

    features: int
    labels: int
    missing: int = 0

    def __add__(self, other: Clipped) -> Clipped:
        return Clipped(self.features + other.features, self.labels + other.labels, self.missing + other.missing)

    def __repr__(self) -> str:
        return "Clipped(confidential)"  # a repr ends up in logs


def _counted(rows: FixedRows) -> Clipped:
    return Clipped(rows.clipped_x, rows.clipped_y, rows.missing)


@dataclass(frozen=True, slots=True)
class ClippedSweep(Sweep):
    """The table as the release sees it: every block clipped to the declared bounds."""

    sweep: Sweep
    clip: Callable[[NDArray, NDArray], FixedRows]

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.sweep.n_features

    @property
    def n_rows(self) -> int | None:
        """The number of rows, where it is known already."""
        return getattr(self.sweep, "n_rows", None)

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
