"""Linear algebra without rounding: the rank and span of rows modulo primes (``exact_rank``), and solutions in rationals
(``rational_solve``), for the few cases that floats cannot decide.
"""
