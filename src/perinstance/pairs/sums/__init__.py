"""Sums of independent losses by inverting their characteristic function. ``coordinates`` states a person's loss as
independent coordinates; ``cumulant_levels`` and ``saddlepoint`` place the contour, ``contour`` integrates
along it, ``profile`` gives delta, ``solve`` inverts it. ``laplace_atoms`` has the losses with atoms.
"""
