"""Noisy gradient descent: DP-SGD for linear models, as a release with a promise and everybody's own loss (MATH 7)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.checked_numbers import is_number, one_of, positive, whole_number
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.event_log import LOG
from perinstance.folds.block import Block, GatheredRows, gather, in_order_of
from perinstance.folds.class_labels import classes_of
from perinstance.folds.sweep import People, Sweep
from perinstance.inference.published_inference import PublishedInference
from perinstance.inference.table import About
from perinstance.models.interface import Movement, Problem
from perinstance.models.linear.ridge import LinearProblem
from perinstance.models.losses.penalised_objective import SmoothObjective
from perinstance.models.problem_registry import problem_of
from perinstance.models.smooth.problem import SmoothProblem
from perinstance.models.softmax import ClassifierProblem
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import STEP_UP
from perinstance.pairs.base import Pairs
from perinstance.pairs.kinds import Method
from perinstance.releases.base.arguments import rows_as_they_are, validated
from perinstance.releases.base.log_ratios import (
    LogRatios,
    OwnRowLoss,
    PublicFacts,
    check_same_release,
    one_pair,
    one_row,
    output_of,
    refuse_outside,
)
from perinstance.releases.base.publishing import AnsweringModel, Law, exact_equations, is_classifier
from perinstance.releases.base.release import Mechanism, estimator_words
from perinstance.releases.base.rows_per_person import (
    codes_of_ids,
    largest_in_size,
    largest_sums,
    refuse_more_rows,
    refuse_rows_of_people,
    rows_that_count,
    rows_words,
    starts_of,
    used_rows,
)
from perinstance.releases.descent.clipped_steps import (
    DescentFit,
    Steps,
    SummedGradients,
    coded_targets,
    folded_path,
    longest_gradients,
    objective_of,
    path_of,
    reading,
)
from perinstance.releases.descent.realised_path import clipped_log_ratios, last_log_ratios, unclipped_log_ratios
from perinstance.releases.descent.ridge_iterates import RidgeDescent
from perinstance.releases.descent.step_losses import DescentPromise, PersonalBudget, equal_steps, largest_distance
from perinstance.releases.promises.class_labels import (
    classes_of_labels,
    labels_as_they_are,
    numbers_of_classes,
    signs,
)
from perinstance.releases.promises.promise import check_promise
from perinstance.sampling import GRID, ExactDescent, draw
from perinstance.sampling.grid_draw import grid_exponent

PUBLISHED = ("last", "all")
#: why all rows are held at once, and what to do instead
REALISED = "realised losses of a descent are summed in ball arithmetic, everybody's at once; audit it without them"
FOLLOWED = "a reading under a filter follows everybody's budget at once; use method='upper'"


NO_SLOPE = (
    "NoisyDescent publishes noisy gradients, and nothing that tells how they change with the coefficients: standard "
    "errors would need a noisy Hessian at the last step, about 7% of the squared budget of a logistic regression. "
    "Publish with AdaSSP or PrivateLogisticRegression, whose intervals are free"
)


class NoisyDescent(AnsweringModel):
    """``theta_{t+1} = theta_t - learning_rate (noisy sum of clipped gradients / rate + gradient of the penalty)``.

    The start is zero. Sums are taken, not means, so the number of people is used nowhere: a good learning rate is about
    one over the largest eigenvalue of the Hessian of the whole sum. The two classes of a classifier are declared.

    What may be claimed about a person (``pi.audit``):

    - by default an ``"upper"`` bound from their own row, which holds in every data set: their gradient is never longer
      than ``clip``, nor, for losses of bounded slope, than that bound times ``||(x, 1)||`` (logistic regression: 1);
    - ``method="estimate"``: a reading of the lengths along the iterates, no guarantee. They are those in ``path_`` of a
      fitted release with ``publish="all"``, else those of a descent without noise. Below rate 1 lengths are rounded up
      to 128 levels;
    - ridge regression without clipping (``clip=None``, ``rate=1``): the loss of the last iterate, or of all of them.
      Both are Gaussian with and without the person: ``"exact"`` for up to 16 coefficients (of all iterates: steps times
      coefficients), beyond ``"estimate"``, whose rounding is not bounded. No promise holds then.

    Parameters
    ----------
    estimator
        ``Ridge``, ``LogisticRegression`` (two classes), ``LinearSVC``, or a smooth objective or problem of
        ``perinstance.models``; None is ``Ridge(alpha=1.0)``.
    steps
        How many steps are taken.
    learning_rate
        The length of a step, per unit of the summed gradient.
    clip
        The longest gradient of a person; longer ones are shrunk to it. None clips nothing.
    noise
        The standard deviation of the noise on each step's sum of gradients.
    rate
        The probability with which each person is in a step's (Poisson) sample.
    publish
        ``"last"``: the last iterate only. ``"all"``: also ``path_``, all iterates.
    epsilon, delta
        Instead of ``noise``: the promise. The smallest noise that keeps it is taken.
    filter
        ``(order, budget)``: nobody's Renyi divergence of that order exceeds the budget over all steps. Everybody's
        gradient is clipped to their own length at the last public time, and whoever cannot pay for a step is left out
        of it; nobody is told. At rate 1 the sum of squared distances is kept, at most ``2 budget / order``.
    refresh
        Every so many steps is a public time, at which the filter sets everybody's own clip anew.
    grid
        The public power of two to whose multiples noisy sums and coefficients are rounded.
    classes
        Of a classifier: the two classes, as the labels are written; the second is the one whose probability is
        modelled. None: 0 and 1, for labels that are numbers. A row with another label counts as absent; an audit
        wants such rows left out.
    rows_per_person
        How many rows of a person are used at most, where people may have several; ``fit`` is then given ``ids``. Of who
        has more so many are drawn; the sum of a person's gradients is clipped as one, and people are sampled, not rows,
        so that the noise is that of one row each. None: a row is a person, and an id that repeats is refused.

    Attributes
    ----------
    coef_, intercept_, classes_
        The last iterate, and the classes of a classifier.
    path_
        The iterates, the first (zero) and the last included, if ``publish="all"``.
    noise_, privacy_
        The noise that was added, and what it promises everybody (None without a clip).

    Examples
    --------
    >>> import perinstance as pi
    >>> release = pi.NoisyDescent(steps=50, clip=1.0, epsilon=1.0, delta=1e-6)
    >>> round(release.promise().epsilon(1e-6), 6)
    1.0
    """

    def __init__(
        self,
        estimator: Any = None,
        steps: int = 50,
        learning_rate: float = 0.01,
        clip: float | None = 1.0,
        noise: float | None = None,
        rate: float = 1.0,
        publish: str = "last",
        epsilon: float | None = None,
        delta: float | None = None,
        filter: tuple[float, float] | None = None,
        refresh: int = 1,
        grid: float = GRID,
        classes: tuple[Any, Any] | None = None,
        rows_per_person: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.classes = classes
        self.steps = steps
        self.learning_rate = learning_rate
        self.clip = clip
        self.noise = noise
        self.rate = rate
        self.publish = publish
        self.epsilon = epsilon
        self.delta = delta
        self.filter = filter
        self.refresh = refresh
        self.grid = grid
        self.rows_per_person = rows_per_person

    def problem(self) -> Problem:
        """Return the model to descend: ridge regression, or a smooth objective of one linear predictor."""
        if self.estimator is None:
            return LinearProblem(1.0, fit_intercept=True)
        if isinstance(self.estimator, SmoothObjective):
            return SmoothProblem(self.estimator)
        problem = problem_of(self.estimator)
        return problem.binary() if isinstance(problem, ClassifierProblem) else problem

    def promise(self, n_features: int | None = None) -> DescentPromise:
        """Return what holds for everybody, before any data is seen; it is the same for any number of features."""
        steps = self.declared_steps()
        if self.clip is None:
            raise InvalidInput("without a clip nothing is promised: gradients have no bound; pass clip=1.0")
        distance = steps.clip / steps.noise * STEP_UP
        return DescentPromise(steps.rate, distance, steps.count, budget=steps.filter)

    def mechanism(self) -> Mechanism:
        """Describe the release: steps, clip, noise and rate are declared."""
        steps, problem = self.declared_steps(), self.problem()
        what = "the last iterate" if self.publish == "last" else "all iterates"
        words: list[str | float] = [f"{what} of {steps.count:,} noisy gradient steps on "]
        words += estimator_words(self.estimator)
        words += [", without clipping"] if self.clip is None else [", clipped at ", steps.clip]
        words += [", sampled at rate ", steps.rate] if steps.rate < 1.0 else []
        words += [", plus Gaussian noise of scale ", steps.noise]
        if steps.filter is not None:
            order, budget = steps.filter.order, steps.filter.budget
            words += [", under a personal Renyi filter of order ", order, " and budget ", budget]
        return Mechanism(
            name="NoisyDescent",
            moved=problem.moved,
            family="adaptive",
            noise="gaussian",
            scale=steps.noise,
            words=(*words, *rows_words(self)),
            alpha=float(problem.alpha) if isinstance(problem, LinearProblem) else 0.0,
            fit_intercept=objective_of(problem).fit_intercept,
            promises=self.clip is not None,
            own_row=self.clip is not None and self.rows_per_person is None,
        )

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> DescentFit:
        """Minimise with everyone; for readings also descend without noise, where no path was published."""
        steps, problem = self.declared_steps(), self.problem()
        objective = objective_of(problem)
        labels = numbers_of_classes(self.classes) if is_classifier(problem) else None
        if labels is not None and len(sweep.fold(classes_of).labels) < 2:
            # the minimum would be at infinity: least squares tell leverages and residuals, the losses need neither
            problem = LinearProblem(1.0, objective.fit_intercept)
        fit = DescentFit(problem, problem.fit(sweep, None, "estimate"), labels=labels)
        if self.clip is None:
            return replace(fit, descent=self._unclipped(sweep))
        if method != "estimate":
            return fit
        if hasattr(self, "path_"):
            return replace(fit, path=self.path_)
        if steps.filter is None:
            return replace(fit, path=folded_path(objective, sweep, steps, labels))
        rows: GatheredRows = sweep.fold(partial(gather, why=FOLLOWED))
        X, y = rows.table()
        people = SummedGradients(objective, X, coded_targets(y, labels))
        return replace(fit, path=path_of(people, steps, noisy=False))

    def uncertainty(self, about: About) -> PublishedInference:
        """Refuse: noisy gradients without their slope say where the path went, and not how far the fit is."""
        return PublishedInference(None, (), NO_SLOPE)

    def people(self, fit: DescentFit, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block."""
        return self._people(fit, block, inside, fit.model.movement(fit.inner, block, inside))

    def refine(self, fit: DescentFit, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the people whose leverage is near one."""
        return self._people(fit, block, inside, replace(fit.model.refine(fit.inner, sweep, block, inside), open=None))

    def _people(self, fit: DescentFit, block: Block, inside: bool, move: Movement) -> People:
        if fit.descent is not None:
            pairs: Pairs = fit.descent.pairs(block.X, block.y, inside)
        elif fit.path is not None:
            pairs = reading(objective_of(self.problem()), fit, block, self.declared_steps())
        else:
            pairs = self._bounded_pairs(longest_gradients(objective_of(self.problem()), block.X))
        return People(move.leverage, move.residual, pairs, move.open)

    def persons(self, fit: DescentFit, block: Block, starts: NDArray, inside: bool = True) -> People:
        """Map: one pair for each person, whose rows stand together in the block and begin at ``starts``.

        The sum of their gradients is clipped as one: its length is at most the clip, and at most the sum of the longest
        possible ones of the rows that are used. Leverage and residual are the largest in size of their rows.
        """
        steps, objective = self.declared_steps(), objective_of(self.problem())
        people, counts = starts_of(len(block), starts)
        if self.clip is None:
            raise RefusedModel(
                "what unclipped steps cost a person with several rows is not known; pass clip=1.0, or make one row of "
                "each person's rows"
            )
        if self.rows_per_person is None:
            raise RefusedModel(
                "NoisyDescent without rows_per_person clips and samples rows, and what it costs a person with several "
                "is not known; declare rows_per_person"
            )
        if fit.path is None:
            each, k = np.minimum(longest_gradients(objective, block.X), steps.clip), rows_that_count(self, len(block))
            pairs = self._bounded_pairs(largest_sums(each, people, len(counts), k))
        else:
            refuse_more_rows(self, counts)
            if steps.filter is not None:
                raise RefusedModel("a reading under a filter follows rows, not people; use method='upper'")
            pairs = reading(objective, fit, block, steps, starts)
        move = fit.model.movement(fit.inner, block, inside)
        leverage, residual = (largest_in_size(part, people, starts) for part in (move.leverage, move.residual))
        return People(leverage, residual, pairs)

    def _bounded_pairs(self, longest: Floats) -> Pairs:
        """Return pairs that hold whatever the path and the others: no step has a longer gradient, before its clip."""
        steps = self.declared_steps()
        distance = np.minimum(longest, steps.clip) / steps.noise * STEP_UP
        return equal_steps(steps.rate, distance, steps.count, budget=steps.filter)

    def own_row_loss(self, x: Floats, y: float, delta: float, facts: PublicFacts) -> OwnRowLoss:
        """Return the loss of one person from their own row, whatever the path and the others."""
        if self.clip is None:
            raise RefusedModel("without a clip a loss depends on the others' rows: there is nothing that may be told")
        refuse_rows_of_people(self, "the loss that follows from one row")
        return one_pair(self._bounded_pairs(longest_gradients(objective_of(self.problem()), one_row(x))), delta, ())

    def log_ratios(self, sweep: Sweep, published: Any, outside: Sweep | None = None) -> LogRatios:
        """Return ``log q/p`` of everybody at a published path, or at the last iterate where nothing is clipped."""
        refuse_outside(outside)
        refuse_rows_of_people(self, "the realised loss")
        steps, objective = self.declared_steps(), objective_of(self.problem())
        rows: GatheredRows = sweep.fold(partial(gather, why=REALISED))
        X, y = rows.table()
        width = objective.width(X.shape[1])
        if self.clip is None and self.publish == "last":
            return last_log_ratios(self._unclipped(sweep), X, y, output_of(self, published, width))
        if steps.rate != 1.0:
            raise RefusedModel(
                "a step of a Poisson sample is a mixture over everybody's presence in it, and the release keeps "
                "nobody's: the realised loss of a descent is known at rate 1"
            )
        if self.publish != "all":
            raise RefusedModel(
                "the last iterate of clipped steps has no density in closed form; publish='all' has, and a posterior "
                "sample"
            )
        if not hasattr(published, "path_"):
            raise InvalidInput("a realised loss of a descent is that of its path; pass the fitted release itself")
        check_same_release(self, published)
        path = published.path_
        if path.shape != (steps.count + 1, width) or not np.isfinite(path).all():
            raise InvalidInput("path_ must be the iterates of the audited release, the first and the last included")
        if self.clip is None:
            return unclipped_log_ratios(self._unclipped(sweep), X, y, path, steps.grid)
        labels = numbers_of_classes(self.classes) if is_classifier(self.problem()) else None
        return clipped_log_ratios(objective, X, coded_targets(y, labels), path, steps)

    def _unclipped(self, sweep: Sweep) -> RidgeDescent:
        steps, problem = self.declared_steps(), _ridge(self.problem())
        declared = steps.count, steps.learning_rate, steps.noise, self.publish == "all"
        return RidgeDescent.of(sweep, declared, float(problem.alpha), problem.fit_intercept)

    def ideal(self, X: NDArray, y: Floats) -> ExactDescent:
        """Return what ``fit`` draws from where nothing is clipped: iterates that are Gaussian, exactly."""
        steps, problem = self.declared_steps(), self.problem()
        if self.clip is not None:
            raise RefusedModel("a clipped descent has no law in closed form: each step is drawn by itself")
        equations = exact_equations(X, y, float(_ridge(problem).alpha), _ridge(problem).fit_intercept)
        return ExactDescent(equations, steps.learning_rate, steps.noise, steps.count, self.publish == "all")

    def law(self, fit: DescentFit) -> Law:
        """Refuse: the iterates are not the minimum plus noise."""
        raise RefusedModel("the law of an iterate is not that of the minimum plus noise; simulate fits instead")

    def fit(self, X: Any, y: Any, ids: Any = None, **refused: Any) -> NoisyDescent:
        """Descend, and publish the last iterate (and all of them if asked to); ``ids`` say whose row each is.

        With a clip, nothing that a row holds is a reason to refuse, because a refusal would tell: a row with a missing
        or infinite cell, or a target outside the domain of the loss or the declared classes, is a row of which the
        gradient is what it is, and counts as zero where it is no number.
        """
        self._begin(refused)
        steps, objective, labels, table = self.declared_steps(), objective_of(self.problem()), None, X
        if is_classifier(self.problem()):
            y = labels_as_they_are(self, X, y)
            two = classes_of_labels(self.classes, y)
            labels, y = np.array(two), (signs(y, two) + 1.0) / 2.0
        if self.clip is None:
            y = y if y is None else in_order_of(X, y)
            X, y = validated(self, X, y, y_numeric=True, dtype=(np.float64, np.float32))
            used = used_rows(self, table, ids, len(X))
            values = draw(self.ideal(X[used], np.asarray(y, dtype=np.float64)[used]), self.grid).values
            path = np.vstack(
                [np.zeros((1, objective.width(X.shape[1]))), values.reshape(-1, objective.width(X.shape[1]))]
            )
        else:
            X, y = rows_as_they_are(self, X, y)
            used = used_rows(self, table, ids, len(X))
            people = SummedGradients(objective, X, y)
            if self.rows_per_person is not None:
                people = SummedGradients.of_people(objective, X[used], y[used], codes_of_ids(table, ids)[used])
            path = path_of(people, steps)
        # whatever happens from here on knows the rows by noisy sums only
        with np.errstate(all="ignore"):
            last = np.round(path[-1] / self.grid) * self.grid
        if not np.isfinite(last).all():
            raise NumericalTrouble("the descent ran away to infinity; use a smaller learning_rate")
        self._publish(last, y if labels is None else np.array([0.0, 1.0]))  # declared, whichever occur
        if labels is not None:
            self.classes_ = labels
        if self.publish == "all":
            self.path_ = path
        elif hasattr(self, "path_"):
            del self.path_  # of an earlier fit
        self.noise_ = steps.noise
        self.privacy_ = None if self.clip is None else self.promise()
        LOG.info("NoisyDescent published one draw")
        return self

    def declared_steps(self) -> Steps:
        """Validate everything that is declared; what is not said is computed."""
        count = whole_number("steps", self.steps, 1, 10**7, 100)
        if not is_number(self.rate) or not 0 < self.rate <= 1:
            raise InvalidInput("rate must lie in (0, 1]: the probability of being sampled; try rate=1.0")
        rate, one = float(self.rate), one_of("publish", self.publish, PUBLISHED)
        clip = np.inf if self.clip is None else positive("clip", self.clip)
        if self.clip is None and (rate != 1.0 or not isinstance(self.problem(), LinearProblem)):
            raise InvalidInput(
                f"clip=None is possible for ridge regression at rate=1 only, where {one} iterates have an exact law; "
                "pass clip=1.0"
            )
        learning_rate = positive("learning_rate", self.learning_rate)
        noise = self._noise(count, rate, float(clip))
        grid_exponent(self.grid)  # refused here, before anything is drawn
        refresh = whole_number("refresh", self.refresh, 1, 10**7, 1)
        if self.filter is not None and self.clip is None:
            raise InvalidInput("a filter needs a clip: without one no step has a cost; try clip=1.0")
        if self.filter is not None and self.noise is None:
            raise InvalidInput("pass noise with a filter: the promise follows from the filter's order and budget")
        budget = None if self.filter is None else PersonalBudget.of(self.filter, refresh)
        return Steps(count, learning_rate, float(clip), noise, rate, float(self.grid), budget)

    def _noise(self, count: int, rate: float, clip: float) -> float:
        asked = self.epsilon is not None or self.delta is not None
        if (self.noise is None) != asked:
            raise InvalidInput("pass either noise, or epsilon and delta: the noise follows from a promise")
        if self.noise is not None:
            return positive("noise", self.noise)
        if self.clip is None:
            raise InvalidInput("epsilon and delta need a clip: without one nothing can be promised; try clip=1.0")
        epsilon, delta = check_promise(self.epsilon, self.delta)
        distance = largest_distance(rate, count, epsilon, delta)
        return float(np.nextafter(clip / distance * (STEP_UP * STEP_UP), np.inf))


def _ridge(problem: Problem) -> LinearProblem:
    if not isinstance(problem, LinearProblem):
        raise RefusedModel("without clipping ridge regression alone is descended")
    return problem
