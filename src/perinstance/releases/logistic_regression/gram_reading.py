"""What a noisy Gram matrix tells about the curvature of the loss, and how far it is to be believed.

Its noise has eigenvalues up to ``edge = noise sqrt(2 d)``; an eigenvalue below tells nothing but that. ``error`` says
how much there is to be learnt at all: the standard error that noise in the sums of slopes makes in a coefficient,
were rows spread alike in all directions. From it follows the ``doubt``. Without doubt an estimate is made by steps of
Newton's method, and the first rounds are forgotten. In doubt steps along unknown directions are short, so that all
rounds ask near the same point and their noise averages out: the answer is then close to one noisy sum of slopes that
has the whole budget, apart from the few directions that stand out (where the mean of the rows lies, above all, which
is what an unbalanced outcome needs).

All of it is post-processing. The constants were chosen on tables that ``docs/mechanisms/logistic.md`` names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.releases.logistic_regression.bounded_slope_loss import SLOPE

CURVATURE = 0.25  # of the loss, on average at most, for a row's square of 1
CERTAIN, LOST = 0.6, 2.4  # errors of a coefficient: no doubt up to the first, nothing but doubt from the second
SHORTER = 5.0  # steps along unknown directions, in doubt: by a factor of 1 + 5
CAUTION, LEAST_SEEN = 0.5, 0.25  # standard deviations: taken off the trace; what is left at least


@dataclass(frozen=True, slots=True, eq=False)
class GramReading:
    """Directions, and the curvature of the loss along each; rows have norm at most 1."""

    vectors: Floats  #: orthonormal, as columns
    steps: Floats  #: curvature that a step is made for: not below that of the loss, but for the noise
    answer: Floats  #: curvature that the answer is computed with: in doubt only what stands out
    unknown: float  #: curvature that steps assume where the matrix tells nothing
    doubt: float  #: from 0 to 1
    error: float  #: the standard error of a coefficient by noise


def read_gram(gram: Floats, noise: float, distance: float) -> GramReading:
    """Read a released Gram matrix of rows of norm at most 1.

    Parameters
    ----------
    gram
        The matrix, with noise.
    noise
        Standard deviation of the noise on its diagonal.
    distance
        What the whole promise spends.

    Examples
    --------
    >>> clear = read_gram(np.diag([5e4, 4e4]), 10.0, 0.3)
    >>> clear.doubt, bool((clear.steps == clear.answer).all())
    (0.0, True)
    >>> read_gram(np.zeros((2, 2)), 10.0, 0.3).doubt
    1.0
    """
    d = len(gram)
    values, vectors = np.linalg.eigh(gram)
    spread = noise * math.sqrt(d)  # of the trace
    seen = max(float(values.sum()) - CAUTION * spread, LEAST_SEEN * spread)
    error = SLOPE / distance / (CURVATURE * seen / d)
    doubt = min(max((error - CERTAIN) / (LOST - CERTAIN), 0.0), 1.0)
    edge = noise * math.sqrt(2.0 * d)
    known = CURVATURE * np.maximum(values, edge)
    stands_out = CURVATURE * np.maximum(values - edge, 0.0)
    unknown = CURVATURE * edge * (1.0 + SHORTER * doubt)
    return GramReading(
        vectors=vectors,
        steps=np.where(values > edge, known, unknown),
        answer=known + (stands_out - known) * doubt,
        unknown=unknown,
        doubt=doubt,
        error=error,
    )
