"""How much rounding is charged: every slack factor of the package, by name, with the reason."""

from __future__ import annotations

import numpy as np

UNIT = float(np.finfo(np.float64).eps)
