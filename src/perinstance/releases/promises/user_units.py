"""From coefficients of rows in declared units to the user's, with their uncertainty: a linear map, post-processing."""

from __future__ import annotations

import numpy as np

from perinstance.inference import Estimated
from perinstance.releases.promises.declared_box import DeclaredBox


def user_coefficients(box: DeclaredBox, solved: Estimated) -> Estimated:
    """Return what is known of the user's coefficients, the intercept last, if there is one.

    A column that the intercept stands for has none of its own.
    """
    half = np.array([one.half for one in box.columns])
    center = np.array([one.center for one in box.columns])
    slopes = np.diag(box.label.half / half)
    if not box.weight:
        return solved.mapped(slopes)
    last = np.append(-box.label.half * center / half, box.label.half * box.weight)
    linear = np.vstack([np.column_stack([slopes, np.zeros(len(half))]), last])
    return solved.mapped(linear, np.append(np.zeros(len(half)), box.label.center))
