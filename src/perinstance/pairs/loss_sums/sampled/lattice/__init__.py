"""Three sampled steps and more on a lattice of losses: no line, no transform that has to die. ``lattice_bound`` says
why this is a bound (read this first), ``step_spread`` puts one step onto points, ``step_levels`` onto all of them,
``potential_lowering`` takes back most of what that adds, ``block_convolution`` and ``loss_sums`` add up independent
losses and keep what lies beyond the last point (``point_profiles``), ``moment_orders`` chooses the scale and where it
ends, ``answers`` serves everybody.
"""
