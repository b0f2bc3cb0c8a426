"""What a release of noisy sums told about each person, by replaying it: published numbers answer what is asked.

Everything such a release asks about rows is a sum over people of a function of one row and of what was published
before. So the mechanism is run once more on a window that answers what was published and writes down every question;
each question is then put to each person's row alone, whose answer is the step by which they moved the sum. With the
exact sums of everybody and the scales of the noise that gives the log ratio of the whole run (MATH 8): what is asked
later depends on what was published, the same with and without the person, so the ratios of the questions add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.releases.base.log_ratios import LogRatios, cell
from perinstance.releases.base.noisy_sums import NoisySums
from perinstance.releases.promises.window import ExactWindow, StandardFrame
from perinstance.sampling import GRID, FixedRows
from perinstance.sampling.ball_arithmetic import Ball, exact

MISFIT = "what was published does not fit the audited release; pass the fitted release itself"
PRECISION = 256  # bits: rows are on a grid, sums of products of them need about a hundred


@dataclass(slots=True)
class _Log:
    """The questions of one run in their order, and for each the sums of everybody with what was published."""

    published: dict[str, list[Floats]]  #: by question
    questions: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    sums: list[NoisySums] = field(default_factory=list)
    current: Floats = field(default_factory=lambda: np.empty(0))

    def ask(self, name: str, question: tuple[Any, ...]) -> None:
        """Write a question down, and find what was published for it."""
        left = self.published.get(name, [])
        if not left:
            raise InvalidInput(MISFIT)
        self.questions.append((name, question))
        self.current = np.asarray(left.pop(0), dtype=np.float64)

    def answer(self, center: Sequence[Any], scales: Sequence[float]) -> Floats:
        """Answer with the published numbers; the last entry of a Gram matrix may be known, and not drawn."""
        if len(self.current) - len(center) not in (0, 1):
            raise InvalidInput(MISFIT)
        values = self.current[: len(center)]
        with working_precision(PRECISION):
            self.sums.append(NoisySums.of(cell(values, GRID), center, scales, "gaussian"))
        return values


class ReplayedWindow:
    """Answers what was published, and writes down what was asked."""

    def __init__(self, window: ExactWindow, log: _Log) -> None:
        self._window, self._log = window, log

    @property
    def d(self) -> int:
        """Number of columns."""
        return self._window.d

    def totals(self, *question: Any) -> Floats:
        """Answer with the published totals."""
        self._log.ask("totals", question)
        return self._window.totals(*question)

    def column_totals(self, *question: Any) -> Floats:
        """Answer with the published totals of columns."""
        self._log.ask("column_totals", question)
        return self._window.column_totals(*question)

    def framed(self, frame: StandardFrame) -> ReplayedWindow:
        """Return the window in other coordinates, which are public: every later question is asked there."""
        self._log.questions.append(("framed", (frame,)))
        return ReplayedWindow(self._window.framed(frame), self._log)

    def gram(self, *question: Any) -> Floats:
        """Answer with the published Gram matrix."""
        self._log.ask("gram", question)
        return self._window.gram(*question)

    def moment(self, *question: Any) -> Floats:
        """Answer with the published moment of this round."""
        self._log.ask("moment", question)
        return self._window.moment(*question)


def replayed_log_ratios(
    run: Callable[[Any], Any], published: dict[str, list[Floats]], rows: FixedRows, one: Callable[[int], FixedRows]
) -> LogRatios:
    """Run the mechanism on published numbers, then ask each person's row the same questions.

    ``published`` are the answers by question, in their order; ``one(i)`` is the row of person i alone.
    """
    log = _Log({name: list(answers) for name, answers in published.items()})
    run(ReplayedWindow(ExactWindow(rows, answer=log.answer), log))
    if any(len(part) for left in log.published.values() for part in left):
        raise InvalidInput(MISFIT)
    found: list[Ball | None] = []
    for i in range(len(rows.y)):
        steps: list[Sequence[Any]] = []

        def step(center: Sequence[Any], scales: Sequence[float], steps: list[Sequence[Any]] = steps) -> Floats:
            steps.append(center)
            return np.zeros(len(center))

        alone = ExactWindow(one(i), answer=step)
        for name, question in log.questions:
            if name == "framed":
                alone = alone.framed(*question)
            else:
                getattr(alone, name)(*question)
        with working_precision(PRECISION):
            parts = [part.log_ratio(exact(u) for u in own) for part, own in zip(log.sums, steps, strict=True)]
            found.append(sum(parts[1:], parts[0]))
    return LogRatios.of(found)
