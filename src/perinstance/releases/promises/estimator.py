"""What AdaOPS and AdaSSP share: declared bounds, clipped rows, a promise kept, scikit-learn's contract."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from perinstance.checked_numbers import truth_value
from perinstance.errors import InvalidInput
from perinstance.event_log import LOG
from perinstance.folds.block import Block
from perinstance.folds.sweep import M, Sweep
from perinstance.models.interface import FitHealth, ShowsNoValue
from perinstance.models.linear.ridge import DualFit, LinearFit
from perinstance.numerics.array_types import Floats
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.arguments import rows_as_they_are, validated
from perinstance.releases.base.model_document import PublishedNumbers, WritesModel
from perinstance.releases.base.publishing import refuse_weights, warn_inside_search
from perinstance.releases.base.release import Mechanism
from perinstance.releases.base.shown_decimals import declared_text
from perinstance.releases.promises.declared_box import DeclaredBox, box_of, declared_count
from perinstance.releases.promises.promise import Promise, check_promise
from perinstance.releases.promises.window import ExactWindow, SimulatedWindow, Window
from perinstance.sampling import FixedRows

T = TypeVar("T")


class Promised(WritesModel, RegressorMixin, BaseEstimator):
    """A linear model published under an (epsilon, delta) promise and declared bounds (``declared_box``)."""

    epsilon: Any
    delta: Any
    x_bound: Any
    y_bound: Any
    fit_intercept: Any
    n_public: Any

    #: what is published, in words
    what: ClassVar[str]
    #: Whether what it costs a person is a function of their own row and of what was published.
    own_row: ClassVar[bool] = False

    def mechanism(self) -> Mechanism:
        """Describe the release: what it promises does not depend on the data."""
        epsilon, delta = check_promise(self.epsilon, self.delta)
        promised = f"promised at epsilon = {declared_text(epsilon)}, delta = {declared_text(delta)}"
        return Mechanism(
            name=type(self).__name__,
            moved="ridge",
            family="adaptive",
            noise="gaussian",
            scale=float("nan"),  # chosen by the mechanism, from noisy numbers
            words=(f"{self.what}, {promised}",),
            fit_intercept=truth_value("fit_intercept", self.fit_intercept),
            promises=True,
            own_row=self.own_row,
        )

    @abstractmethod
    def _publish(self, window: Window, box: DeclaredBox) -> Floats:
        """Look through the window, set what is published besides, and return the coefficients in units."""

    @abstractmethod
    def promise(self, n_features: int) -> Promise:
        """Return the promise that ``fit`` will keep, before any data is seen: it depends on declarations alone."""

    def published_numbers(self) -> PublishedNumbers:
        """Return the published coefficients."""
        return PublishedNumbers("regressor", coef=self.coef_, intercept=self.intercept_)

    def fit(self, X: Any, y: Any, **refused: Any) -> Any:
        """Clip the rows to the declared bounds and publish one draw, exact and on a public grid.

        Whatever the rows hold, and however many there are (none at all), something is published: a refusal would tell.
        A row with a missing cell (NaN, None, a text in a column of objects) counts as if the person had not been there,
        an infinite cell as the bound. Refused are declared facts only: the number of columns, types, names. Nothing
        else of the data is kept: how many rows were clipped or missing is asked for by ``clipped``.
        """
        refuse_weights(refused)
        warn_inside_search(self)
        check_promise(self.epsilon, self.delta)
        X, y = self._validated(X, y)
        box = self._box(X.shape[1])
        theta = self._publish(ExactWindow(box.rows(X, y)), box)
        self.coef_, self.intercept_ = box.in_user_units(theta)
        LOG.info("%s published one draw", type(self).__name__)
        return self

    def clipped(self, X: Any, y: Any) -> Clipped:
        """Count the rows that the declared bounds clip. Confidential, for the curator; the estimator keeps nothing."""
        return counted(self._clip(*rows_as_they_are(clone(self), X, y)))  # the clone keeps what is learnt of X

    def predict(self, X: Any) -> Floats:
        """Predict with the published coefficients."""
        check_is_fitted(self, "coef_")
        X = validated(self, X, reset=False, dtype=np.float64, order="C")
        return X @ self.coef_ + self.intercept_

    def _box(self, d: int) -> DeclaredBox:
        """Validate what was declared, for a table of d columns."""
        declared_count(self.n_public)
        return box_of(self.x_bound, self.y_bound, d, truth_value("fit_intercept", self.fit_intercept))

    def _clip(self, X: NDArray, y: NDArray) -> FixedRows:
        """Return rows as the release sees them: in units, the column of ones last."""
        return self._box(X.shape[1]).rows(X, y)

    def _clipped_in(self, sweep: Sweep) -> Clipped:
        """Count the same over a table that is read block by block."""
        return sweep.fold(lambda block: counted(self._clip(block.X, block.y)))

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


@dataclass(frozen=True, slots=True, repr=False)
class ClippedFit(ShowsNoValue):
    """A linear fit on clipped rows, in units, and how many were clipped: what promised releases know in confidence."""

    linear: LinearFit | DualFit
    clipped: Clipped

    @property
    def theta(self) -> Floats:
        """The estimate without noise."""
        return self.linear.theta

    @property
    def health(self) -> FitHealth:
        """The number of rows, the condition of the fit, and how many rows were clipped."""
        rows, condition, clipped = self.linear.n_people, self.linear.condition, self.clipped
        return FitHealth(rows, condition, clipped_features=clipped.features, clipped_targets=clipped.labels)

    @property
    def gram(self) -> None:
        """None: the release has no Gaussian law around this fit."""
        return None


def counted(rows: FixedRows) -> Clipped:
    """Count what the declared bounds clipped."""
    return Clipped(rows.clipped_x, rows.clipped_y, rows.missing)


@dataclass(frozen=True, slots=True)
class ClippedSweep(Sweep):
    """The table as the release sees it: every block in units and clipped, with its column of ones."""

    sweep: Sweep
    box: DeclaredBox

    @property
    def n_features(self) -> int:
        """The number of columns, that of ones included."""
        return self.box.d

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
        rows = self.box.rows(block.X, block.y)
        return Block(rows.X, rows.y, block.start)


def simulated_coefficients(estimator: Any, X: ArrayLike, y: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
    """Simulate one release: the coefficients in the user's units and, with an intercept, the intercept last."""
    if not isinstance(estimator, Promised):
        raise InvalidInput(f"AdaOPS and AdaSSP can be simulated, got {type(estimator).__name__}")
    thrown_away, rows = clone(estimator), np.asarray(X, dtype=np.float64)
    box = thrown_away._box(rows.shape[1])
    seen = box.rows(rows, np.asarray(y, dtype=np.float64))
    coef, intercept = box.in_user_units(thrown_away._publish(SimulatedWindow(seen.X, seen.y, rng), box))
    return np.append(coef, intercept) if box.weight else coef
