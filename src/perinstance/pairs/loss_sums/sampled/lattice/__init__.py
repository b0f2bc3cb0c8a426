"""Three sampled steps and more on a lattice of losses: no line, no transform that has to die. ``lattice_bound`` says
why this is a bound (read this first), ``step_spread`` puts one step onto the lattice, ``block_convolution`` adds up
independent losses, ``loss_sums`` keeps what lies beyond the last point, ``moment_orders`` chooses the scale and where
it ends, ``answers`` serves everybody.
"""
