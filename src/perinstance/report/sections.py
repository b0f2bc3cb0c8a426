"""A section of the report as a record: the page lays out every one alike, so a new chart needs no new markup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile
from perinstance.report.redaction import SharedLosses

if TYPE_CHECKING:
    from perinstance.auditing.result import Audit


@dataclass(frozen=True, slots=True)
class CommonStatements:
    """What is said of anybody: it stands beside the losses."""

    dp: float | None  #: of any data within the declared bounds
    everyone: float | None  #: of anybody within them, with this data set
    promise: float | None  #: what the release promises everybody, at the audit's delta

    @property
    def none(self) -> bool:
        """Whether nothing is said."""
        return self.dp is None and self.everyone is None and self.promise is None


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """The audit that is reported, and what the curator asked to see of it."""

    audit: Audit
    epsilon: Floats
    worst: list[int]  #: positions of the most exposed people, the worst first
    groups: Mapping[str, Any]  #: labels by the grouping's name, which is empty for a single one
    statements: CommonStatements
    error_name: str  #: of the prediction error, with its unit where that is known
    shared: SharedLosses | None  #: what may be shown of the losses in a redacted copy; None in a full one

    @property
    def redact(self) -> bool:
        """Whether this is a copy for colleagues."""
        return self.shared is not None

    @property
    def median_person(self) -> int:
        """The position of the person whose loss is the median."""
        return int(np.argmax(self.epsilon == attained_quantile(self.epsilon, 0.5)))

    @property
    def top_person(self) -> int:
        """The most exposed person."""
        return int(np.argmax(self.epsilon))


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
    fold: str = ""  #: when it is long: under this sentence it can be folded away
    prose: int = -1  #: which column holds running text, if any


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
    tables: tuple[SectionTable, ...] = ()
