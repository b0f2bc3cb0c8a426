"""AdaSSP: ``estimator`` is the class, ``mechanism`` its rounds of noisy sufficient statistics, ``first_look`` and
``column_look`` what is asked before them, ``averaged_rounds`` and ``shrinkage`` how they become coefficients.
"""
