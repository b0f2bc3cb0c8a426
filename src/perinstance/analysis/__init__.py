"""What the losses mean: distributions, everyone, groups, composition, worst cases, generalisation.

Every answer is a frozen record with its ``kind`` and its ``assumptions``, confidential unless it says otherwise.
"""

from perinstance._lazy_loading import load_when_used

__getattr__, __dir__, __all__ = load_when_used(__name__)
