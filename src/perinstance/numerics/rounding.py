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
#: The distance from 1 to the next of the longest floats that this machine has: where they are no longer than the
#: others, what is computed in them is charged as much.
LONG_UNIT = float(np.finfo(np.longdouble).eps)
#: The smallest normal float: a denominator that must not be zero, where nothing that small can matter.
TINY = float(np.finfo(np.float64).tiny)
#: The smallest float above zero.
SMALLEST = float(np.finfo(np.float64).smallest_subnormal)
#: The largest float.
LARGEST = float(np.finfo(np.float64).max)

# ---------------------------------------------------------------------------------------------------------------------
# Pairs (kernels freeze what they import from here: compilation stamps this file along with theirs)

#: A sum of two floats times one more may have lost two half units in the last place; a quarter unit is to spare.
TWO_ROUNDINGS = 4e-16
#: One rounding of a float near one, rounded up to a whole unit.
ONE_ROUNDING = 2e-16
#: A sum of a few releases' bounds, or a product with an exponential: at most four units in the last place.
FEW_ROUNDINGS = 1e-15
#: A denominator or logarithm's argument that is only kept off zero; nothing of that size can matter.
NOT_ZERO = 1e-300
#: Terms of a series, or nodes of a quadrature, below this share of the largest change no digit of the sum.
NEGLIGIBLE = 1e-18
#: x'x v'v may fall short of (x'v)^2 by what single precision data lose in a product, not by more.
CAUCHY_SCHWARZ = 1e-6
#: Distances and squares below these would underflow when squared; a parameter that is not zero is raised to the first.
LEAST_PARAMETER = 1e-120
#: Below this the low parts of squares are no longer normal floats, so a pair of floats has no more digits than one.
LEAST_PAIR = 1e-60
#: The plane of objective perturbation has a second coordinate only where ``|x||v|`` exceeds x'v by more than the
#: rounding of the three products that the caller made.
ONE_DIMENSION = 1e-14
#: Where ``x'x v'v`` is larger the loss is about as large, and the two coordinates cancel to fewer digits than it has.
LARGEST_PLANE = 1e24

# Epsilon of one shift or posterior sample (closed_form)

#: What an ordinary epsilon is good to: never below the truth, at most this share of itself above.
PROMISED = 1e-9
#: Next to zero an epsilon is a difference of sums of logarithms: it is at most this much above the truth, absolutely.
PROMISED_ABSOLUTE = 1e-11

#: What the solvers of one coordinate may be wrong by, as a share of epsilon; every answer is raised by it. It covers
#: five times the error that a step of third order is allowed.
SOLVER_RELATIVE = 2e-10
#: The same, absolutely, in units of the distance between the distributions (at most a tenth): next to epsilon = 0 delta
#: is, from a distance of a hundredth on, a difference of two Mills ratios, and ``MILLS_ERROR`` of them is 1e-14 there.
SOLVER_ABSOLUTE = 1e-12

#: Newton's iteration for a threshold stops at steps of about five units in the last place: below lies only noise.
THRESHOLD_STEP = 1e-15

#: Epsilon is zero beyond doubt where delta(0) lies below delta by more than this share; its own error is 6e-15.
ZERO_BEYOND_DOUBT = 1e-12
#: Room above ``sqrt(-2 log delta)``, which bounds every threshold, so that the bracket is never empty.
BRACKET_ROOM = 1e-9

#: The largest third term of the inverse series that is accepted for an answer; the error is about 1e-3 of it.
THIRD_TERM = 2e-11
#: The smallest share of leverage in a table: no leverage at all would leave no residual to speak of.
LEAST_SHARE = 1e-9
#: Halving the step of a double exponential rule must move an integral by less than this share; the move is charged.
HALVED_STEP = 1e-12
#: Roundings of an integrand for each unit of its exponents (powers of cosines, beta functions).
POWER_ROUNDING = 2e-15
#: An epsilon that is solved for is raised by this share, and checked to pass: a tenth of the promise.
PROMISED_TENTH = 1e-10
#: The same in units of the largest loss, for an epsilon next to zero.
PROMISED_LARGEST = 1e-15

#: The Mills ratio by its polynomial, relatively.
MILLS_ERROR = 2e-15
#: A profile in closed form at its threshold u, for each ``5 + u^2``: u is good to nine half units, which the density
#: multiplies by u^2, and so do the square and its exponential; the rest is a dozen operations on positive terms.
PROFILE_ROUNDING = 2e-15
#: The power of a test: what a normal quantile and a normal tail in logarithms are good to, in units of the threshold.
TEST_ROUNDING = 1e-15
#: What rounding may take of the power against a posterior sample, in its closed form; beyond it losses are summed.
SETTLED_POWER = 1e-10
#: A Renyi divergence in closed form: some dozen operations, and differences that keep a tenth of their terms.
DIVERGENCE_UP = 1 + 1e-14
#: What underflow may have taken from a profile: two roundings of the smallest float.
UNDERFLOWN_PROFILE = 2 * SMALLEST

#: A profile of a shift, and an exponential and a quotient around it: what one sampled step is raised by.
SAMPLED_STEP = 5e-14
#: The same, absolutely, in units of the distance (at most one).
SAMPLED_STEP_ABSOLUTE = 1e-15

# Sums of losses (sums)

#: The halved step must change an inversion's integral by less than this share: 1e-9 of epsilon needs no more.
TIGHT = 2e-12
#: One rounding of an integrand's node or exponent: half a unit in the last place and a little.
NODE_ROUNDING = 1.2e-16
#: A node far out below this share of the first says that the integrand has died along the straight line.
DEAD = 1e-14
#: Relative error of the logarithms of two profiles that are compared.
LOGARITHM = 2.5e-16
#: What the last sum of an epsilon may have lost: two half units in the last place and their product.
LAST_SUM = 4.5e-16
#: Error of Chernoff's bound, times the size of the exponent it is computed from: four units in the last place.
CHERNOFF = 1e-15
#: An epsilon to start from stays this far below the largest possible loss, where the profile is zero.
BELOW_LARGEST_LOSS = 1e-9
#: Newton's last step to an epsilon leaves less than this share of it,
SOLVED_RELATIVE = 2e-10
#: or less than this. Both are added before it is asked whether the epsilon serves.
SOLVED_ABSOLUTE = 1e-13
#: A bracket of epsilon so short, relatively, is the answer.
BRACKET = 1e-13
#: The power of a test is flat in epsilon at its minimum: a bracket this short, in standard deviations, is enough.
POWER_BRACKET = 1e-10

#: Sampled steps of a smaller rate count as of this one: their loss is next to nothing, and grows with the rate.
LEAST_RATE = 1e-10
#: The same for the distance.
LEAST_DISTANCE = 1e-8
#: Gauss's rule of six nodes on a cell of width d misses this, ``12! (6!)^4/(13 (12!)^3)/8^12``, times bounds.
SIX_NODES = 1.4e-18
#: The share of the upper of two levels, a ratio of differences of two values that are 1/200 apart, is raised by this.
LEVEL_SHARE = 1e-12
#: Logarithms and exponentials of complex numbers, where moments of two levels are mixed: some units.
MIXED_MOMENTS = 2e-15
#: Masses below this are left out where moments are taken, and charged: products of them would underflow.
VANISHED = 1e-200
#: How close to its goal, in logarithms of delta, an epsilon is solved for on a line.
SOLVED_STEP = 3e-10
#: Epsilons below this have nothing to say: lines are as fine as for this one.
NEXT_TO_ZERO = 1e-12
#: A Renyi divergence by quadrature over the noise: some hundred positive terms, each good to a few dozen units.
QUADRATURE_UP = 1 + 1e-12

# ---------------------------------------------------------------------------------------------------------------------
# Models

#: An answer that rounding may have put further above the truth than this share of it is an upper bound, not exact.
EXACT_SHARE = 1e-6
#: The same for one parameter of a pair: a loss is at most the square of a product of three of them, and where it is
#: small beside what delta takes from it, it moves by several times their share.
EXACT_PARAMETER = EXACT_SHARE / 32
#: Half the distance from 1 to the next float: what one operation loses at most, relatively.
HALF_UNIT = UNIT / 2
#: What a term of a sum over the rows lost before it was added, in half units: an exponential good to one unit in the
#: last place, half a dozen operations on it, a root and a product.
TERM_ROUNDINGS = 16
#: Counted additions may have taken this share of a Hessian in some direction; beyond, the processor adds them up again.
HESSIAN_LOST = 1e-6
#: A bound of a linear fit's rounding is used up to here: beyond, its square would count as well.
USABLE_ERROR = 0.1
#: Squares below this may have lost digits to underflow: a norm whose square is that small is computed elsewhere.
UNDERFLOWN = 1e-280
#: Squares beyond this are next to overflow.
LARGEST_SQUARE = 1e290
#: A kernel that was compiled for a device is used after it agreed with torch to this share on some rows: it is about
#: wrong code, not about rounding, which is charged elsewhere.
KERNEL_AGREES = 1e-9
#: Beyond this relative error of the leverages each row's own error is looked at: it is often far smaller.
LOOK_AT_ROWS = 1e-11
#: One product serves both norms of a row while its weights are known to this share; beyond, a second product does.
WEIGHTS_ERROR = 3e-10
#: The same for a small table, where the second product takes no time.
WEIGHTS_ERROR_SMALL = 1e-14
#: A divisor that must not be zero: so small that it matters nowhere, so large that its inverse is finite.
LEAST_DIVISOR = 1e-300
#: A radius must be above zero; this one is shorter than any step that moves a float.
LEAST_RADIUS = 1e-300
#: A Newton decrement this small is the minimum: the distance left is far below what rounding of the gradient causes.
MINIMUM_DECREMENT = 1e-13
#: A decrease by less than this share of the objective is lost in the rounding of its sum over the people.
OBJECTIVE_ROUNDING = 1e-12
#: Closer than this share of the terms of x'theta to a knot, rounding decides on which side of it a row is.
KNOT_ROUNDING = 1e-12
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

# ---------------------------------------------------------------------------------------------------------------------
# Analysis

#: Bounds from some dozen operations on numbers of one size lose less than a hundred units, and one special function
#: among them (erf's inverse, log1p, exp) less than 1e-13; this is 4500 units.
BOUND_UP = 1 + 1e-12
#: The same, downwards.
BOUND_DOWN = 1 - 1e-12
#: A norm, a product or a ratio, a handful of operations: 45 units.
NORM_UP = 1 + 1e-14
#: The length of a gradient that Opacus has in single precision, beside what it adds to it: a sum of two floats of 24
#: bits. Shorter lengths vanish in that sum, or underflow in their squares; they count as the shortest.
GRADIENT_UP, SHORTEST_GRADIENT = 1 + 2.0**-22, 1e-12
#: Bounds made of sums over all rows of a table, of their eigenvalues and tensor norms: a million terms lose 2e-10.
TABLE_SUM_UP = 1 + 1e-9
#: A predictor x'theta of size one, moved by a bisection or a shift: a sum of some hundred products.
PREDICTOR_ERROR = 1e-12
#: A row that is scaled to the length of a bound must not lie beyond it when its norm is taken again: 4 units.
INTO_BALL = 1 - 1e-15
#: One addition of losses, for each term of a sum: 4 units.
ADDITION = 1e-15
#: A budget that is a difference of logarithms, rounded down by 4 units.
BUDGET_DOWN = 1 - 1e-15
#: A step from corner to corner must gain more than the rounding of a loss, or two equal corners would alternate.
GAIN = 1 + 1e-12
#: A profile is asked in place of its inversion, which is done to better than this, relatively to delta.
PROFILE_DOWN = 1 - 1e-6
#: A denominator that must not be zero, small beside every number of a table; its inverse is still finite.
VANISHING = 1e-300
#: A row of zeros has no length to take a step by; it gets this one.
SHORTEST_ROW = 1e-12
#: No feature weighs less in the ellipsoid around a box: its half axis is at most 3e4 times the width of the box.
LEAST_WEIGHT = 1e-9
#: The squared radius that a secular equation is solved for at least; any multiplier is valid, this one is finite.
LEAST_SQUARED_RADIUS = 1e-14
#: A multiplier lies this many units above the eigenvalues of a form, so that rounding them leaves a difference.
FORM_UNITS = 4
#: Added to eigenvalues of a form that may all be zero; its square is still a normal float.
ZERO_FORM = 1e-150
#: Two numbers are the same when their difference is 4 units of them.
SAME = 1e-15
#: A difference is noise when it is smaller than this share of the numbers that cancelled in it.
CANCELLED = 1e-12
#: A fit's own estimate of its error is taken this many times where nothing but the fit is known of the data: it is an
#: estimate, and a group adds up its errors.
FIT_SAFETY = 16
#: A realised log ratio is called exact when the odds ``e^L`` are known to this share, whatever their size.
REALISED_ERROR = 1e-6

# ---------------------------------------------------------------------------------------------------------------------
# Releases, sampling, data, report

#: One square root, product or exactly rounded sum of declared numbers: at most four units of round-off.
STEP_UP = 1.0 + 1e-15
#: Iterates in ball arithmetic: rotations of 320 bits leave and lose less than this share of a matrix.
ROTATIONS = 2.0**-200
#: What may be left beside its diagonal, absolutely: the product of two numbers of 1e-20 (``ridge_iterates``),
ENCLOSED_ERROR = 1e-40
#: and the shift that stands for it: at least 3300 of them.
ENCLOSED_SHIFT = 1e-16
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
#: Elementwise sums over a row's cells (products with a frame, a prediction), of what their terms add up to: p units of
#: round-off for p cells, p below four thousand.
OWN_ROW_ERROR = 1e-12
#: Formulas of one row, relatively: some p operations after those sums.
OWN_ROW_UP = 1.0 + 1e-9
#: A symmetric eigendecomposition is exact for a matrix that is off by this share of its Frobenius norm.
EIGENVALUES_ERROR = 2.0**-40
#: A sum of weights below this share of all of them: what rounding leaves where nobody is left.
NO_WEIGHT_LEFT = 1e-9
