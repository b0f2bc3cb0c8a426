"""The largest loss of anybody within bounds who could join this data set. ``anybody`` is the entry; ``linear_models``
answers for ridge regression (from ``linear_bounds`` and ``box_corners``), ``smooth_models`` for the others.
"""
