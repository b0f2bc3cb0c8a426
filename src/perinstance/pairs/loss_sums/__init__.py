"""Sums of independent losses by inverting their characteristic function. ``coordinates`` states a person's loss as
independent coordinates; ``cumulant_levels`` and ``saddlepoint`` place the contour, ``integrand``, ``quadrature`` and
``contour_integral`` integrate along it, ``profile`` gives delta, ``solve_epsilon`` inverts it for one person and
``epsilon`` for everybody. ``laplace_atoms`` has the losses with atoms, ``renyi`` the moments, ``records`` what
the kernels pass to each other.
"""
