"""Noisy gradient descent as a release: ``estimator`` (read first), people's gradients, steps, promise, readings."""
