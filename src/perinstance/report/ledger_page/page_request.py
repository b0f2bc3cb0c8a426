"""What the sections of a ledger's page are made from."""

from __future__ import annotations

from dataclasses import dataclass

from perinstance.ledger.budgets import Budget
from perinstance.ledger.log.charged_releases import ChargedRelease
from perinstance.ledger.totals.growth import LedgerOverview
from perinstance.ledger.totals.spent_budgets import BudgetUse
from perinstance.ledger.verification import Verification
from perinstance.report.redaction import SHARED, SharedLosses


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A ledger as it is now, and what the curator asked to see of it."""

    releases: tuple[ChargedRelease, ...]  #: cancelled ones too
    overview: LedgerOverview
    checked: Verification
    limit: float | None  #: a total that nobody should pass
    budget: Budget | None
    use: BudgetUse | None
    guarantee: bool
    why: str  #: why totals are guarantees, or why not
    shared: SharedLosses | None  #: what may be shown of the totals in a redacted copy; None in a full one

    @property
    def redact(self) -> bool:
        """Whether this is a copy for colleagues."""
        return self.shared is not None

    @property
    def people(self) -> int:
        """How many people are in any release that counts."""
        return self.overview.totals.people

    def count(self, people: int) -> str:
        """Write a number of people; a redacted copy does not tell small ones."""
        return f"fewer than {SHARED}" if self.redact and people < SHARED else f"{people:,}"
