"""All losses, by name: every property test runs over this list, so a new member is a tested member."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perinstance.models.losses import (
    Gamma,
    Huber,
    Logistic,
    Loss,
    Poisson,
    PseudoHuber,
    SmoothHinge,
    Squared,
    SquaredHinge,
)

CATALOGUE: Mapping[str, Loss] = MappingProxyType(
    {
        "squared": Squared(),
        "logistic": Logistic(),
        "poisson": Poisson(),
        "gamma": Gamma(),
        "huber": Huber(),
        "pseudo-huber": PseudoHuber(),
        "squared-hinge": SquaredHinge(),
        "smooth-hinge": SmoothHinge(),
    }
)
