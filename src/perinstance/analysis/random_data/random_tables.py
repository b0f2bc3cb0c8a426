"""pDP with a prior on data sets: what somebody may expect to lose before the data is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance.analysis.random_data.monte_carlo import LossSample
from perinstance.analysis.random_data.one_person import joined
from perinstance.errors import InvalidInput
from perinstance.pairs.interface.arguments import delta_array
from perinstance.pairs.interface.kinds import Kind, weakest


def prior(
    release: Any,
    sampler: Callable[[np.random.Generator], tuple[ArrayLike, ArrayLike]],
    targets: tuple[ArrayLike, ArrayLike] | Callable[[np.random.Generator], tuple[ArrayLike, ArrayLike]],
    delta: float = 1e-6,
    *,
    draws: int = 200,
    rng: np.random.Generator | None = None,
) -> LossSample:
    """Draw data sets and return the losses of people who would join each of them.

    Parameters
    ----------
    sampler
        ``sampler(rng)`` draws the data set (X, y) that the people join.
    targets
        The people ``(X, y)``, fixed; or a sampler of them, called once per draw.
    """
    delta = float(delta_array(delta, 1, zero=False))
    if draws < 1:
        raise InvalidInput(f"draws must be at least 1, got {draws}")
    rng = np.random.default_rng() if rng is None else rng
    losses: list[Any] = []
    kinds: list[Kind] = []
    for _ in range(draws):
        X, y = (np.asarray(a, dtype=np.float64) for a in sampler(rng))
        rows, values = (
            np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (targets(rng) if callable(targets) else targets)
        )
        pairs = joined(release, X, y, np.atleast_2d(rows), values)
        losses.append(np.asarray(pairs.epsilon(delta)))
        kinds.append(pairs.kind)
    return LossSample(
        np.array(losses),
        delta,
        weakest(kinds),
        ("data sets are independent draws of the sampler", "each person joins a data set without them"),
    )
