"""Arithmetic that no library has: compiling (``numba_compile``; ``compilation`` keeps the code), SIMD vectors, tails of
the normal law, pairs of floats, exact rank and rational solves, tensor norms, quadratic duality. ``rounding`` owns
every slack factor of the package; ``array_types`` names the arrays. Nothing here knows of privacy.
"""
