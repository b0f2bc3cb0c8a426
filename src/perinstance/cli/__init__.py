"""The command line: the only place that prints."""

from __future__ import annotations

from perinstance.cli.app import main

__all__ = ["main"]
