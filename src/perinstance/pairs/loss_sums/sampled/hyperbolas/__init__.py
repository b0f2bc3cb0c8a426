"""Inversion along a hyperbola, on which everything dies: seldom sampled people, whose straight lines do not.
``hyperbola`` says which one and what is missed along it (read this first), ``hyperbola_line`` adds up its terms and all
errors, ``hyperbola_answers`` serves one person. ``oblique_noise`` has the noise of a step along a path that rises,
``power_sums`` its moments at the nodes, ``moment_bounds`` how large moments are elsewhere.
"""
