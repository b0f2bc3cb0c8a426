"""Gauss's rule for the strips, to the last digit (numpy's weights are good to 14)."""

from __future__ import annotations

import numpy as np

from perinstance.numerics.array_types import Floats

NODES = 24


def _gauss_rule() -> Floats:
    """Return nodes and weights."""
    from flint import arb

    found = [arb.legendre_p_root(NODES, NODES - 1 - i, weight=True) for i in range(NODES)]
    return np.array([[float(part) for part in one] for one in found]).T.copy()


RULE: Floats = _gauss_rule()
