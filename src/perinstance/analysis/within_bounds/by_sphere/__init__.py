"""A sphere around the fit that nobody's refit crosses, proved by branch and bound. ``smallest_sphere`` is the entry and
``crossing_search`` the proof: it cuts the sphere into ``cells``, encloses the gradient there (``gradient_enclosure``,
from ``slope_enclosure`` row by row) and excludes cells by ``exclusion_multipliers``. ``curvature_radius`` is a first
bound, ``exact_ascent`` finds the person who comes close.
"""
