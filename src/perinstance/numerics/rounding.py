"""How much rounding is charged: every slack factor and tolerance of the package, by name, with the reason.

A privacy number that is too small is a breach, so answers are rounded up by what their computation may have lost.
A factor like ``1 + 1e-12`` stands nowhere else; a test walks over the source and looks.
"""

from __future__ import annotations

import numpy as np

# ---------------------------------------------------------------------------------------------------------------------
# The float format

#: The distance from 1 to the next float: one operation loses at most half of it, relatively.
UNIT = float(np.finfo(np.float64).eps)

#: The smallest normal float: a denominator that must not be zero, where nothing that small can matter.
TINY = float(np.finfo(np.float64).tiny)

#: The smallest float above zero.
SMALLEST = float(np.finfo(np.float64).smallest_subnormal)

#: The largest float.
LARGEST = float(np.finfo(np.float64).max)

# ---------------------------------------------------------------------------------------------------------------------
# Pairs


# ---------------------------------------------------------------------------------------------------------------------
# Models


# ---------------------------------------------------------------------------------------------------------------------
# Analysis


# ---------------------------------------------------------------------------------------------------------------------
# Releases, sampling, data, report
