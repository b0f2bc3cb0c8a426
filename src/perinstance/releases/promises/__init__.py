"""Releases with an (epsilon, delta) promise: the promise itself, the estimator they share, how noise is calibrated,
private bounds on key quantities, noisy queries of the data, lengths of rows, declared classes, and simulation for
experiments.
"""
