"""Realised log ratios of output perturbation of smooth models, by refits without each person.

With ``D = theta_without - theta_with`` and the output o, ``log q/p = -D'A(o - theta - D/2)/s^2``. The refits bound how
far D may be off, in the norm of A; what that does to the ratio is its error. The minimum with everyone is float64's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from perinstance.folds.block import Block
from perinstance.folds.class_labels import CodedSweep
from perinstance.folds.sweep import Sweep, refits_told
from perinstance.models.smooth.neighbour_refits import leave_one_out, measured
from perinstance.models.smooth.problem import SmoothAudit
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.realised.log_ratios import LogRatios, Output


def refitted_log_ratios(
    sweep: Sweep, fit: SmoothAudit, output: Output, scale: float, precision: Floats | None
) -> LogRatios:
    """Refit without everybody, block by block; there is no proof of a rounding bound, so the error is infinite."""
    inner = sweep if fit.classes is None else CodedSweep(sweep, fit.classes)
    A = np.eye(len(fit.theta)) if precision is None else precision

    def answer(block: Block) -> Any:
        y = np.asarray(block.y, dtype=np.float64) if fit.classes is None else fit.classes.codes(block.y)
        found = leave_one_out(fit.model, inner, block.X, y, True, refits_told(inner))
        with np.errstate(invalid="ignore", over="ignore"):
            value = -np.einsum("ij,ij->i", found.D @ A, output.values - fit.theta - found.D / 2) / scale**2
        alone = ~np.isfinite(measured(found.D, precision))
        if fit.classes is not None:
            alone |= fit.classes.alone(y, True)  # without them a class is gone: nothing to publish
        return LogRatios(np.where(alone, np.inf, value), np.where(alone, 0.0, np.inf))

    return LogRatios.concatenate([answer(block) for block in list(sweep.map(lambda block: block))])
