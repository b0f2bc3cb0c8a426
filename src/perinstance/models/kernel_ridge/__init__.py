"""Kernel ridge regression and Gaussian processes at public points: ``problem`` is the model, ``sklearn_kernels`` reads
it from an estimator, ``covariance_functions`` evaluates kernels and ``gram_inverse`` solves with their Gram matrix,
both with bounds of their rounding.
"""
