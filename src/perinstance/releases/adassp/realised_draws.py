"""What one run of AdaSSP told about each person: the log ratio of everything that it released (MATH 8).

The Gram matrix moves by ``x x'``, a round's moment by ``clip(y - x'theta_k) x``; theta_k and the clip of a round are
functions of what was released before, the same with and without the person, so the log ratios of the rounds add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import arb
from numpy.typing import NDArray

from perinstance.errors import InvalidInput
from perinstance.folds.block import Block
from perinstance.folds.sweep import Sweep
from perinstance.numerics.array_types import Floats
from perinstance.releases.adassp.mechanism import Rounds, scales
from perinstance.releases.base.realised.log_ratios import LogRatios, cell
from perinstance.releases.base.realised.noisy_sums import NoisySums
from perinstance.releases.promises.noisy_queries import clipped_residuals, gram_scales
from perinstance.sampling import GRID, ExactGram, FixedRows
from perinstance.sampling.ball_arithmetic import working_precision

PRECISION = 256  # bits: rows are on a grid, sums of products of them need about a hundred


@dataclass(frozen=True, slots=True)
class Draws:
    """Everything that a run released, and the estimates and clips that its rounds used."""

    gram: Floats
    moments: Floats
    path: tuple[Floats, ...]
    clips: tuple[float, ...]

    def log_ratios(self, plan: Rounds, sweep: Sweep, clip: Callable[[NDArray, NDArray], FixedRows]) -> LogRatios:
        """Fold once for the exact sums of all rounds, map once over the people."""
        d = sweep.n_features
        if self.gram.shape != (d, d):
            raise InvalidInput(f"the release has {len(self.gram)} features and the table {d}; pass the audited table")
        upper = np.triu_indices(d)
        residual_clips = [c * plan.y_bound for c in self.clips]
        of_gram, of_rounds = scales(plan, self.clips)

        def sums(block: Block) -> _RoundSums:
            rows = clip(block.X, block.y)
            aims = [clipped_residuals(rows, t, c) for t, c in zip(self.path, residual_clips, strict=True)]
            return _RoundSums(tuple(ExactGram.of(rows.X, aim) for aim in aims))

        totals = sweep.fold(sums).rounds
        with working_precision(PRECISION):
            whole = [totals[0].fraction(int(i), int(j)) for i, j in zip(*upper, strict=True)]
            parts = [NoisySums.of(cell(self.gram[upper], GRID), whole, gram_scales(of_gram, d), "gaussian")]
            for total, moment, scale in zip(totals, self.moments, of_rounds, strict=True):
                centre = [total.fraction(j, d) for j in range(d)]
                parts.append(NoisySums.of(cell(moment, GRID), centre, [scale] * d, "gaussian"))

        def answer(block: Block) -> LogRatios:
            rows = clip(block.X, block.y)
            aims = [clipped_residuals(rows, t, c) for t, c in zip(self.path, residual_clips, strict=True)]
            with working_precision(PRECISION):
                found = []
                for i, row in enumerate(rows.X.tolist()):
                    x = [arb(v) for v in row]
                    total = parts[0].log_ratio(x[j] * x[k] for j, k in zip(*upper, strict=True))
                    for part, aim in zip(parts[1:], aims, strict=True):
                        t = arb(float(aim[i]))
                        total += part.log_ratio(t * v for v in x)
                    found.append(total)
                return LogRatios.of(found)

        return LogRatios.concatenate(list(sweep.map(answer)))


@dataclass(frozen=True, slots=True)
class _RoundSums:
    rounds: tuple[ExactGram, ...]

    def __add__(self, other: _RoundSums) -> _RoundSums:
        return _RoundSums(tuple(a + b for a, b in zip(self.rounds, other.rounds, strict=True)))
