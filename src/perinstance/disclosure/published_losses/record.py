"""What a publication of losses puts out: noisy counts of people by loss, and what can be read from them. Public."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from perinstance._version import __version__
from perinstance.checked_numbers import real_number
from perinstance.disclosure.published_losses.bounds_by_row import PublicTerms, bins_of, row_bounds
from perinstance.disclosure.published_losses.noisy_matrix import SplitPromise
from perinstance.errors import InvalidInput, RefusedModel
from perinstance.pairs import GaussianShift
from perinstance.pairs.kinds import Kind
from perinstance.record_tables import ShownAsTable

FORMAT, FORMAT_VERSION = "perinstance.losses", 1
SHOWN = (0.5, 0.9, 0.95, 0.99)  # quantiles that are written out


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
        found = bins_of(self.terms, row_bounds(self.terms, row, np.array([float(y)])), self.edges, self.losses_delta)
        return (*self.edges, math.inf)[int(found[0])]

    def summary(self) -> dict[str, Any]:
        """Return bins, counts, quantiles and promise as plain data: what a regulator's summary holds."""
        quantiles = [self.quantile(share) for share in SHOWN]
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
                for one in quantiles
            ],
        }

    def to_json(self) -> str:
        """Write everything that was published, noisy matrices and all, as one JSON text."""
        looks = () if self.terms is None else self.terms.looks
        told = {"format": FORMAT, "format_version": FORMAT_VERSION, "perinstance": __version__, "method": self.method}
        matrices = [
            {"frame": one.frame.tolist(), "matrix": one.matrix.tolist(), "margin": one.margin, "floor": one.floor}
            for one in looks
        ]
        return json.dumps({**told, **self.summary(), "matrices": matrices}, allow_nan=False)
