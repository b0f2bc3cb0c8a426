"""Codes of rows that are not known well enough; they live in ``row_statistics``."""

from perinstance.models.linear.row_statistics import HARD, HARD_LEVERAGE, ROUGH_RESIDUAL

__all__ = ["HARD", "HARD_LEVERAGE", "ROUGH_RESIDUAL"]
