"""``publish_losses``: a noisy histogram of everybody's losses, under a promise of its own.

Losses depend on everybody's rows, and one person can move all of them. What is counted instead is, for each person, an
upper bound of their loss that is a function of their own row and of numbers that were published before: the draw of
the release and, for ridge regression, noisy looks at X'X. Then one person moves one count by one, whatever the table.
The promise is that of a few Gaussian looks, composed exactly; nothing about the data is assumed for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammainccinv

from perinstance.auditing.raw_tables import read_again, refuse_other_names, refuse_other_people
from perinstance.checked_numbers import positive, probability
from perinstance.disclosure.published_losses.bounds_by_row import Bins, PublicTerms, bins_of, checked_edges, row_bounds
from perinstance.disclosure.published_losses.noisy_matrix import Rows, SplitPromise, looks, people_of, squared_norms
from perinstance.disclosure.published_losses.record import PublishedLosses
from perinstance.disclosure.statements import statement
from perinstance.engines import Local
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, EIGENVALUES_ERROR, OWN_ROW_UP
from perinstance.pairs import GaussianShift
from perinstance.releases.base.log_ratios import Output, output_of
from perinstance.releases.base.own_row import KnowsOwnRow
from perinstance.releases.base.release import Mechanism
from perinstance.releases.promises.window import drawn

if TYPE_CHECKING:
    from perinstance.auditing import Audit


LOOKS = {"posterior": 2, "output": 1}  # at X'X, by family


def publish_losses(
    audit: Audit,
    published: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
    x_bound: float | None = None,
    edges: Sequence[float] | None = None,
    failure: float = 1e-4,
    ledger: Any = None,
    key: str = "",
    **columns: Any,
) -> PublishedLosses:
    """Publish how many people lost how much, with noise: (epsilon, delta) for everybody, whatever the table.

    Parameters
    ----------
    audit
        Of the people inside, by a posterior sample or by output perturbation of ridge regression, or by any release
        whose loss follows from one's own row (``statement``).
    published
        What the release published: the fitted release, a published model, or the numbers.
    X, y, columns
        The audited table, as ``audit`` took it.
    epsilon, delta
        The promise of this publication, which comes on top of what the release cost.
    x_bound
        For ridge regression: a bound of ``||x||``, declared without looking. Longer rows are not looked at (posterior
        samples) or refused (output perturbation).
    edges
        Losses that separate the bins, fixed in advance; None takes 25 of them from 0.001 to 10.
    failure
        The probability that any of the statements made from the noisy numbers is wrong.
    ledger, key
        A ``perinstance.Ledger`` that is charged before anything is drawn, and the name of this publication there.
    """
    release: Any = audit.release
    if not audit.inside:
        raise InvalidInput("losses are published of the people of the table; these are outsiders")
    mechanism: Mechanism = release.mechanism()
    ridge = mechanism.moved == "ridge" and mechanism.family in LOOKS and mechanism.noise == "gaussian"
    bound = _declared(mechanism, x_bound) if ridge else 0.0
    if not ridge and not isinstance(release, KnowsOwnRow):
        raise RefusedModel(
            f"nothing bounds a loss of {mechanism.name} by one's own row and published numbers, and one person can "
            "move everybody's: losses of ridge regression (posterior samples, output perturbation) can be published"
        )
    lines, looked = checked_edges(edges), LOOKS[mechanism.family] if ridge else 0
    split = SplitPromise.of(epsilon, delta, looked, probability("failure", failure))
    table = read_again(audit, X, y, **columns)
    refuse_other_names(published, table)
    sweep = Local(threads=1).sweep(table)
    try:  # whatever is wrong is said before anybody is charged
        if people_of(sweep) != len(audit):
            raise InvalidInput("the table and the audit have different numbers of people; pass the audited table")
        refuse_other_people(audit, table, sweep)  # the ledger charges those who were audited
        output = output_of(release, published, sweep.n_features + mechanism.fit_intercept) if ridge else None
        if ridge and mechanism.family == "output":
            _check_lengths(sweep, _rows(mechanism), bound)
        with _charged(ledger, key, audit, split):
            if output is None:
                terms, bins = None, _told_bins(sweep, published, lines, audit.delta)
            else:
                terms = _terms(sweep, output, mechanism, bound, split)
                bins = _bounded_bins(sweep, _rows(mechanism), terms, lines, audit.delta)
            true = np.bincount(bins, minlength=len(lines) + 1).tolist()
            counts = drawn(true, [split.noise] * len(true))
    finally:
        sweep.close()
    promised = getattr(release, "epsilon", None)  # by the release itself, to everybody
    holds = promised is not None and mechanism.promises and float(release.delta) <= audit.delta
    return PublishedLosses(
        method=mechanism.name,
        losses_delta=audit.delta,
        epsilon=split.epsilon,
        delta=split.delta,
        edges=lines,
        counts=tuple(counts.tolist()),
        noise=split.noise,
        failure=split.failure,
        split=split,
        terms=terms,
        ceiling=float(promised) if holds else math.inf,
    )


def _declared(mechanism: Mechanism, x_bound: Any) -> float:
    """Return the bound of a row, with the one of an intercept."""
    if x_bound is None:
        raise InvalidInput(
            "losses of ridge regression depend on everybody through X'X, which is looked at with noise: declare "
            "x_bound, a bound of every row's norm, without looking at the data"
        )
    square = positive("x_bound", x_bound) ** 2 + mechanism.fit_intercept
    return float(np.sqrt(square)) * BOUND_UP


def _charged(ledger: Any, key: str, audit: Audit, split: SplitPromise) -> Any:
    """Charge before anything is drawn; an interrupted publication stays reserved."""
    if ledger is None:
        return nullcontext()
    if audit.ids is None:
        raise InvalidInput("a ledger follows people by their ids; pass ids= to audit")
    pairs = GaussianShift(np.full(len(audit), split.distance), "upper")
    return ledger.reserve_pairs(audit.ids, pairs, key, mechanism="a noisy histogram of losses")


def _terms(sweep: Sweep, output: Output, mechanism: Mechanism, bound: float, split: SplitPromise) -> PublicTerms:
    p = sweep.n_features + mechanism.fit_intercept
    penalties = np.array([mechanism.alpha] * sweep.n_features + [0.0] * mechanism.fit_intercept)
    smallest, largest = _extremes(mechanism.precision)
    longest = 1.0 if mechanism.family == "posterior" else math.sqrt(largest) / mechanism.scale * OWN_ROW_UP
    return PublicTerms(
        family=mechanism.family,
        looks=looks(sweep, _rows(mechanism), penalties, bound, split),
        alpha=mechanism.alpha,
        intercept=mechanism.fit_intercept,
        noise=mechanism.scale / math.sqrt(smallest) * OWN_ROW_UP if smallest > 0 else math.inf,
        longest=longest,
        quantile=math.sqrt(2.0 * float(gammainccinv(p / 2, split.each))) * OWN_ROW_UP,  # of chi
        output=output.values,
        half=output.half,
    )


def _extremes(precision: Floats | None) -> tuple[float, float]:
    """Return a number below all eigenvalues of A, no less than 0, and one above."""
    if precision is None:
        return 1.0, 1.0
    values, off = np.linalg.eigvalsh(precision), EIGENVALUES_ERROR * float(np.linalg.norm(precision))
    return max(float(values[0]) - off, 0.0), float(values[-1]) + off


def _rows(mechanism: Mechanism) -> Rows:
    def rows(block: Block) -> Floats:
        X = np.asarray(block.X, dtype=np.float64)
        return np.column_stack([X, np.ones((len(X), int(mechanism.fit_intercept)))])

    return rows


def _check_lengths(sweep: Sweep, rows: Rows, bound: float) -> None:
    """Refuse a table that breaks its bound, before anything is charged or drawn. Said to the curator alone."""
    if sweep.fold(lambda block: int((squared_norms(rows(block)) > bound * bound * OWN_ROW_UP).sum())):
        raise InvalidInput(
            "rows of the table are longer than x_bound, and then nothing bounds a distance: declare a bound that holds "
            "for everybody who could be in the table, or clip rows by a recipe before the release"
        )


def _bounded_bins(sweep: Sweep, rows: Rows, terms: PublicTerms, edges: tuple[float, ...], delta: float) -> Bins:
    def answer(block: Block) -> Bins:
        bounds = row_bounds(terms, rows(block), np.asarray(block.y, dtype=np.float64))
        return bins_of(terms, bounds, edges, delta)

    return np.concatenate(list(sweep.map(answer)))


def _told_bins(sweep: Sweep, published: Any, edges: tuple[float, ...], delta: float) -> Bins:
    """Sort what each person could be told, one after the other."""

    def answer(block: Block) -> Bins:
        told = [statement(published, x, t, delta=delta).epsilon for x, t in zip(block.X, block.y, strict=True)]
        return np.searchsorted(np.asarray(edges), np.asarray(told, dtype=np.float64))

    return np.concatenate(list(sweep.map(answer)))
