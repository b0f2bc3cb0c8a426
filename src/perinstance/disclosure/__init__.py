"""What may leave the room: statements to people, from their own row and what is public (``statements``, read first),
their words (``wording``, data in ``wording_en.json``), pages in bulk (``statement_pages``), a summary for regulators
(``summaries``), everybody's losses with noise (``published_losses``), and pairs for other tools
(``interchange``).
"""

from __future__ import annotations

from perinstance.disclosure.interchange import from_dp_event, from_pld, from_profile, profile, to_dp_event, to_pld
from perinstance.disclosure.published_losses import LossQuantile, PublishedLosses, publish_losses
from perinstance.disclosure.statement_pages import write_statements
from perinstance.disclosure.statements import Statement, Wording, statement, together
from perinstance.disclosure.summaries import regulator_summary, summary_schema
from perinstance.releases.base.own_row import PublicFacts

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
    "regulator_summary",
    "statement",
    "summary_schema",
    "to_dp_event",
    "to_pld",
    "together",
    "write_statements",
]
