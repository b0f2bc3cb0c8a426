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

#: A bound inside an adaptive release: a dozen operations and one special function (erf's inverse, log1p, exp), whose
#: own relative error is below 1e-13.
BOUND_UP, BOUND_DOWN = 1.0 + 1e-12, 1.0 - 1e-12

#: One square root, product or exactly rounded sum of declared numbers: at most four units of round-off.
STEP_UP = 1.0 + 1e-15

#: The distance of one of at most 100 rounds: their sum of squares, rounded, must not exceed the budget.
ROUND_DOWN = 1.0 - 1e-14

#: A person's distance summed over at most 100 rounds: each square adds a few units of round-off.
ROUNDS_UP = 1.0 + 1e-13

#: Where bisections for a Gaussian distance stop, relatively; ``BOUND_DOWN`` is taken off afterwards.
DISTANCE_STEP = 1e-13

#: A composed profile, relatively: far above the rounding of its terms, far below anything that matters.
PROFILE_UP = 1.0 + 1e-9

#: The smallest eigenvalue over the largest below which public points are taken to determine each other.
DEPENDENT_POINTS = 1e-10

#: How far, relatively, a matrix that is declared to be symmetric may be from it: what writing it to text may cost.
ASYMMETRY = 1e-10

#: The length of a row of zeros, where it divides: nothing that small can matter.
ROW_OF_ZEROS = 1e-300

#: The shortest step that a line search tries; one that is refused so close is stopped by rounding.
SHORTEST_STEP = 1e-12

#: How far from a power of ten, in powers of ten, a number counts as that power when axes are labelled.
TICK_SLACK = 1e-9

#: The smallest value on a logarithmic axis over the largest: a few tiny ones must not squeeze everybody else.
AXIS_RANGE = 1e-12

#: Prediction errors between which a line of equal loss is searched for.
SEARCHED_RESIDUALS = (1e-12, 1e12)
