"""Linear algebra without rounding: the rank and span of rows modulo primes (``exact_rank``), and sums in rationals
(``exact_sums``), for the few cases that floats cannot decide.
"""
