"""From pDP to DP: the recipe, which stands one floor lower because ``AdaOPS`` is built with it."""

from perinstance.releases.conversion import Conversion, KeyQuantity, PrivateBound, convert

__all__ = ["Conversion", "KeyQuantity", "PrivateBound", "convert"]
