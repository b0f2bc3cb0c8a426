"""Inversion of people's losses along straight lines. ``line_decay`` proves how fast a transform dies along a line,
``line_tables`` keeps moments and decay for a line that many people share, ``line_choice`` finds the line for each and
``line_layout`` its step and length, ``line_integral`` inverts along it with every error added (read this first).
"""
