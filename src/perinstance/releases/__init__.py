"""Randomized estimators with scikit-learn's interface: ``fit`` publishes one draw, and each knows its pairs."""

from perinstance._lazy_loading import load_when_used

__getattr__, __dir__, __all__ = load_when_used(__name__)
