"""Linear algebra without rounding: the rank and span of rows modulo primes (``exact_rank``), sums in rationals
(``exact_sums``), and the precision of balls (``ball_precision``), for the few cases that floats cannot decide.
"""
