"""Logistic regression that keeps (epsilon, delta), by noisy sums of bounded slopes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from perinstance.checked_numbers import whole_number
from perinstance.inference.equation import EstimatingEquation, averaged_slopes
from perinstance.inference.published_inference import PublishedInference, Use
from perinstance.inference.table import About
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUNDS_UP
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Kind
from perinstance.releases.base.arguments import rows_as_they_are, validated
from perinstance.releases.base.log_ratios import OwnRowLoss, PublicFacts
from perinstance.releases.base.model_document import PublishedNumbers
from perinstance.releases.base.row_sums import lengths, products
from perinstance.releases.base.rows_per_person import most_rows
from perinstance.releases.logistic.mechanism import SLOPE, PublishedSlopes, SlopeRounds, run, slopes, spend
from perinstance.releases.promises.class_labels import (
    classes_of_labels,
    labels_as_they_are,
    signs,
    signs_of_numbers,
)
from perinstance.releases.promises.declared_box import DeclaredBox
from perinstance.releases.promises.estimator import Promised
from perinstance.releases.promises.promise import check_promise
from perinstance.sampling import FixedRows

NORMAL_SCORE = (
    "The curvature is computed as if scores were normal: fair for rows that are roughly elliptical, rough for a few "
    "rare dummies."
)
NO_ONES = (
    "without an intercept the number of people is not published, and the curvature cannot be computed; publish with "
    "fit_intercept=True"
)


class PrivateLogisticRegression(ClassifierMixin, Promised):
    """Logistic regression that keeps (epsilon, delta): a yes or no outcome, nothing to tune.

    One noisy Gram matrix and ``rounds`` noisy sums of bounded slopes are released, calibrated together as one Gaussian
    release; the coefficients are post-processing of these numbers (``logistic.mechanism``). They estimate
    those of ordinary logistic regression (``mechanism.slopes`` says why the loss is another one).

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
    rows_per_person
        How many rows of a person are used at most, where people may have several; ``fit`` is then given ``ids``. Of who
        has more so many are drawn. None: a row is a person, and an id that repeats is refused.
    weight_bound
        The largest weight of a row that counts, where rows have weights: larger ones count as this one. ``fit`` is then
        given ``sample_weight``.

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

    what = "logistic regression from noisy sums of bounded slopes"
    moved = "smooth"
    _mechanism = staticmethod(run)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        x_bound: Any = None,
        classes: ArrayLike | None = None,
        fit_intercept: bool = True,
        rounds: int = 30,
        rows_per_person: int | None = None,
        weight_bound: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.rounds = rounds
        self.rows_per_person = rows_per_person
        self.weight_bound = weight_bound

    def published_numbers(self) -> PublishedNumbers:
        """Return the published coefficients."""
        return PublishedNumbers(
            "classifier", "", self.coef_, self.intercept_, classes=self.classes_, probabilities=True
        )

    def decision_function(self, X: Any) -> Floats:
        """Return the log odds of the second class."""
        check_is_fitted(self, "coef_")
        X = validated(self, X, reset=False, dtype=np.float64, order="C")
        return X @ self.coef_[0] + self.intercept_[0]

    def predict(self, X: Any, use: Use = "published") -> NDArray:
        """Predict the likelier class, by what was published or by the estimates that intervals belong to."""
        check_is_fitted(self, "coef_")
        coef, intercept = self._used(use)
        X = validated(self, X, reset=False, dtype=np.float64, order="C")
        likelier = X @ coef[0] + intercept[0] > 0
        return self.classes_[likelier.astype(np.intp)]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class."""
        p = expit(self.decision_function(X))
        return np.column_stack([1.0 - p, p])

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return the loss of one person from their own row: what ``people`` charges them with, whatever their class."""
        return super().own_row_loss(x, 1.0, delta, facts)

    def uncertainty(self, about: About) -> PublishedInference:
        """Return what the released numbers say of the coefficients."""
        box = self._box(self.n_features_in_)
        if not box.weight:
            return PublishedInference(None, (), NO_ONES)
        plan = self._plan(box)
        found = equation(box, plan, self._run_again())
        # a person's rows may all go together: the variance of their sum is at most so many times that of rows alone
        sampled = plan.rows_per_person if about == "population" else 0
        solved = replace(found, sampling=found.sampling * sampled).solved()
        return PublishedInference(box.user_coefficients(solved), (NORMAL_SCORE,))

    def _pairs(self, rows: FixedRows, box: DeclaredBox, seen: PublishedSlopes | None) -> GaussianShift:
        """Charge the Gram matrix with ``||x||^2`` and each sum with ``|slope| ||x||``, the slope at most 1/2.

        The first round asks at zero, where everybody's slope is 1/2: one round is charged with what was done.
        """
        plan = self._plan(box)
        unit = lengths(rows.X) / plan.x_bound
        spent = np.square(plan.round_distances)
        rounds = np.full(len(unit), spent.sum())
        if seen is not None:
            steep = [slopes(products(rows.X, theta), np.sign(rows.y)) / SLOPE for theta in seen.path]
            rounds = spent @ np.square(steep)
        squares = (unit**2 * plan.gram_distance) ** 2 + rounds * unit**2
        kind: Kind = "exact" if len(spent) == 1 else "estimate" if seen is not None else "upper"
        return GaussianShift(np.sqrt(squares) * rows.share * ROUNDS_UP, kind)

    def _plan(self, box: DeclaredBox) -> SlopeRounds:
        epsilon, delta = check_promise(self.epsilon, self.delta)
        count = whole_number("rounds", self.rounds, 1, 99, 30)
        return spend(epsilon, delta, box.x_bound, count, most_rows(self))

    def _publish(self, found: PublishedSlopes, box: DeclaredBox) -> Floats:
        self.gram_, self.slope_sums_ = found.gram, np.array(found.slope_sums)
        return found.theta

    def _answers(self) -> list[Floats]:
        return [self.gram_[np.triu_indices(len(self.gram_))], *self.slope_sums_]

    def _target(self, y: NDArray) -> Floats:
        return signs_of_numbers(y, self.classes)

    def _validated(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        labels = labels_as_they_are(self, X, y)
        classes = classes_of_labels(self.classes, labels)
        self.classes_ = np.array(classes)
        return rows_as_they_are(self, X, signs(labels, classes))

    def _shaped(self, coef: Floats, intercept: float) -> tuple[Floats, Any]:
        return coef[None, :], np.array([intercept])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = self.poor_score
        return tags


def equation(box: DeclaredBox, rounds: SlopeRounds, published: PublishedSlopes) -> EstimatingEquation:
    """Return the estimating equation that was published anyway, for rows in units."""
    noise, gram_noise = (
        SLOPE * rounds.x_bound / np.array(rounds.round_distances),
        rounds.x_bound**2 / rounds.gram_distance,
    )
    seen = published.path, published.slope_sums, noise, published.gram, gram_noise, published.theta
    return averaged_slopes(*seen, box.weight)
