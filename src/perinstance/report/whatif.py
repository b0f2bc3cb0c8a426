"""The same people under other noise: what the losses would have been.

Scaling the noise by a factor c divides every distance by c; for a posterior sample it divides the standardised
residual by c (gamma becomes gamma / c^2) and leaves the leverage alone. No new sweep over the rows is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.pairs import Laplace, Pairs, Posterior, Shift

FACTORS = np.geomspace(1 / 16, 16, 25)
QUANTILES = (0.5, 0.95, 1.0)
# Quantiles of a figure need no more people than this; the most exposed are always kept.
MOST_PEOPLE = 4000


@dataclass(frozen=True, slots=True)
class Sweep:
    """Loss quantiles at several noise levels: one row per quantile."""

    factors: NDArray
    epsilon: NDArray
    sampled: bool


def with_noise(pairs: Pairs, factor: float) -> Pairs | None:
    """Return the pairs under noise that is ``factor`` times as large; None where that is not one formula."""
    if isinstance(pairs, Shift | Laplace):
        return type(pairs)(pairs.distance / factor, kind=pairs.kinds)
    if isinstance(pairs, Posterior):
        return Posterior(pairs.leverage, pairs.residual / factor, kind=pairs.kinds)
    scaled = getattr(pairs, "with_noise", None)
    return None if scaled is None else scaled(factor)


def noise_sweep(audit: Any) -> Sweep | None:
    """Recompute the quantiles of the losses for noise from a sixteenth to sixteen times the audited one."""
    epsilon = np.asarray(audit.epsilon)
    pairs: Pairs = audit.pairs
    if len(pairs) == 0 or with_noise(pairs[:1], 1.0) is None:
        return None
    sampled = len(pairs) > MOST_PEOPLE
    if sampled:
        order = np.argsort(epsilon, kind="stable")
        pairs = pairs[order[np.unique(np.linspace(0, len(order) - 1, MOST_PEOPLE).round().astype(int))]]
    rows = []
    for factor in FACTORS:
        changed = with_noise(pairs, float(factor))
        assert changed is not None  # the first person's pair was of the same type
        rows.append(np.quantile(changed.epsilon(audit.delta), QUANTILES, method="higher"))
    return Sweep(FACTORS, np.array(rows).T, sampled)
