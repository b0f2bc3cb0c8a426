"""The command line, the only place that prints: ``app`` is the list of commands, one module each."""

from perinstance.cli.app import main

__all__ = ["main"]
