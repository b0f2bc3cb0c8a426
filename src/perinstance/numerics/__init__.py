"""Arithmetic that no library has: compiling (``compilation``), tails of the normal law, pairs of floats, exact rank
and rational solves. ``rounding`` owns every slack factor of the package, ``charged_rounding`` adds to an answer what it
may have lost and says which label follows; ``array_types`` names the arrays. Nothing here knows of privacy.
"""
