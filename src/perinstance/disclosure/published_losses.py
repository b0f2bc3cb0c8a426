"""``publish_losses``: a noisy histogram of everybody's losses, under a promise of its own.

Losses depend on everybody's rows, and one person can move all of them. What is counted instead is, for each person, an
upper bound of their loss that is a function of their own row and of numbers that were published before: the draw of
the release and, for ridge regression, a noisy look at X'X. Then one person moves one count by one, whatever the table.
The promise is that of Gaussian noise, composed exactly; nothing about the data is assumed for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammainccinv, ndtri

from perinstance._version import __version__
from perinstance.auditing.raw_tables import read_again, refuse_other_names, refuse_other_people
from perinstance.checked_numbers import positive, probability, real_number
from perinstance.disclosure import loss_bounds
from perinstance.disclosure.loss_bounds import Bins, PublicTerms, Rows, SplitPromise, checked_edges, row_bounds
from perinstance.disclosure.statements import statement
from perinstance.engines import Local
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, EIGENVALUES_ERROR, OWN_ROW_UP
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Kind
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.log_ratios import KnowsOwnRow, Output, output_of
from perinstance.releases.base.release import Mechanism
from perinstance.releases.promises.promise import noise_scale
from perinstance.sampling import GRID, Noisy, draw

if TYPE_CHECKING:
    from perinstance.auditing import Audit

FORMAT, FORMAT_VERSION = "perinstance.losses", 1
SHOWN = (0.5, 0.9, 0.95, 0.99)  # quantiles that are written out
BY_LOOK = ("posterior", "output")  #: families that X'X is looked at for


@dataclass(frozen=True, slots=True)
class LossQuantile(ShownAsTable):
    """At least ``share`` of the people lose at most ``high``; ``low`` is where the noise alone could have put it."""

    share: float
    low: float  #: an edge, or 0: the same quantile of the published bounds (not of the losses) is no lower
    high: float  #: an edge, or infinity: the quantile of the losses is no higher


@dataclass(frozen=True, slots=True, eq=False)
class PublishedLosses(ShownAsTable):
    """A noisy histogram of bounds of everybody's loss. It may leave the room; what it cost is its promise.

    All statements hold together but for the probability ``failure``.
    """

    method: str  #: the release whose losses these are
    losses_delta: float  #: the delta of these losses
    epsilon: float  #: what this publication promises to everybody, besides what the release cost them
    delta: float
    edges: tuple[float, ...]  #: upper ends of the bins; the last bin is open
    counts: tuple[float, ...]  #: people whose bound is in each bin, plus noise
    noise: float  #: standard deviation of each count
    failure: float
    split: SplitPromise
    terms: PublicTerms | None  #: what bounds a person's loss besides their row; None where only the release does
    ceiling: float = math.inf  #: what the release promised to everybody, where that holds at ``losses_delta``

    @property
    def kind(self) -> Kind:
        """Everybody is counted by an upper bound of their loss."""
        return "upper"

    @property
    def people(self) -> float:
        """The number of people, with noise."""
        return math.fsum(self.counts)

    def pairs(self, n: int) -> GaussianShift:
        """Return what the publication cost each of n people: a Gaussian shift that holds for everybody."""
        return GaussianShift(np.full(n, self.split.distance), "upper")

    def quantile(self, share: float) -> LossQuantile:
        """Read a quantile: the first edge below which more people are counted than noise could explain.

        The number of people below an edge, less the share q of all, is off by ``(1-q) A - q B``, A the noise of the k
        bins below the edge and B that of the others; both are bounded, for every edge, so it holds for all q at once.
        """
        q = real_number("share", share)
        if not 0 < q < 1:
            raise InvalidInput(f"share must lie in (0, 1), got {q:g}; try 0.95")
        bins = len(self.counts)
        below = np.cumsum(self.counts)[:-1] - q * self.people
        k = np.arange(1, bins)
        error = self.noise * ((1 - q) * np.sqrt(k) + q * np.sqrt(bins - k))
        margin = -float(ndtri(self.split.each / (4 * (bins - 1)))) * error
        reached, possible = np.flatnonzero(below >= margin), np.flatnonzero(below >= -margin)
        high = min(self.edges[int(reached[0])] if len(reached) else math.inf, self.ceiling)
        first = int(possible[0]) if len(possible) else bins - 1
        return LossQuantile(q, min(self.edges[first - 1], high) if first else 0.0, high)

    def own_bound(self, x: Any, y: float = 0.0) -> float:
        """Return the edge below which the loss of a person with this row is: from their row and this record alone."""
        if self.terms is None:
            raise RefusedModel("what may be told to a person about this release is perinstance.disclosure.statement")
        row = np.asarray(x, dtype=np.float64).reshape(1, -1)
        row = np.column_stack([row, np.ones((1, int(self.terms.intercept)))])
        if row.shape[1] != len(self.terms.output) or not np.isfinite(row).all():
            raise InvalidInput("a person's row must be finite numbers, one per feature of the release")
        found = loss_bounds.bins_of(
            self.terms, row_bounds(self.terms, row, np.array([float(y)])), self.edges, self.losses_delta
        )
        return (*self.edges, math.inf)[int(found[0])]

    def summary(self) -> dict[str, Any]:
        """Return bins, counts, quantiles and promise as plain data: what a regulator's summary holds."""
        return {
            "losses_delta": self.losses_delta,
            "kind": self.kind,
            "promise": {"epsilon": self.epsilon, "delta": self.delta},
            "edges": list(self.edges),
            "counts": [round(count) for count in self.counts],
            "noise": self.noise,
            "failure": self.failure,
            "quantiles": [
                {"share": one.share, "low": one.low, "high": one.high if math.isfinite(one.high) else None}
                for one in map(self.quantile, SHOWN)
            ],
        }

    def to_json(self) -> str:
        """Write everything that was published, noisy matrices and all, as one JSON text."""
        looks = () if self.terms is None else (self.terms.look,)
        told = {"format": FORMAT, "format_version": FORMAT_VERSION, "perinstance": __version__, "method": self.method}
        matrices = [{"matrix": one.matrix.tolist(), "margin": one.margin, "floor": one.floor} for one in looks]
        return json.dumps({**told, **self.summary(), "matrices": matrices}, allow_nan=False)


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
    if audit.n_rows is not None:
        raise RefusedModel("losses of people with several rows are not published: one row's bound is none of theirs")
    mechanism: Mechanism = release.mechanism()
    ridge = mechanism.moved == "ridge" and mechanism.family in BY_LOOK and mechanism.noise == "gaussian"
    bound = _declared(mechanism, x_bound) if ridge else 0.0
    if not ridge and not isinstance(release, KnowsOwnRow):
        raise RefusedModel(
            f"nothing bounds a loss of {mechanism.name} by one's own row and published numbers, and one person can "
            "move everybody's: losses of ridge regression (posterior samples, output perturbation) can be published"
        )
    lines, split = checked_edges(edges), SplitPromise.of(epsilon, delta, ridge, probability("failure", failure))
    table = read_again(audit, X, y, **columns)
    refuse_other_names(published, table)
    sweep = Local(threads=1).sweep(table)
    try:  # whatever is wrong is said before anybody is charged
        if sweep.fold(lambda block: len(block)) != len(audit):
            raise InvalidInput("the table and the audit have different numbers of people; pass the audited table")
        refuse_other_people(audit, table, sweep)  # the ledger charges those who were audited
        output = output_of(release, published, sweep.n_features + mechanism.fit_intercept) if ridge else None
        if ridge and mechanism.family == "output":
            long = bound * bound * OWN_ROW_UP
            if sweep.fold(lambda block: int((loss_bounds.squared_norms(_rows(mechanism)(block)) > long).sum())):
                raise InvalidInput(  # said to the curator alone
                    "rows of the table are longer than x_bound, and then nothing bounds a distance: declare a bound "
                    "that holds for everybody who could be in the table, or clip rows by a recipe before the release"
                )
        charge: Any = nullcontext()
        if ledger is not None:  # before anything is drawn; an interrupted publication stays reserved
            if audit.ids is None:
                raise InvalidInput("a ledger follows people by their ids; pass ids= to audit")
            pairs = GaussianShift(np.full(len(audit), split.distance), "upper")
            charge = ledger.reserve_pairs(audit.ids, pairs, key, mechanism="a noisy histogram of losses")
        with charge:
            terms = None if output is None else _terms(sweep, output, mechanism, bound, split)
            bins = _bins(sweep, published, _rows(mechanism), terms, lines, audit.delta)
            true = np.bincount(bins, minlength=len(lines) + 1).tolist()
            counts = draw(Noisy(true, [split.noise] * len(true))).values
    finally:
        sweep.close()
    promised: Any = getattr(release, "epsilon", None)  # by the release itself, to everybody
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


def _terms(sweep: Sweep, output: Output, mechanism: Mechanism, bound: float, split: SplitPromise) -> PublicTerms:
    p = sweep.n_features + mechanism.fit_intercept
    penalties = np.array([mechanism.alpha] * sweep.n_features + [0.0] * mechanism.fit_intercept)
    A, smallest, largest = mechanism.precision, 1.0, 1.0
    if A is not None:  # a number below all its eigenvalues, no less than 0, and one above
        values, off = np.linalg.eigvalsh(A), EIGENVALUES_ERROR * float(np.linalg.norm(A))
        smallest, largest = max(float(values[0]) - off, 0.0), float(values[-1]) + off
    longest = 1.0 if mechanism.family == "posterior" else math.sqrt(largest) / mechanism.scale * OWN_ROW_UP
    # the matrix is looked at once, with exact draws; rows that were scaled to the bound may round above it
    square = bound * bound * OWN_ROW_UP * OWN_ROW_UP
    scale, tail = noise_scale(square, split.matrix), math.sqrt(2.0 * p) + math.sqrt(-2.0 * math.log(split.each))
    noisy = loss_bounds.noisy_gram(sweep, _rows(mechanism), p, square, scale)
    return PublicTerms(
        family=mechanism.family,
        look=loss_bounds.bounded(noisy, penalties, (scale * tail + p * GRID) * BOUND_UP),
        alpha=mechanism.alpha,
        intercept=mechanism.fit_intercept,
        noise=mechanism.scale / math.sqrt(smallest) * OWN_ROW_UP if smallest > 0 else math.inf,
        longest=longest,
        quantile=math.sqrt(2.0 * float(gammainccinv(p / 2, split.each))) * OWN_ROW_UP,  # of chi
        output=output.values,
        half=output.half,
    )


def _rows(mechanism: Mechanism) -> Rows:
    def rows(block: Block) -> Floats:
        X = np.asarray(block.X, dtype=np.float64)
        return np.column_stack([X, np.ones((len(X), int(mechanism.fit_intercept)))])

    return rows


def _bins(
    sweep: Sweep, published: Any, rows: Rows, terms: PublicTerms | None, edges: tuple[float, ...], delta: float
) -> Bins:
    """Sort everybody by a bound of their loss, or by what they could be told, where only the release bounds it."""

    def answer(block: Block) -> Bins:
        if terms is not None:
            bounds = row_bounds(terms, rows(block), np.asarray(block.y, dtype=np.float64))
            return loss_bounds.bins_of(terms, bounds, edges, delta)
        told = [statement(published, x, t, delta=delta).epsilon for x, t in zip(block.X, block.y, strict=True)]
        return np.searchsorted(np.asarray(edges), np.asarray(told, dtype=np.float64))

    return np.concatenate(list(sweep.map(answer)))
