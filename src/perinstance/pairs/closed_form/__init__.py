"""One Gaussian shift, one posterior sample or one Laplace shift, in closed form. Read ``profile`` first (delta of an
epsilon), then ``one_epsilon`` (its inverse for one person), then what makes it fast for many: ``tables_per_delta``,
``epsilon_polynomials``, ``shift_polynomials``, ``many_posteriors``, ``many_epsilons``. ``renyi`` and
``membership_test`` stand by themselves.
"""
