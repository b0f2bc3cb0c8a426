"""Losses of Poisson-sampled Gaussian steps, whose characteristic function is an integral. ``steps`` says who takes
which steps, ``noise_cells`` where the noise counts, ``log_moments`` integrates over it, ``line_decay`` proves how fast
the result dies along a line, ``line_tables`` keeps both for a line that many people share, ``line_choice`` finds the
line for each and ``line_layout`` its step and length, ``line_integral`` inverts along it with every error added (read
this first), ``epsilon``, ``profile`` and ``renyi`` answer for everybody. ``other_cumulants`` adds the losses of other
releases on the same people; ``lattice/`` serves where lines are loose: few steps, or seldom ones; ``few_steps/``
answers for two steps.
"""
