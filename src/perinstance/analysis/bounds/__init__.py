"""Tools that the worst cases share. Read ``declared_bounds`` (who may join, and a release of ridge regression in
matrices) first; ``branch_and_bound`` searches a landscape of upper bounds, made of ``monotone_losses`` and
``trust_region_slices``; ``refitted_people`` finds somebody who comes close to them. ``noisy_mean`` needs no search.
"""
