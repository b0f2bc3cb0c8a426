"""A sphere around the fit that nobody's refit crosses, proved by branch and bound. ``smallest_sphere`` is the entry and
``crossing_search`` the proof; it cuts the sphere into ``cells``, encloses the gradient and its slopes there, and
excludes them by multipliers. ``curvature_radius`` is a first bound and ``exact_ascent`` the person who attains it.
"""
