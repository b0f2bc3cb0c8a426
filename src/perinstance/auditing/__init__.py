"""``audit`` and ``Audit``: the loss of every person, and what a curator asks of the losses."""

from perinstance.auditing.audit_call import audit
from perinstance.auditing.calibration import Calibrated, calibrate, epsilon
from perinstance.auditing.deletion_requests import DeletedTogether, Deletions, Republished
from perinstance.auditing.result import Audit, Health, Summary
from perinstance.auditing.rows_again import Realised, Recheck

__all__ = [
    "Audit",
    "Calibrated",
    "DeletedTogether",
    "Deletions",
    "Health",
    "Realised",
    "Recheck",
    "Republished",
    "Summary",
    "audit",
    "calibrate",
    "epsilon",
]
