"""Standard errors, intervals and p-values of published coefficients: post-processing, which costs no privacy.

``equation`` solves a noisy linear estimating equation, with the covariance of its answer; ``table`` is what a user
gets. Each release states its own equation, as it states its mechanism.
"""

from perinstance.inference.equation import Estimated, EstimatingEquation, bounded_draw, positive_part
from perinstance.inference.table import About, Inference, PublishedInference, checked_about, inference_of

__all__ = [
    "About",
    "EstimatingEquation",
    "Inference",
    "PublishedInference",
    "Estimated",
    "bounded_draw",
    "checked_about",
    "inference_of",
    "positive_part",
]
