"""Tables in and out, in blocks of rows."""

from __future__ import annotations

from perinstance.data.flavour import Flavour
from perinstance.data.labels import read_labels
from perinstance.data.limits import Limits
from perinstance.data.load import Loaded, load
from perinstance.data.losses import LossWriter, loss_writer, write_losses
from perinstance.data.private import private_file, private_folder, refuse_wider
from perinstance.data.scan import scan
from perinstance.data.source import Block, Source
from perinstance.data.table import Table, read_table

__all__ = [
    "Block",
    "Flavour",
    "Limits",
    "Loaded",
    "LossWriter",
    "Source",
    "Table",
    "load",
    "loss_writer",
    "private_file",
    "private_folder",
    "read_labels",
    "read_table",
    "refuse_wider",
    "scan",
    "write_losses",
]
