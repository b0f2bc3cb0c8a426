"""Losses of Poisson-sampled Gaussian steps, whose characteristic function is an integral. ``steps`` says who takes
which steps, ``log_moments`` integrates over the noise, ``line_tables`` keeps the result for the nodes of a line that
many people share, ``line_choice`` finds the line for each, ``line_integral`` inverts along it, ``epsilon``, ``profile``
and ``renyi`` answer for everybody. ``other_cumulants`` adds the losses of other releases on the same people.
"""
