"""AdaSSP: ``estimator`` is the class, ``mechanism`` its rounds of noisy sufficient statistics, ``shrinkage`` how they
become coefficients.
"""
