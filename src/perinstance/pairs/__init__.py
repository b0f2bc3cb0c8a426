"""Two distributions per person, and every number that follows from them.

Each module here is one kind of pair, named by the mechanism it belongs to; ``base`` says what all of them can do.
Below lie the mathematics: ``closed_form`` for one coordinate, ``sums`` for sums of independent losses. Above lie
``composition`` and ``stored`` (pairs read back from plain columns).
"""

from perinstance._lazy_loading import load_when_used

__getattr__, __dir__, __all__ = load_when_used(__name__)
