"""Losses when the data is random: one person among random others (``one_person``), a random table (``random_tables``),
and how far to trust such a sample (``monte_carlo``).
"""
