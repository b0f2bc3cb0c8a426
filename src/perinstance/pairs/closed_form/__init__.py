"""One Gaussian shift, one posterior sample or one Laplace shift, in closed form. Read ``profile`` first (delta of an
epsilon), then ``one_epsilon`` (its inverse for one person) and ``many_epsilons`` (for many at one delta). ``renyi``,
``membership_test`` and ``student`` stand by themselves.
"""
