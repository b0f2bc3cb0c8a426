"""Poisson-sampled Gaussian steps, from above by one road. ``step_law`` makes the noise of a step finite and gives
moments of its loss, ``steps`` says who takes which steps, ``step_tables`` puts distances between levels,
``line_integral`` inverts sums of losses, ``answers`` asks it, ``renyi`` has exact moments. ``docs/composition.md`` has
the arguments.
"""
