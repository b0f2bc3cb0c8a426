"""Two sampled steps by integrals of positive functions over the noise, instead of an inversion. ``two_steps`` says why
this is a bound and solves for epsilon (read this first), ``strips`` integrates with every error added, ``one_step`` is
the profile of one step in scaled logarithms, ``answers`` serves everybody who took two steps and nothing else.
"""
