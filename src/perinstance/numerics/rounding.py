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
# Pairs (kernels freeze what they import from here: numba_compile stamps this file along with theirs)

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

#: The square root of a pair of floats is good to about 106 bits: the last four are not relied on.
PAIR_ROOT = 1e-30

#: The plane of objective perturbation has a second coordinate only where ``|x||v|`` exceeds x'v by more than the
#: rounding of the three products that the caller made.
ONE_DIMENSION = 1e-14

# Epsilon of one shift or posterior sample (closed_form)

#: What epsilon is promised to: never below the truth, at most this share of itself above, or the absolute room below.
PROMISED = 1e-9
#: The absolute room of the promise, for an epsilon next to zero.
PROMISED_ABSOLUTE = 1e-13

#: What the solvers of one coordinate may be wrong by, as a share of epsilon; every answer is raised by it. It covers
#: five times the error that the polynomials are checked to have.
SOLVER_RELATIVE = 2e-10
#: The same, absolutely, in units of the distance between the distributions (at most one).
SOLVER_ABSOLUTE = 4e-14

#: Relative error of a sum whose terms cancel: two roundings of the terms and one of the sum.
CANCELLING_SUM = 5e-16
#: Relative error of the threshold at which Newton's iteration stops: twice the step that it stops at.
STOPPED_THRESHOLD = 2e-15
#: Relative error of a profile there: the Mills ratio (2e-15), the density and the products.
PROFILE_AT_THRESHOLD = 6e-15
#: Newton's iteration for a threshold stops at steps of about five units in the last place: below lies only noise.
THRESHOLD_STEP = 1e-15
#: The same for a test's threshold, in units in the last place of the threshold itself.
TEST_STEP = 2e-16

#: Epsilon is zero beyond doubt where delta(0) lies below delta by more than this share; its own error is 6e-15.
ZERO_BEYOND_DOUBT = 1e-12
#: Room above ``sqrt(-2 log delta)``, which bounds every threshold, so that the bracket is never empty.
BRACKET_ROOM = 1e-9

#: What a polynomial of the threshold may be wrong by at its checks, as a share of epsilon.
SURFACE_ERROR = 4e-11
#: The largest third term of the inverse series that is accepted for an answer; the error is about 1e-3 of it.
THIRD_TERM = 2e-11
#: The same for the start of a table's next row, which is improved again,
THIRD_TERM_OF_START = 1e-10
#: and for the nodes of a polynomial, which must be right to the last digits.
THIRD_TERM_OF_NODE = 1e-12
#: The smallest share of leverage in a table: no leverage at all would leave no residual to speak of.
LEAST_SHARE = 1e-9
#: The table of a shift at its checks: what a polynomial of degree eight loses, absolutely and relatively.
SHIFT_TABLE_ABSOLUTE = 1e-14
#: The relative part: two hundred times less than what answers are raised by.
SHIFT_TABLE_RELATIVE = 1e-12

#: Student noise: halving the step of the double exponential rule must move an integral by less than this share; the
#: move is charged.
STUDENT_QUADRATURE = 1e-12
#: Roundings of its integrand for each degree of freedom and each dimension (powers of cosines, beta functions).
STUDENT_ROUNDING = 2e-15
#: Its epsilon is raised by this share, and checked to pass: a tenth of the promise.
STUDENT_SOLVED = 1e-10
#: The same in units of the largest loss, for an epsilon next to zero.
STUDENT_ABSOLUTE = 1e-15

# Sums of losses (loss_sums)

#: The halved step must change an inversion's integral by less than this share: 1e-9 of epsilon needs no more.
TIGHT = 2e-12
#: Or, where epsilon is next to nothing, by less than this, which is about what the sum's rounding allows.
FINE = 3e-15
#: One rounding of an integrand's node or exponent: half a unit in the last place and a little.
NODE_ROUNDING = 1.2e-16
#: A node far out below this share of the first says that the integrand has died along the straight line.
DEAD = 1e-14
#: Nodes above this share of the largest count for how far from the saddle point the integrand is alive.
ALIVE = 1e-13
#: Relative error of the logarithms of two profiles that are compared.
LOGARITHM = 2.5e-16
#: What the last sum of an epsilon may have lost: two half units in the last place and their product.
LAST_SUM = 4.5e-16
#: Error of Chernoff's bound, times the size of the exponent it is computed from: four units in the last place.
CHERNOFF = 1e-15
#: An epsilon to start from stays this far below the largest possible loss, where the profile is zero.
BELOW_LARGEST_LOSS = 1e-9
#: Among atoms a finer quadrature is asked for while the slack is more than a fifth of the promise, relatively
SLACK_RELATIVE = 2e-10
#: or absolutely (one half).
SLACK_ABSOLUTE = 5e-14
#: A bracket of epsilon so short, relatively, is the answer.
BRACKET = 1e-13
#: Newton's steps on one contour end at this change of the logarithm of delta,
LAST_STEP = 1e-14
#: and serve if they have come down to this one, which is charged.
USABLE_STEP = 1e-13
#: The power of a test is flat in epsilon at its minimum: a bracket this short, in standard deviations, is enough.
POWER_BRACKET = 1e-10

#: A node of the inversion in pairs of floats, whose last exponential is the library's: exp, cos and sin are good to
#: 0.58 units in the last place each, together this at the very most.
LIBRARY_NODE = 2.6e-16
#: The same where that exponential is a pair as well: fourteen terms and up to twelve squarings of 106 bits.
PAIR_NODE = 1e-20
#: There the step is halved until that moves the sum by less than this share.
PAIR_STEP = 3e-16
#: The second part of pi: ``math.pi`` plus this is pi to 106 bits.
PI_LOW = 1.2246467991473532e-16

# ---------------------------------------------------------------------------------------------------------------------
# Models


# ---------------------------------------------------------------------------------------------------------------------
# Analysis


# ---------------------------------------------------------------------------------------------------------------------
# Releases, sampling, data, report
