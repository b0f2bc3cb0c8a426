"""``audit`` and ``Audit``: the loss of every person, and what a curator asks of the losses."""

from __future__ import annotations

from perinstance.auditing.entry import audit
from perinstance.auditing.losses import Audit, Health, Summary
from perinstance.auditing.recheck import Recheck

__all__ = ["Audit", "Health", "Recheck", "Summary", "audit"]
