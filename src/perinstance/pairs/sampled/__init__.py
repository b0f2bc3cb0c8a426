"""Poisson-sampled Gaussian steps, from above by one road. ``noise_law`` makes the noise of a step finite, ``step_law``
gives moments of its loss, ``steps`` says who takes which steps, ``step_tables`` puts distances between levels,
``line_integral`` inverts sums of losses, ``answers`` asks it, ``renyi`` has exact moments, ``other_losses`` those of
other releases on the same people. ``docs/composition.md`` has the arguments.
"""
