"""The largest loss of anybody within bounds who could join this data set. ``anybody`` is the entry; ``linear_bounds``
and ``box_corners`` answer for linear models, ``smooth_models`` for the others, ``by_expansion`` on large tables and
``by_sphere`` on small ones.
"""
