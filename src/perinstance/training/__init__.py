"""Trainings that happen elsewhere: ``Watch`` is told each step's gradient lengths and reads off everybody's loss."""

from perinstance._lazy_loading import load_when_used

__getattr__, __dir__, __all__ = load_when_used(__name__)
