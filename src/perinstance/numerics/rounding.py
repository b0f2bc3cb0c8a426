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

#: Rounding beyond this share of a number makes the answer an upper bound instead of an exact one.
EXACT_SHARE = 1e-6

#: A residual may lose this share of the target and the prediction whose difference it is, and still count as exact.
EXACT_RESIDUAL = 1e-9

#: Beyond this relative error of the leverages each row's own error is looked at: it is often far smaller.
LOOK_AT_ROWS = 1e-11

#: One product serves both norms of a row while its weights are known to this share; beyond, a second product does.
WEIGHTS_ERROR = 1e-11

#: A divisor that must not be zero: so small that it matters nowhere, so large that its inverse is finite.
LEAST_DIVISOR = 1e-300

#: A radius must be above zero; this one is shorter than any step that moves a float.
LEAST_RADIUS = 1e-300

#: A Newton decrement this small is the minimum: the distance left is far below what rounding of the gradient causes.
MINIMUM_DECREMENT = 1e-13

#: A decrease by less than this share of the objective is lost in the rounding of its sum over the people.
OBJECTIVE_ROUNDING = 1e-12

#: Newton's method on a person's own objective ends when this share of the first gradient is left: a few units.
GRADIENT_LEFT = 1e-13

#: Closer than this share of the terms of x'theta to a knot, rounding decides on which side of it a row is.
KNOT_ROUNDING = 1e-12

#: A Hessian (relative to everyone's) with a smaller eigenvalue gives no Newton step: it is singular up to rounding.
SINGULAR_HESSIAN = 1e-12

#: Widens a radius that is compared with the nearest row left out: both were rounded.
RADIUS_ROUNDED_UP = 1 + 1e-9

#: ``c a`` up to here has a logarithm that keeps its digits; beyond, the plain constant gives no certificate.
CONCORDANCE_LIMIT = 1 - 1e-12

#: The same limit as a floor for ``1 - c a``.
CONCORDANCE_LEFT = 1e-12

#: Refits of a batch end when the last correction is this share of the whole step; what is left is added to it.
REFIT_CORRECTION = 1e-11

#: A step of which rounding may have taken more than this share is found again by a fit without cancellation.
REFIT_LOST = 1e-10

#: A correction below this share of the step that no longer shrinks is rounding, not slow convergence.
REFIT_STALLED = 1e-9

#: The probability with which the bounds of objective perturbation may fail; it is charged to delta.
PERTURBATION_TAIL = 1e-10

#: An in-sample leverage above this has no usable ``log(1 - m)``: less than nine digits of 1 - m are left.
WHOLE_LEVERAGE = 1 - 1e-9

#: What a predictor may have lost by rounding, relative to itself; added to how far it may move.
PREDICTOR_ROUNDING = 1e-12

#: An eigenvalue of a relative change of the Hessian lies above -1: the neighbour's Hessian is positive definite.
LEAST_RELATIVE_CHANGE = -1 + 1e-12

#: A kernel matrix comes rounded: where the smallest pivot is below this share of the largest, alpha drowns in it.
KERNEL_PIVOT = 1e-12

#: Conjugate gradients end when the squared residual has fallen by this factor: ten digits of the step, an estimate.
CONJUGATE_LEFT = 1e-20

#: The gradient tolerance of the quasi-Newton phase of network training; Newton steps go on from there.
NETWORK_GRADIENT = 1e-9

#: A gradient this small relative to the parameters ends training: Newton steps below it are rounding.
NETWORK_MINIMUM = 1e-10

#: A Newton step of network training may raise the objective by this share: the rounding of its sum.
NETWORK_OBJECTIVE = 1e-12

#: What the ends of a chord may have lost, relative to the slopes there: a few dozen units.
CHORD_ROUNDING = 1e-14

#: Widens an enclosure of a slope by more than its own evaluation can have lost.
ENCLOSURE_ROUNDED_UP = 1 + 1e-9

# ---------------------------------------------------------------------------------------------------------------------
# Analysis


# ---------------------------------------------------------------------------------------------------------------------
# Releases, sampling, data, report
