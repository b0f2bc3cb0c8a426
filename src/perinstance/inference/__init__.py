"""Standard errors, intervals and p-values of published coefficients: post-processing, which costs no privacy.

``equation`` solves a noisy linear estimating equation, with the covariance of its answer; ``table`` is what a user
gets. Each release states its own equation, as it states its mechanism.
"""

from perinstance.inference.table import Inference

__all__ = ["Inference"]
