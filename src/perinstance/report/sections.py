"""A section of the report as a record: the page lays out every one alike, so a new chart needs no new markup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The audit that is reported, and what the curator asked to see of it."""

    audit: Audit
    epsilon: Floats
    worst: list[int]  #: positions of the most exposed people, the worst first
    groups: Sequence[Any] | None
    dp: float | None
    everyone: float | None
    redact: bool

    @property
    def median_person(self) -> int:
        """The position of the person whose loss is the median."""
        return self._at_quantile(0.5)

    @property
    def top_person(self) -> int:
        """The most exposed person; in a redacted copy the 95% person, because an extreme is a single person."""
        return self._at_quantile(0.95) if self.redact else int(np.argmax(self.epsilon))

    def _at_quantile(self, q: float) -> int:
        return int(np.argmax(self.epsilon == attained_quantile(self.epsilon, q)))


@dataclass(frozen=True, slots=True)
class TableLine:
    """One line of a table."""

    cells: list[str]
    look: str = ""  #: a class of the style sheet


@dataclass(frozen=True, slots=True)
class SectionTable:
    """A table with its heading, under a sentence that introduces it."""

    label: str  #: for screen readers
    heads: list[str]
    lines: list[TableLine]
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, then whatever of these there is, in this order."""

    id: str
    heading: str
    lead: str = ""
    figure: Markup | None = None
    figure_label: str = ""  #: for screen readers
    caption: str = ""
    warning: tuple[str, str] | None = None  #: its first words, and the rest
    table: SectionTable | None = None
