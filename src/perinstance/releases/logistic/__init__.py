"""Logistic regression under a promise: ``estimator`` is the class, ``mechanism`` its rounds of noisy sums of slopes,
``gram_reading`` what it believes of its Gram matrix, ``bounded_slope_loss`` what it minimises, ``noisy_sums`` how it
sees confidential rows.
"""
