"""People whose epsilon the solver of one coordinate raises by too much: by the slower road, in pairs of floats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats
from perinstance.pairs.interface.arguments import Direction, spread
from perinstance.pairs.interface.base import Pairs


def settle(pairs: Pairs, delta: Floats, direction: Direction, out: Floats, doubt: NDArray[np.bool_] | None) -> None:
    """Replace the epsilons in doubt, which are above the truth, by what the sum of this one loss says, if less."""
    if doubt is None or not doubt.any():
        return
    from perinstance.pairs.composition import Composed  # which is made of the very pairs that ask

    better = Composed([pairs[doubt]]).epsilon(spread(delta, len(out))[doubt], direction)
    out[doubt] = np.fmin(out[doubt], better)
