"""What may leave the room: statements to people, from their own row and what is public (``statements``, read first),
their words (``wording``, data in ``wording_en.json``), pages in bulk (``statement_pages``).
"""

from __future__ import annotations

from perinstance.disclosure.statement_pages import write_statements
from perinstance.disclosure.statements import Statement, statement, together
from perinstance.disclosure.wording import Wording
from perinstance.releases.base.own_row import PublicFacts

__all__ = ["PublicFacts", "Statement", "Wording", "statement", "together", "write_statements"]
