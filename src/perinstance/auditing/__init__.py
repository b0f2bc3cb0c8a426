"""``audit`` and ``Audit``: the loss of every person, and what a curator asks of the losses."""

from __future__ import annotations

from perinstance.auditing.audit_call import audit
from perinstance.auditing.refit_check import Recheck
from perinstance.auditing.result import Audit, Health, Summary

__all__ = ["Audit", "Health", "Recheck", "Summary", "audit"]
