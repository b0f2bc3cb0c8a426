"""What may leave the room: statements to people from their own row (``statements``, read first), pages in bulk, a
summary for regulators, everybody's losses with noise (``published_losses``), pairs for other tools (``interchange``).
"""

from perinstance.disclosure.interchange import from_dp_event, from_pld, from_profile, profile, to_dp_event, to_pld
from perinstance.disclosure.published_losses import LossQuantile, PublishedLosses, publish_losses
from perinstance.disclosure.statements import Statement, Wording, statement, together, write_statements
from perinstance.disclosure.summaries import registry_entry, regulator_summary, summary_schema
from perinstance.releases.base.log_ratios import PublicFacts

__all__ = [
    "LossQuantile",
    "PublicFacts",
    "PublishedLosses",
    "Statement",
    "Wording",
    "from_dp_event",
    "from_pld",
    "from_profile",
    "profile",
    "publish_losses",
    "registry_entry",
    "regulator_summary",
    "statement",
    "summary_schema",
    "to_dp_event",
    "to_pld",
    "together",
    "write_statements",
]
