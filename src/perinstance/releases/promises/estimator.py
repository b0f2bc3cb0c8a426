"""What AdaOPS, AdaSSP and private logistic regression share: declared bounds, clipped rows, a promise kept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from perinstance.checked_numbers import truth_value
from perinstance.errors import InvalidInput
from perinstance.event_log import LOG
from perinstance.folds.block import Block, plain_targets, weights_of
from perinstance.folds.sweep import People, Sweep
from perinstance.models.interface import FitHealth, ShowsNoValue
from perinstance.models.linear.ridge import DualFit, LinearFit, linear_fit, refined, without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import EXACT, UPPER
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Method
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.arguments import rows_as_they_are
from perinstance.releases.base.log_ratios import (
    LogRatios,
    OwnRowLoss,
    PublicFacts,
    check_same_release,
    one_pair,
    one_row,
    refuse_outside,
)
from perinstance.releases.base.publishing import WritesModel
from perinstance.releases.base.release import Mechanism, MovedByPerson
from perinstance.releases.base.rows_per_person import (
    largest_in_size,
    largest_sums,
    refuse_rows_of_people,
    rows_that_count,
    rows_words,
    starts_of,
    used_rows,
)
from perinstance.releases.base.weighted_rows import refuse_own_row, shares_of_bound, weight_words, weights_as_they_are
from perinstance.releases.promises.declared_box import DeclaredBox, box_of
from perinstance.releases.promises.promise import Promise, check_promise
from perinstance.releases.promises.window import ClippedSweep, Window, published_before, replayed_log_ratios, simulated
from perinstance.sampling import FixedRows
from perinstance.shown_decimals import declared_text


class Promised(WritesModel):
    """A model published under an (epsilon, delta) promise and declared bounds (``declared_box``)."""

    epsilon: Any
    delta: Any
    x_bound: Any
    y_bound: Any = 1.0  #: of labels that are signs
    fit_intercept: Any
    rows_per_person: Any
    weight_bound: Any

    #: what is published, in words
    what: ClassVar[str]
    moved: ClassVar[MovedByPerson] = "ridge"
    #: whether what it costs a person is a function of their own row and of what was published
    own_row: ClassVar[bool] = True
    poor_score = True

    def mechanism(self) -> Mechanism:
        """Describe the release: what it promises does not depend on the data."""
        epsilon, delta = check_promise(self.epsilon, self.delta)
        promised = f"promised at epsilon = {declared_text(epsilon)}, delta = {declared_text(delta)}"
        return Mechanism(
            name=type(self).__name__,
            moved=self.moved,
            family="adaptive",
            noise="gaussian",
            scale=float("nan"),  # chosen by the mechanism, from noisy numbers
            words=(f"{self.what}, {promised}", *rows_words(self), *weight_words(self)),
            fit_intercept=truth_value("fit_intercept", self.fit_intercept),
            promises=True,
            own_row=self.own_row and self.rows_per_person is None and self.weight_bound is None,
        )

    #: what the mechanism makes of a plan and of what it sees through a window
    _mechanism: ClassVar[Any]

    def promise(self, n_features: int) -> Promise:
        """Return the promise that ``fit`` will keep, before any data is seen: it depends on declarations alone."""
        promised: Promise = self._plan(self._box(n_features)).promise
        return promised

    @abstractmethod
    def _plan(self, box: DeclaredBox) -> Any:
        """Validate what was declared, and spend the budget: public."""

    def _run(self, box: DeclaredBox, window: Window) -> Any:
        return self._mechanism(self._plan(box), window)

    @abstractmethod
    def _publish(self, found: Any, box: DeclaredBox) -> Floats:
        """Set what a run released besides, and return the coefficients in units."""

    def _answers(self) -> list[Floats]:
        """Return what was released, in the order in which the mechanism asked."""
        raise NotImplementedError

    def _pairs(self, rows: FixedRows, box: DeclaredBox, run: Any) -> GaussianShift:
        """Return pairs that follow from each row alone and, for a reading, from the run that was drawn."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, ids: Any = None, **more: Any) -> Any:
        """Clip the rows to the declared bounds and publish one draw, exact and on a public grid.

        Whatever the rows hold, and however many there are (none at all), something is published: a refusal would tell.
        A row with a missing cell (NaN, None, a text in a column of objects), or a label that is no declared class,
        counts as if the person had not been there, an infinite cell as the bound. Refused are declared facts only: the
        number of columns, types, names. Nothing else of the data is kept: how many rows were clipped or missing is
        asked for by ``clipped``. ``ids`` say whose row each is; with ``rows_per_person`` people may have several, and
        of who has more so many are drawn (``sampling.random_bits``). How many are left out is kept nowhere.
        ``sample_weight`` are weights of rows, where a ``weight_bound`` is declared (``base.weighted_rows``).
        """
        weights = self._begin(more, weights=hasattr(self, "weight_bound"))
        check_promise(self.epsilon, self.delta)
        table = X
        X, y = self._validated(X, y)
        weights = None if weights is None else weights_as_they_are(table, weights, len(X))
        shares = shares_of_bound(self, weights)
        used = used_rows(self, table, ids, len(X))
        X, y, shares = X[used], y[used], None if shares is None else shares[used]
        self._check_count(len(X))
        box = self._box(X.shape[1])
        theta = self._publish(self._run(box, Window(box.rows(X, y, shares))), box)
        self.coef_, self.intercept_ = self._shaped(*box.in_user_units(theta))
        self.privacy_ = self.promise(X.shape[1])
        LOG.info("%s published one draw", type(self).__name__)
        return self

    def clipped(self, X: Any, y: Any) -> Clipped:
        """Count the rows that the declared bounds clip. Confidential, for the curator; the estimator keeps nothing."""
        rows, targets = clone(self)._validated(X, y)  # the clone keeps what is learnt of X
        return Clipped.of(self._box(rows.shape[1]).rows(rows, targets))

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> ClippedFit:
        """Least squares on the clipped rows, to tell leverage and residual with the losses.

        ``method="estimate"`` also asks for a run of the mechanism: that of the release if it is fitted, else one
        without noise.
        """
        box = self._box(sweep.n_features)
        seen = ClippedSweep(sweep, self._seen, box.d)
        linear = linear_fit(seen, 0.0, False)  # first: whoever folds first has the cells looked at
        fit = ClippedFit(linear, sweep.fold(lambda block: Clipped.of(self._seen(block))))
        if method != "estimate":
            return fit
        run = self._run_again() if hasattr(self, "coef_") else self._run(box, Window(seen, simulated()))
        return replace(fit, run=run)

    def people(self, fit: Any, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block, charged with what each row can have moved at most.

        What later questions ask depends on what was drawn before, so they are charged with the bounds that are
        enforced: an ``"upper"`` bound, a function of the row; with one round it is what was done, and ``"exact"`` if
        nothing is clipped by the data. ``method="estimate"`` charges what each row moved at the run that was drawn: an
        odometer reading (MATH 6), labelled ``"estimate"``.
        """
        return self._people(fit, block, lambda rows: without(fit.linear, rows.X, rows.y, inside))

    def persons(self, fit: Any, block: Block, starts: NDArray, inside: bool = True) -> People:
        """Map: one pair for each person, whose rows stand together in the block and begin at ``starts``.

        A sum moves by at most the sum of the moves of the rows that are used, so the distance is at most the sum of
        those of the person's ``rows_per_person`` longest-moving rows: an ``"upper"`` bound, for one row that of
        ``people``. Leverage and residual are the largest in size of their rows.
        """
        rows = self.people(fit, block, inside)
        people, counts = starts_of(len(block), starts)
        assert isinstance(rows.pairs, GaussianShift)
        distance = largest_sums(rows.pairs.distance, people, len(counts), rows_that_count(self, len(block)))
        kinds = np.maximum(rows.pairs.codes[starts[:-1]], np.where(counts > 1, UPPER, EXACT))
        leverage, residual = (largest_in_size(part, people, starts) for part in (rows.leverage, rows.residual))
        return People(leverage, residual, GaussianShift(distance, kinds))

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people whose leverage is near one."""
        seen = ClippedSweep(sweep, self._seen, self._box(block.X.shape[1]).d)
        return self._people(fit, block, lambda rows: refined(fit.linear, seen, rows.X, rows.y, inside))

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return the loss of one person from their own row: what ``people`` charges them with."""
        refuse_rows_of_people(self, "the loss that follows from one row")
        refuse_own_row(self)
        row = one_row(x)
        box = self._box(row.shape[1])
        return one_pair(self._pairs(box.rows(row, np.array([y])), box, None), delta, ("rows_clipped",))

    def _people(self, fit: Any, block: Block, left_out: Callable[[FixedRows], Any]) -> People:
        box, rows = self._box(block.X.shape[1]), self._seen(block)
        loo, pairs = left_out(rows.scaled()), self._pairs(rows, box, fit.run)
        return People(loo.leverage, loo.residual * box.label.half, pairs, loo.open)  # residuals in the user's units

    def _run_again(self) -> Any:
        """Run the mechanism once more on what was published: coordinates and estimates are post-processing of it."""
        box = self._box(self.n_features_in_)
        nobody = box.rows(np.zeros((0, len(box.columns))), np.zeros(0))
        return self._run(box, Window(nobody, published_before(self._answers())))

    def _box(self, d: int) -> DeclaredBox:
        """Validate what was declared, for a table of d columns."""
        return box_of(self.x_bound, self.y_bound, d, truth_value("fit_intercept", self.fit_intercept))

    def _seen(self, block: Block) -> FixedRows:
        """Return rows as the release sees them: in units, the column of ones last."""
        shares = shares_of_bound(self, weights_of(block.y))
        return self._box(block.X.shape[1]).rows(block.X, self._target(plain_targets(block.y)), shares)

    def _everybody(self, sweep: Sweep) -> FixedRows:
        """Return all rows of a table as the release sees them."""
        blocks = list(sweep.map(lambda block: block))
        return self._seen(Block(np.concatenate([b.X for b in blocks]), np.concatenate([b.y for b in blocks])))

    def _replayed(self, sweep: Sweep, published: Any, outside: Sweep | None) -> LogRatios:
        """Return ``log q/p`` of everybody at all that one fit released, of a release whose answers are noisy sums."""
        refuse_outside(outside)
        refuse_rows_of_people(self, "the realised loss")
        if not hasattr(published, "moments_"):
            raise InvalidInput(
                f"what {type(self).__name__} published is more than its coefficients; pass the fitted release itself"
            )
        check_same_release(self, published)
        run = partial(self._run, self._box(sweep.n_features))
        return LogRatios.of(replayed_log_ratios(run, self._everybody(sweep), published._answers()))

    def _check_count(self, rows: int) -> None:
        """Refuse more rows than were declared, where a number of rows is."""

    def _target(self, y: NDArray) -> Floats:
        """Return the target of an audit as ``fit`` takes it."""
        return y

    def _validated(self, X: Any, y: Any) -> tuple[Floats, Floats]:
        return rows_as_they_are(self, X, y)

    def _shaped(self, coef: Floats, intercept: float) -> tuple[Floats, Any]:
        return coef, intercept


@dataclass(frozen=True, slots=True)
class Clipped(ShownAsTable):
    """How many rows were clipped, and how many had a missing cell. Confidential: counts of people."""

    features: int
    labels: int
    missing: int = 0

    @classmethod
    def of(cls, rows: FixedRows) -> Clipped:
        """Count what the declared bounds clipped."""
        return cls(rows.clipped_x, rows.clipped_y, rows.missing)

    def __add__(self, other: Clipped) -> Clipped:
        return Clipped(self.features + other.features, self.labels + other.labels, self.missing + other.missing)

    def __repr__(self) -> str:
        return "Clipped(confidential)"  # a repr ends up in logs


@dataclass(frozen=True, slots=True, repr=False)
class ClippedFit(ShowsNoValue):
    """A linear fit on clipped rows, in units, and how many were clipped: what promised releases know in confidence."""

    linear: LinearFit | DualFit
    clipped: Clipped
    run: Any = None  #: of the mechanism, where a reading is asked for

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


def simulated_coefficients(estimator: Any, X: ArrayLike, y: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
    """Simulate one release: the coefficients in the user's units and, with an intercept, the intercept last."""
    if not isinstance(estimator, Promised):
        raise InvalidInput(f"AdaOPS and AdaSSP can be simulated, got {type(estimator).__name__}")
    thrown_away, rows = clone(estimator), np.asarray(X, dtype=np.float64)
    box = thrown_away._box(rows.shape[1])
    found = thrown_away._run(box, Window(box.rows(rows, np.asarray(y, dtype=np.float64)), simulated(rng)))
    coef, intercept = box.in_user_units(thrown_away._publish(found, box))
    return np.append(coef, intercept) if box.weight else coef
