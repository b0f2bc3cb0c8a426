"""The same people under other noise: what the losses would have been.

Each pair knows itself under other noise: a shift divides its distance by the factor, a posterior sample its
standardised residual. No new sweep over the rows is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.pairs import Pairs

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit

FACTORS = np.geomspace(1 / 16, 16, 25)
QUANTILES = (0.5, 0.95, 1.0)
# Quantiles of a figure need no more people than this; the most exposed are always kept. A pair without a table of its
# own is inverted person by person, hundreds of times slower.
MOST_PEOPLE = 4000
MOST_SLOW_PEOPLE = 100
# Sampled steps take up to a second each under less noise: a few people, and every third factor.
VERY_FEW_PEOPLE, EVERY = 20, 3


@dataclass(frozen=True, slots=True)
class NoiseLevels:
    """Loss quantiles at several noise levels: one row per quantile."""

    factors: NDArray
    epsilon: NDArray
    sampled: bool


def quantiles(epsilon: Floats) -> Floats:
    """Return the quantiles that are drawn, of one set of losses."""
    return attained_quantile(epsilon, QUANTILES)


def noise_sweep(audit: Audit, summarise: Callable[[Floats], Floats] = quantiles) -> NoiseLevels | None:
    """Recompute the quantiles of the losses for noise from a sixteenth to sixteen times the audited one."""
    epsilon = np.asarray(audit.epsilon)
    pairs: Pairs = audit.pairs
    if len(pairs) == 0 or pairs[:1].with_noise(1.0) is None:
        return None
    most, factors = MOST_PEOPLE if pairs.fast_for_many else MOST_SLOW_PEOPLE, FACTORS
    if pairs.slow_alone:
        most, factors = VERY_FEW_PEOPLE, FACTORS[::EVERY]
    sampled = len(pairs) > most
    if sampled:
        order = np.argsort(epsilon, kind="stable")
        pairs = pairs[order[np.unique(np.linspace(0, len(order) - 1, most).round().astype(int))]]
    rows = []
    for factor in factors:
        changed = pairs.with_noise(float(factor))
        assert changed is not None  # the first person's pair was of the same type
        rows.append(summarise(changed.near_epsilon(audit.delta)))
    return NoiseLevels(factors, np.array(rows).T, sampled)
