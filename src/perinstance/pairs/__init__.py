"""Two distributions per person, and every number that follows from them."""

from perinstance._lazy_loading import load_when_used

__getattr__, __dir__, __all__ = load_when_used(__name__)
