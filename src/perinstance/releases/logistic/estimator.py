"""Logistic regression that keeps (epsilon, delta), by noisy sums of bounded slopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from perinstance.checked_numbers import is_whole, truth_value
from perinstance.errors import InvalidInput
from perinstance.event_log import LOG
from perinstance.folds.block import Block
from perinstance.folds.sweep import M, People, Sweep
from perinstance.inference import About, PublishedInference
from perinstance.models.linear.ridge import Without, linear_fit, refined, without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUNDS_UP
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Kind, Method
from perinstance.releases.base.arguments import rows_as_they_are, validated
from perinstance.releases.base.model_document import PublishedNumbers, WritesModel
from perinstance.releases.base.own_row import OwnRowLoss, PublicFacts, one_pair, one_row
from perinstance.releases.base.publishing import refuse_weights, warn_inside_search
from perinstance.releases.base.release import Mechanism
from perinstance.releases.base.row_sums import lengths, products
from perinstance.releases.base.shown_decimals import declared_text
from perinstance.releases.logistic import mechanism as slope_mechanism
from perinstance.releases.logistic.bounded_slope_loss import SLOPE, slopes
from perinstance.releases.logistic.intervals import known
from perinstance.releases.logistic.noisy_sums import ExactSums
from perinstance.releases.promises.class_labels import (
    class_array,
    classes_of_labels,
    labels_as_they_are,
    signs,
    signs_of_numbers,
)
from perinstance.releases.promises.declared_box import DeclaredBox, box_of
from perinstance.releases.promises.estimator import Clipped, ClippedFit, ClippedSweep, counted
from perinstance.releases.promises.promise import Promise, check_promise
from perinstance.sampling import FixedRows


class PrivateLogisticRegression(WritesModel, ClassifierMixin, BaseEstimator):
    """Logistic regression that keeps (epsilon, delta): a yes or no outcome, nothing to tune.

    One noisy Gram matrix and ``rounds`` noisy sums of bounded slopes are released, calibrated together as one Gaussian
    release; the coefficients are post-processing of these numbers (``logistic_regression.mechanism``). They estimate
    those of ordinary logistic regression (``bounded_slope_loss`` says why the loss is another one).

    Parameters
    ----------
    epsilon, delta
        The promise, for adding or removing one person.
    x_bound
        Declared without looking at the data; rows beyond are clipped. A number for ``||x||``; or for every column a
        number for ``|x_j|`` or a range (low, high); or a recipe. For one-hot columns declare the norm: the root of the
        number of variables, not of columns.
    classes
        The two classes, declared: numbers or texts; the second is the one whose probability is modelled. A row with any
        other label counts as if it were not there. None: 0 and 1, for labels that are numbers or truth values by type.
    fit_intercept
        Whether there is an intercept; it costs what one more column costs.
    rounds
        How many sums of slopes are released.

    Attributes
    ----------
    coef_, intercept_
        The published estimate in the user's units, of shapes (1, d) and (1,).
    classes_
        The declared classes.
    gram_, slope_sums_
        What was released besides: the noisy Gram matrix and the noisy sums, of rows in units (``declared_box``).
    privacy_
        The promise computed from the pairs: ``privacy_.delta(epsilon) <= delta``.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 4000)[:, None]
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, x_bound=1.0).fit(X, (X[:, 0] > 0.1).astype(int))
    >>> model.predict([[-0.9], [0.9]]).tolist(), bool(model.privacy_.delta(1.0) <= 1e-6)
    ([0, 1], True)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        x_bound: Any = None,
        classes: ArrayLike | None = None,
        fit_intercept: bool = True,
        rounds: int = 30,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.rounds = rounds

    def mechanism(self) -> Mechanism:
        """Describe the release: what it promises does not depend on the data."""
        epsilon, delta = check_promise(self.epsilon, self.delta)
        promised = f"promised at epsilon = {declared_text(epsilon)}, delta = {declared_text(delta)}"
        return Mechanism(
            name=type(self).__name__,
            moved="smooth",
            family="adaptive",
            noise="gaussian",
            scale=float("nan"),  # one for each noisy sum
            words=(f"logistic regression from noisy sums of bounded slopes, {promised}",),
            fit_intercept=truth_value("fit_intercept", self.fit_intercept),
            promises=True,
            own_row=True,  # charged with the norm of the row and the largest slope
        )

    def promise(self, n_features: int) -> Promise:
        """Return the promise that ``fit`` will keep, before any data is seen: it depends on declarations alone."""
        return self._plan(self._box(n_features)).promise

    def published_numbers(self) -> PublishedNumbers:
        """Return the published coefficients."""
        return PublishedNumbers(
            "classifier", "", self.coef_, self.intercept_, classes=self.classes_, probabilities=True
        )

    def fit(self, X: Any, y: Any, **refused: Any) -> PrivateLogisticRegression:
        """Clip the rows to the declared bounds and publish one draw, exact and on a public grid.

        Whatever the rows hold, and however many there are (none at all), something is published: a refusal would tell.
        A row with a missing cell (NaN, None), or a label that is no declared class, counts as if the person had not
        been there, an infinite cell as the bound. Refused are declared facts only: the number of columns, types, names.
        """
        refuse_weights(refused)
        warn_inside_search(self)
        check_promise(self.epsilon, self.delta)
        labels = labels_as_they_are(self, X, y)
        classes = classes_of_labels(self.classes, labels)
        X, sign = rows_as_they_are(self, X, signs(labels, classes))
        box = self._box(X.shape[1])
        plan = self._plan(box)
        published = slope_mechanism.run(plan, ExactSums(box.rows(X, sign)))
        coef, intercept = box.in_user_units(published.theta)
        self.coef_, self.intercept_ = coef[None, :], np.array([intercept])
        self.classes_ = class_array(classes)
        self.gram_, self.slope_sums_ = published.gram, np.array(published.slope_sums)
        self.privacy_ = plan.promise
        self._path = published.path
        LOG.info("%s published one draw", type(self).__name__)
        return self

    def clipped(self, X: Any, y: Any) -> Clipped:
        """Count the rows that the declared bounds clip. Confidential, for the curator; the estimator keeps nothing."""
        labels = labels_as_they_are(self, X, y)
        sign = signs(labels, classes_of_labels(self.classes, labels))
        X, sign = rows_as_they_are(clone(self), X, sign)  # the clone keeps what is learnt of X
        return counted(self._box(X.shape[1]).rows(X, sign))

    def decision_function(self, X: Any) -> Floats:
        """Return the log odds of the second class."""
        check_is_fitted(self, "coef_")
        X = validated(self, X, reset=False, dtype=np.float64, order="C")
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any) -> NDArray:
        """Predict the likelier class."""
        likelier = self.decision_function(X) > 0
        return self.classes_[likelier.astype(np.intp)]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class."""
        p = expit(self.decision_function(X))
        return np.column_stack([1.0 - p, p])

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> SlopeFit:
        """Least squares on the clipped rows, to tell leverage and residual with the losses.

        ``method="estimate"`` also asks for the points where the rounds took slopes: those of the release if it is
        fitted, else those of a release without noise.
        """
        box = self._box(sweep.n_features)
        coded = SignSweep(sweep, self._signs_of_numbers)
        seen = ClippedSweep(coded, box)
        fit = SlopeFit(linear_fit(seen, 0.0, False), coded.fold(lambda block: counted(box.rows(block.X, block.y))))
        if method != "estimate":
            return fit
        if hasattr(self, "coef_"):
            return replace(fit, path=self._path)
        return replace(fit, path=slope_mechanism.run(self._plan(box), NoiselessSums(seen)).path)

    def people(self, fit: SlopeFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block.

        One person moves the Gram matrix by ``||x||^2`` and each sum by ``|slope| ||x||``, the slope at most 1/2. What a
        round asks depends on what was drawn before, so all are charged with 1/2: an ``"upper"`` bound that is a
        function of the person's own row. The first round asks at zero, where everybody's slope is 1/2: with
        ``rounds=1`` the bound is what was done, and is labelled ``"exact"``. ``method="estimate"`` takes the slopes at
        the points that were drawn: an odometer reading (MATH 6), labelled ``"estimate"``.
        """
        box = self._box(block.X.shape[1])
        rows = self._rows(box, block)
        return self._people(fit, without(fit.linear, rows.X, rows.y, inside), rows, box)

    def refine(self, fit: SlopeFit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people whose leverage is near one."""
        box = self._box(block.X.shape[1])
        rows, seen = self._rows(box, block), ClippedSweep(SignSweep(sweep, self._signs_of_numbers), box)
        return self._people(fit, refined(fit.linear, seen, rows.X, rows.y, inside), rows, box)

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return the loss of one person from their own row: what ``people`` charges them with, whatever their class."""
        row = one_row(x)
        box = self._box(row.shape[1])
        return one_pair(self._pairs(box.rows(row, np.ones(1)), box, ()), delta, ("rows_clipped",))

    def uncertainty(self, about: About) -> PublishedInference:
        """Return what the released numbers say of the coefficients (``logistic_regression.intervals``)."""
        box = self._box(self.n_features_in_)
        sums = _PublishedSums(self.gram_, list(self.slope_sums_))
        plan = self._plan(box)
        return known(box, plan, slope_mechanism.run(plan, sums), about)

    def _people(self, fit: SlopeFit, loo: Without, rows: FixedRows, box: DeclaredBox) -> People:
        return People(loo.leverage, loo.residual, self._pairs(rows, box, fit.path), loo.open)

    def _pairs(self, rows: FixedRows, box: DeclaredBox, path: tuple[Floats, ...]) -> GaussianShift:
        """Return pairs that follow from each row alone and, for a reading, from the points that were drawn."""
        plan = self._plan(box)
        unit = lengths(rows.X) / plan.x_bound
        spent = np.square(plan.round_distances)
        if path:
            rounds = np.zeros(len(unit))
            for theta, square in zip(path, spent, strict=True):
                rounds += square * (slopes(products(rows.X, theta), np.sign(rows.y)) / SLOPE) ** 2
        else:
            rounds = np.full(len(unit), spent.sum())
        squares = (unit**2 * plan.gram_distance) ** 2 + rounds * unit**2
        kind: Kind = "exact" if len(spent) == 1 else "estimate" if path else "upper"
        return GaussianShift(np.sqrt(squares) * ROUNDS_UP, kind)

    def _rows(self, box: DeclaredBox, block: Block) -> FixedRows:
        return box.rows(block.X, self._signs_of_numbers(block.y))

    def _signs_of_numbers(self, y: NDArray) -> Floats:
        return signs_of_numbers(y, self.classes)

    def _box(self, d: int) -> DeclaredBox:
        """Validate what was declared, for a table of d columns."""
        return box_of(self.x_bound, 1.0, d, truth_value("fit_intercept", self.fit_intercept))

    def _plan(self, box: DeclaredBox) -> slope_mechanism.SlopeRounds:
        epsilon, delta = check_promise(self.epsilon, self.delta)
        rounds: Any = self.rounds
        if not is_whole(rounds) or not 1 <= rounds <= 99:
            raise InvalidInput(f"rounds must be a whole number from 1 to 99, got {rounds!r}; try rounds=30")
        return slope_mechanism.spend(epsilon, delta, box.x_bound, int(rounds))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # of a few dozen rows nothing can be said privately
        return tags


T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class SlopeFit(ClippedFit):
    """Least squares on the classes as -1 and +1 and, if asked for, the points of the rounds. Confidential."""

    path: tuple[Floats, ...] = ()


@dataclass(frozen=True, slots=True)
class SignSweep(Sweep):
    """A sweep whose targets are replaced by -1 and +1."""

    sweep: Sweep
    signs: Callable[[NDArray], Floats]

    @property
    def n_features(self) -> int:
        """The number of columns of X."""
        return self.sweep.n_features

    def tell(self, stage: str, done: int, total: int | None) -> None:
        """Pass on how far the work between two passes is."""
        self.sweep.tell(stage, done, total)

    def fold(self, step: Callable[[Block], M]) -> M:
        """Fold with signs for targets."""
        return self.sweep.fold(lambda block: step(block.with_target(self.signs(block.y))))

    def map(self, step: Callable[[Block], T]) -> Iterator[T]:
        """Map with signs for targets."""
        return self.sweep.map(lambda block: step(block.with_target(self.signs(block.y))))


@dataclass(frozen=True, slots=True)
class NoiselessSums:
    """A window without noise: what a release would typically look like. Its answers stay with the curator."""

    sweep: ClippedSweep

    @property
    def d(self) -> int:
        """Number of columns."""
        return self.sweep.n_features

    def gram(self, scale: float) -> Floats:
        """``X'X``."""
        return self.sweep.fold(lambda block: block.X.T @ block.X)

    def slope_sum(self, theta: Floats, scale: float) -> Floats:
        """``sum_i slope(x_i'theta, s_i) x_i``."""
        return self.sweep.fold(lambda block: block.X.T @ slopes(block.X @ theta, np.sign(block.y)))


@dataclass(frozen=True, slots=True)
class _PublishedSums:
    """A window that gives the published answers again: the points are post-processing of them."""

    gram_: Floats
    sums: list[Floats]

    @property
    def d(self) -> int:
        return len(self.gram_)

    def gram(self, scale: float) -> Floats:
        return self.gram_

    def slope_sum(self, theta: Floats, scale: float) -> Floats:
        return self.sums.pop(0)
