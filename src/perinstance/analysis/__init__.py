"""What the losses mean: distributions, everyone, groups, composition, worst cases, generalisation.

Every answer is a frozen record with its ``kind`` and its ``assumptions``. All of them are confidential unless they say
otherwise: they are functions of the data.
"""

from perinstance._lazy_loading import load_when_used

__getattr__, __dir__, __all__ = load_when_used(__name__)
