"""The exact privacy loss of each person in a published regression, and releases that keep their promise.

Names are loaded when first used, so that ``import perinstance`` stays quick; ``__init__.pyi`` lists them.
"""

from perinstance._lazy_loading import load_when_used

__getattr__, __dir__, __all__ = load_when_used(__name__)
