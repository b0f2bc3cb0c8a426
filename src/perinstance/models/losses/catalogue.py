"""All losses, by name: every property test runs over this list, so a new member is a tested member."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perinstance.models.losses.base import Loss
from perinstance.models.losses.smooth import (
    Gamma,
    Logistic,
    NegativeBinomial,
    Poisson,
    PseudoHuber,
    SmoothHinge,
    Squared,
)
from perinstance.models.losses.with_knots import Huber, SquaredHinge

CATALOGUE: Mapping[str, Loss] = MappingProxyType(
    {
        "squared": Squared(),
        "logistic": Logistic(),
        "poisson": Poisson(),
        "gamma": Gamma(),
        "negative-binomial": NegativeBinomial(0.6),
        "huber": Huber(),
        "pseudo-huber": PseudoHuber(),
        "squared-hinge": SquaredHinge(),
        "smooth-hinge": SmoothHinge(),
    }
)
