"""Releases with an (epsilon, delta) promise: the promise itself, the estimator they share, private bounds of what
losses depend on, the window through which they see rows, declared bounds and classes.
"""
