"""What privacy says about generalisation: on-average and cross-domain bounds from the losses, mended (MATH 3).

For a loss function with values in [0, 1], a data set Z of n - 1 people and two more people z', z'' (stability),

    |E_{A([Z,z'])} l - E_{A([Z,z''])} l| <= e^{eps' + eps''} - 1 + delta' + e^{eps'} delta''.

Averaged over Z ~ D^(n-1), z' ~ D, z'' ~ D' it bounds ``|E (1/n) sum_i w_i l(theta, z_i) - E_{z ~ D'} l(theta, z)|``,
with w the importance weights dD'/dD (w = 1 where D' = D: plain generalisation):

    gap <= E_Z[ E_D[e^eps | Z] E_D'[e^eps | Z] ] - 1 + E_D delta + E_Z[ E_D[e^eps | Z] E_D'[delta | Z] ].

By Cauchy-Schwarz and the arithmetic mean it is at most
``(E_D e^{2 eps} + E_D' e^{2 eps})/2 - 1 + delta (1 + E_D e^eps)`` at a common delta. A sharper one needs no epsilon:
``gap <= E_D TV + E_D' TV`` (triangle inequality), TV the total variation of each pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.pairs.kinds import Kind, weakest
from perinstance.record_tables import ShownAsTable


@dataclass(frozen=True, slots=True)
class GeneralizationBound(ShownAsTable):
    """Bounds of the (cross-domain) generalisation gap of a loss with values in [0, 1]."""

    bound: float  #: from e^eps, conditionally on the data set
    simple: float  #: from E e^{2 eps}: weaker, needs no conditioning
    total_variation: float | None  #: from the total variations, when they were given
    standard_error: float  #: of ``bound``, over the data sets; NaN for a single one
    datasets: int
    people: int
    kind: Kind  #: "upper" when the averages are of bounds, over the whole population; else "estimate"
    assumptions: tuple[str, ...]


def stability(epsilon: ArrayLike, epsilon_other: ArrayLike, delta: ArrayLike, delta_other: ArrayLike) -> Floats:
    """``e^{eps' + eps''} - 1 + delta' + e^{eps'} delta''``: by how much replacing z' by z'' changes a mean loss.

    >>> float(stability(0.1, 0.2, 0.0, 0.0).round(4))
    0.3499
    """
    e1, e2, d1, d2 = (real_values("losses and deltas", a) for a in (epsilon, epsilon_other, delta, delta_other))
    if not all((a >= 0).all() for a in (e1, e2, d1, d2)):
        raise InvalidInput("losses and deltas must be numbers >= 0")
    with np.errstate(over="ignore", invalid="ignore"):
        change = np.expm1(e1 + e2) + d1 + np.where(d2 > 0, np.exp(e1) * d2, 0.0)
    return np.minimum(change, 1.0)


def generalization(
    epsilon: ArrayLike,
    delta: float,
    *,
    epsilon_target: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    tv: ArrayLike | None = None,
    tv_target: ArrayLike | None = None,
    population: bool = False,
    kind: Kind = "upper",
) -> GeneralizationBound:
    """Bound the generalisation gap from losses of people who join data sets.

    ``epsilon`` are (data sets, people) losses at delta of people drawn from D who would join each data set; one row for
    a single data set. ``epsilon_target`` are those of people drawn from another population D' (None: D' = D);
    importance weights dD'/dD of the people of ``epsilon`` may take its place. ``tv`` and ``tv_target`` are their total
    variations (``pairs.tv()``), for the sharper bound.

    ``population``: the rows are the whole population with its probabilities, not a sample, so that the answer is an
    upper bound. ``kind`` is that of the losses and total variations; numbers alone are taken for bounds.
    """
    eps = _table("epsilon", epsilon)
    if not 0 <= delta < 1:
        raise InvalidInput(f"delta must lie in [0, 1), got {delta:g}")
    if weights is not None and epsilon_target is not None:
        raise InvalidInput("pass weights or epsilon_target, not both")
    w = None if weights is None else _shaped("weights", weights, eps.shape)
    if w is not None and not ((w >= 0) & np.isfinite(w)).all():
        raise InvalidInput("weights must be finite and >= 0: the density of the target over that of the data")
    target = eps if epsilon_target is None else _table("epsilon_target", epsilon_target)
    if len(target) != len(eps):
        raise InvalidInput(
            f"epsilon and epsilon_target must be about the same data sets, got {len(eps)}, {len(target)}"
        )
    same = epsilon_target is None and w is None
    n, k = eps.shape
    with np.errstate(over="ignore", invalid="ignore"):
        # E_D[e^eps] E_D'[e^eps] - 1 + delta + E_D[e^eps] E_D' delta of each data set
        E1, E2 = np.exp(eps), np.exp(target)
        here = E1.mean(axis=1)
        product = here * (E2 if w is None else w * E2).mean(axis=1)
        if epsilon_target is None and not population and k > 1:  # z' and z'' are different people: no pairs (i, i)
            diagonal = (E1**2 if w is None else w * E1**2).sum(axis=1)
            product = (product * k**2 - diagonal) / (k * (k - 1))
        per_set = product - 1 + delta + here * delta * (1.0 if w is None else w.mean(axis=1))
        # infinite losses are not differences of infinities; people of weight zero do not count in the target
        per_set = np.where(np.isfinite(here) & np.isfinite(product), per_set, np.inf)
        # (E_D e^{2 eps} + E_D' e^{2 eps})/2 - 1 + delta (1 + E_D e^eps)
        there = (np.exp(2 * target) * (1.0 if w is None else w)).mean()
        simple = float(0.5 * (np.exp(2 * eps).mean() + there) - 1 + delta * (1 + np.exp(eps).mean()))
    error = float(per_set.std(ddof=1) / n**0.5) if n > 1 and not population else np.nan
    variation, kind = None, weakest("upper" if population else "estimate", kind)
    if tv is not None:
        mine = _shaped("tv", tv, eps.shape)
        other = mine if tv_target is None else real_values("tv_target", tv_target)
        for name, values in (("tv", mine), ("tv_target", other)):
            if not ((values >= 0) & (values <= 1)).all():
                raise InvalidInput(f"{name} must lie in [0, 1]; pass pairs.tv()")
        # with weights E_D[w] TV' + E_D[w TV'']
        there = other if w is None else w * mine
        variation = float((mine.mean(axis=1) * (1.0 if w is None else w.mean(axis=1))).mean() + there.mean())
    elif tv_target is not None:
        raise InvalidInput("tv_target needs tv: the total variations of the people of the data")
    assumptions = (
        "the loss function has values in [0, 1]",
        "the data set is drawn independently from one distribution" + ("" if same else "; the target from another"),
        "each loss is that of a person who joins n - 1 others",
    )
    error = 0.0 if population else error
    return GeneralizationBound(float(per_set.mean()), simple, variation, error, n, eps.shape[1], kind, assumptions)


def _shaped(name: str, values: ArrayLike, shape: tuple) -> Floats:
    """Spread over the data sets what is the same for all of them."""
    table = real_values(name, values)
    try:
        return np.broadcast_to(table, shape)
    except ValueError:
        raise InvalidInput(f"{name} must be one number per person, {shape}, got shape {table.shape}") from None


def _table(name: str, values: ArrayLike) -> Floats:
    table = np.atleast_2d(real_values(name, values))
    if table.ndim != 2 or not table.size or not (table >= 0).all():
        raise InvalidInput(f"{name} must be losses >= 0, one row per data set and one column per person")
    return table
