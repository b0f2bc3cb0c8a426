"""Sums of independent losses by inverting their characteristic function. ``coordinates`` states a person's loss as
independent coordinates; ``cumulant_levels`` and ``saddlepoint`` place the contour, ``integrand`` and
``contour_integral`` walk it, ``profile`` and ``epsilon`` answer, ``double_double_epsilon`` settles what cancels.
``laplace_atoms`` has the losses with atoms, ``renyi`` the moments.
"""
