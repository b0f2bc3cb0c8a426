"""How far one person moves the smallest eigenvalue of X'X, exactly: the secular equation of a rank-one change.

With ``G = V diag(w) V'`` and ``z = V'x``, the smallest eigenvalue t of ``G - x x'`` is the root of
``1 = sum_j z_j^2 / (w_j - t)`` in ``[w_1 - ||x||^2, w_1]``, and that of ``G + x x'`` the root of
``1 = sum_j z_j^2 / (t - w_j)`` in ``[w_1, min(w_2, w_1 + ||x||^2)]`` (Golub 1973). Weyl's bound is ``||x||^2``.

Not the equation of ``secular_equation``: this one has first powers, a sign that depends on who leaves, and a
bracket whose safe end is returned.
"""

from __future__ import annotations

import numpy as np

from perinstance.numerics.array_types import Floats

STEPS = 60  # bisections: the bracket shrinks below the rounding of the eigenvalues


def smallest_eigenvalue_moves(values: Floats, vectors: Floats, X: Floats, inside: bool) -> Floats:
    """Return ``|lambda_min(with) - lambda_min(without)|`` of each row of X, G being with (``inside``) or without them.

    The end of the last bracket is returned that gives the larger move, so the answer is not too small.
    """
    z2 = (X @ vectors) ** 2
    gaps = values - values[0]  # >= 0, first is 0
    far = z2.sum(axis=1)
    if inside:  # t = w_1 - u: 1 = sum z_j^2/(gap_j + u), falling in u
        low, high = np.zeros(len(X)), far.copy()
        for _ in range(STEPS):
            u = 0.5 * (low + high)
            above = _sum(z2, gaps, u) > 1.0
            low, high = np.where(above, u, low), np.where(above, high, u)
        return high
    # t = w_1 + u: z_1^2/u - sum_{j>1} z_j^2/(gap_j - u) = 1, falling in u on (0, gap_2)
    low, high = np.zeros(len(X)), np.minimum(far, gaps[1] if len(gaps) > 1 else np.inf)
    for _ in range(STEPS):
        u = 0.5 * (low + high)
        above = -_sum(z2, gaps, -u) > 1.0
        low, high = np.where(above, u, low), np.where(above, high, u)
    return high


def _sum(z2: Floats, gaps: Floats, u: Floats) -> Floats:
    """``sum_j z_j^2 / (gap_j + u)``; a direction that x does not touch counts nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = z2 / (gaps + u[:, None])
    return np.where(z2 > 0.0, terms, 0.0).sum(axis=1)
