"""Losses of Poisson-sampled Gaussian steps, whose characteristic function is an integral. ``steps`` says who takes
which steps, ``noise_cells`` where the noise counts, ``log_moments`` integrates over it, ``lines/`` inverts the result
along straight lines, in floats or with more digits, ``epsilon``, ``profile`` and ``renyi`` answer for everybody.
``other_cumulants`` adds the losses of other releases on the same people; ``lattice/`` serves where lines do not: few
steps, or seldom ones of large distances; ``few_steps/`` answers for two steps.
"""
