"""Losses when the data is random: one person among random others, a random table, and estimates by Monte Carlo."""
