"""Tables in and out, in blocks of rows: ``source`` is the protocol, ``memory`` and ``files`` keep it.

``recipes`` turn text, dates and missing cells into numbers, ``checks`` refuse bad cells, ``private_files`` are those
that only their owner may read.
"""

from __future__ import annotations

from perinstance.data.example_tables import hospital_patients
from perinstance.data.files.file_source import scan
from perinstance.data.files.load_whole import Loaded, load, read_labels
from perinstance.data.files.reader import Limits
from perinstance.data.memory.table import Table, read_table
from perinstance.data.private_files import LossWriter, private_file, private_folder, refuse_wider, write_losses
from perinstance.data.recipes.recipe import Recipe
from perinstance.data.source import Flavour, Source
from perinstance.folds.block import Block

__all__ = [
    "Block",
    "Flavour",
    "Limits",
    "Loaded",
    "LossWriter",
    "Recipe",
    "Source",
    "Table",
    "hospital_patients",
    "load",
    "private_file",
    "private_folder",
    "read_labels",
    "read_table",
    "refuse_wider",
    "scan",
    "write_losses",
]
