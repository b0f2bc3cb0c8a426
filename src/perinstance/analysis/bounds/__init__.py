"""Tools that the worst cases share. Read ``declared_bounds`` (who may join) and ``mechanism`` (a release of ridge
regression in matrices) first; ``branch_and_bound`` searches a landscape of upper bounds, made of ``monotone_losses``
and ``trust_region_slices``; ``projected_ascent`` and ``refitted_people`` find somebody who comes close to them.
``noisy_mean`` needs no search.
"""
