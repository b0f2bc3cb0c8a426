"""Tools that the worst cases share: a release of ridge regression in matrices (``mechanism``), branch and bound, losses
that grow with their parameters, the noisy mean, trust-region slices, refitted people.
"""
