"""Hostile tables by kind, every linear release on them, and the truth in exact rational numbers."""
