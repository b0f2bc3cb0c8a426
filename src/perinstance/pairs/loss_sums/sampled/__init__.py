"""Losses of Poisson-sampled Gaussian steps, whose characteristic function is an integral. ``steps`` says who takes
which steps, ``noise_cells`` where the noise counts, ``log_moments`` integrates over it, ``lines/`` inverts the result
along straight lines, ``more_digits/`` with more of them; ``epsilon``, ``profile`` and ``renyi`` answer for everybody.
``lines/other_cumulants`` adds the losses of other releases on the same people. Where lines do not die, for few steps or
seldom ones, ``hyperbolas/`` serve, or ``large_losses/`` takes large losses apart, then ``lattice/`` serves;
``few_steps/`` answers for two steps.
"""
