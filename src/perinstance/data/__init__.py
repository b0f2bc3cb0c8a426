"""Tables in and out, in blocks of rows."""

from __future__ import annotations

from perinstance.data.flavour import Flavour
from perinstance.data.source import Block, Source
from perinstance.data.table import Table, read_table

__all__ = ["Block", "Flavour", "Source", "Table", "read_table"]
