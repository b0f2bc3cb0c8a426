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
from perinstance.inference.equation import EstimatingEquation, positive_part
from perinstance.inference.table import About, PublishedInference
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUNDS_UP, TINY
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Kind
from perinstance.releases.base.arguments import rows_as_they_are, validated
from perinstance.releases.base.model_document import PublishedNumbers, Use
from perinstance.releases.base.own_row import OwnRowLoss, PublicFacts
from perinstance.releases.base.row_sums import lengths, products
from perinstance.releases.base.rows_per_person import most_rows
from perinstance.releases.logistic import mechanism as slope_mechanism
from perinstance.releases.logistic.mechanism import SLOPE, PublishedSlopes, SlopeRounds, slopes
from perinstance.releases.promises.class_labels import (
    classes_of_labels,
    labels_as_they_are,
    signs,
    signs_of_numbers,
)
from perinstance.releases.promises.declared_box import DeclaredBox
from perinstance.releases.promises.estimator import Promised
from perinstance.releases.promises.promise import Promise, check_promise
from perinstance.releases.promises.window import Window
from perinstance.sampling import FixedRows


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

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        x_bound: Any = None,
        classes: ArrayLike | None = None,
        fit_intercept: bool = True,
        rounds: int = 30,
        rows_per_person: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.x_bound = x_bound
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.rounds = rounds
        self.rows_per_person = rows_per_person

    def promise(self, n_features: int) -> Promise:
        """Return the promise that ``fit`` will keep, before any data is seen: it depends on declarations alone."""
        return self._plan(self._box(n_features)).promise

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
        return known(box, self._plan(box), self._run_again(), about)

    def _pairs(self, rows: FixedRows, box: DeclaredBox, run: slope_mechanism.PublishedSlopes | None) -> GaussianShift:
        """Charge the Gram matrix with ``||x||^2`` and each sum with ``|slope| ||x||``, the slope at most 1/2.

        The first round asks at zero, where everybody's slope is 1/2: one round is charged with what was done.
        """
        plan = self._plan(box)
        unit = lengths(rows.X) / plan.x_bound
        spent = np.square(plan.round_distances)
        rounds = np.full(len(unit), spent.sum())
        if run is not None:
            steep = [slopes(products(rows.X, theta), np.sign(rows.y)) / SLOPE for theta in run.path]
            rounds = spent @ np.square(steep)
        squares = (unit**2 * plan.gram_distance) ** 2 + rounds * unit**2
        kind: Kind = "exact" if len(spent) == 1 else "estimate" if run is not None else "upper"
        return GaussianShift(np.sqrt(squares) * ROUNDS_UP, kind)

    def _plan(self, box: DeclaredBox) -> slope_mechanism.SlopeRounds:
        epsilon, delta = check_promise(self.epsilon, self.delta)
        count = whole_number("rounds", self.rounds, 1, 99, 30)
        return slope_mechanism.spend(epsilon, delta, box.x_bound, count, most_rows(self))

    def _run(self, box: DeclaredBox, window: Window) -> slope_mechanism.PublishedSlopes:
        return slope_mechanism.run(self._plan(box), window)

    def _publish(self, found: slope_mechanism.PublishedSlopes, box: DeclaredBox) -> Floats:
        self.gram_, self.slope_sums_ = found.gram, np.array(found.slope_sums)
        self.privacy_ = self._plan(box).promise
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


NODES = 60  # of the quadrature over a normal score
LEAST_SHARE = 1e-3  # of the mean eigenvalue, below which an eigenvalue of the Gram matrix is raised: it is all noise
NORMAL_SCORE = (
    "The curvature is computed as if scores were normal: fair for rows that are roughly elliptical, rough for a few "
    "rare dummies."
)
NO_ONES = (
    "without an intercept the number of people is not published, and the curvature cannot be computed; publish with "
    "fit_intercept=True"
)


def known(box: DeclaredBox, rounds: SlopeRounds, published: PublishedSlopes, about: About) -> PublishedInference:
    """Return what is known of the user's coefficients, the intercept last."""
    if not box.weight:
        return PublishedInference(None, (), NO_ONES)
    found = equation(box, rounds, published, about == "population")
    # a person's rows may all go together: the variance of their sum is at most so many times that of rows alone
    solved = replace(found, sampling=found.sampling * rounds.rows_per_person).solved()
    return PublishedInference(box.user_coefficients(solved), (NORMAL_SCORE,))


def equation(box: DeclaredBox, rounds: SlopeRounds, published: PublishedSlopes, population: bool) -> EstimatingEquation:
    """Return the estimating equation that was published anyway, for rows in units.

    The sums of slopes of the last two thirds of the rounds are averaged, with weights in proportion to what they spent.
    Their slope is the curvature ``sum h(x'theta) x x'``, in which there is no label. The covariance of the score is at
    most the curvature: the squared slope is ``(1 - p)/(4 p)`` on average and the curvature ``(1 - p)/2``, p the
    probability of the likelier class, so standard errors are at most ``sqrt(2)`` too long where the model holds.
    """
    count, d, B = len(published.path), len(published.gram), rounds.x_bound
    spent = np.square(rounds.round_distances)
    weights = np.where(np.arange(count) >= count - (2 * count + 2) // 3, spent, 0.0)
    weights /= weights.sum()
    noise = float((weights**2 * (SLOPE * B) ** 2 / spent).sum()) * np.eye(d)
    curvature = normal_curvature(published.gram, box.weight, published.theta)
    return EstimatingEquation(
        anchor=weights @ np.array(published.path),
        score=weights @ np.array(published.slope_sums),
        slope=curvature,
        score_noise=noise,
        sampling=positive_part(curvature) if population else np.zeros((d, d)),
        slope_noise=B * B / rounds.gram_distance * SLOPE / 2.0,  # h is at most a quarter
    )


def normal_curvature(gram: Floats, weight: float, theta: Floats) -> Floats:
    """Return ``sum h(x'theta) x x'`` for rows ``(u, weight)`` with normal u of the moments in the Gram matrix.

    By Stein's lemma, which says what a function of one direction does to second moments.
    """
    gram = positive_part(gram, max(LEAST_SHARE * float(np.trace(gram)) / len(gram), TINY))
    n = max(float(gram[-1, -1]) / weight**2, 1.0)
    mean = gram[:, -1] / (n * weight)
    mean[-1] = weight
    spread = positive_part(gram / n - np.outer(mean, mean))
    spread[-1], spread[:, -1] = 0.0, 0.0
    along = spread @ theta
    deviation = np.sqrt(max(float(theta @ along), TINY))
    along = along / deviation
    nodes, masses = np.polynomial.hermite_e.hermegauss(NODES)
    score = mean @ theta + deviation * nodes
    heights = masses / masses.sum() * 0.5 * np.minimum(expit(score), expit(-score))
    h0, h1, h2 = (float(heights @ nodes**k) for k in range(3))
    mixed = np.outer(mean, along)
    rest = spread - np.outer(along, along)
    whole: Floats = n * (h0 * (np.outer(mean, mean) + rest) + h1 * (mixed + mixed.T) + h2 * np.outer(along, along))
    return whole
