"""What a release of noisy sums told about each person, by replaying it: published numbers answer what is asked.

Everything such a release asks about rows is a sum over people of a function of one row and of what was published
before. So the mechanism is run once more on a window that answers what was published and writes down every question;
each question is then put to each person's row alone, whose answer is the step by which they moved the sum. With the
exact sums of everybody and the scales of the noise that gives the log ratio of the whole run (MATH 8): what is asked
later depends on what was published, the same with and without the person, so the ratios of the questions add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.releases.base.realised.log_ratios import LogRatios, cell
from perinstance.releases.base.realised.noisy_sums import NoisySums
from perinstance.releases.promises.noisy_queries import ExactWindow
from perinstance.sampling import GRID, FixedRows
from perinstance.sampling.ball_arithmetic import Ball, exact, working_precision

PRECISION = 256  # bits: rows are on a grid, sums of products of them need about a hundred


@dataclass(slots=True)
class _Log:
    """The questions of one run in their order, and for each the sums of everybody with what was published."""

    published: list[Floats]
    questions: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    sums: list[NoisySums] = field(default_factory=list)

    def answer(self, center: Sequence[Any], scales: Sequence[float]) -> Floats:
        """Answer with the next published numbers."""
        if len(self.sums) >= len(self.published) or len(self.published[len(self.sums)]) != len(center):
            raise InvalidInput("what was published does not fit the audited release; pass the fitted release itself")
        values = self.published[len(self.sums)]
        with working_precision(PRECISION):
            self.sums.append(NoisySums.of(cell(values, GRID), center, scales, "gaussian"))
        return values


class ReplayedWindow:
    """Answers what was published, and writes down what was asked."""

    def __init__(self, rows: FixedRows, log: _Log) -> None:
        self._log = log
        self._window = ExactWindow(rows, log.answer)

    @property
    def d(self) -> int:
        """Number of columns."""
        return self._window.d

    def gram(self, *question: Any) -> Floats:
        """Answer with the published Gram matrix."""
        self._log.questions.append(("gram", question))
        return self._window.gram(*question)

    def moment(self, *question: Any) -> Floats:
        """Answer with the published moment of this round."""
        self._log.questions.append(("moment", question))
        return self._window.moment(*question)


def replayed_log_ratios(
    run: Callable[[Any], Any], published: Iterable[Floats], rows: FixedRows, one: Callable[[int], FixedRows]
) -> LogRatios:
    """Run the mechanism on published numbers, then ask each person's row the same questions.

    ``one(i)`` is the row of person i alone.
    """
    log = _Log([np.asarray(part, dtype=np.float64) for part in published])
    run(ReplayedWindow(rows, log))
    if len(log.sums) != len(log.published):
        raise InvalidInput("what was published does not fit the audited release; pass the fitted release itself")
    found: list[Ball | None] = []
    for i in range(len(rows.y)):
        steps: list[Sequence[Any]] = []

        def step(center: Sequence[Any], scales: Sequence[float], steps: list[Sequence[Any]] = steps) -> Floats:
            steps.append(center)
            return np.zeros(len(center))

        alone = ExactWindow(one(i), step)
        for name, question in log.questions:
            getattr(alone, name)(*question)
        with working_precision(PRECISION):
            parts = [part.log_ratio(exact(u) for u in own) for part, own in zip(log.sums, steps, strict=True)]
            found.append(sum(parts[1:], parts[0]))
    return LogRatios.of(found)
