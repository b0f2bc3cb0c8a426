"""All losses, by name: every property test runs over this list, so a new member is a tested member."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perinstance.models.knots import Huber, SquaredHinge
from perinstance.models.loss import Loss
from perinstance.models.losses import Gamma, Logistic, Poisson, PseudoHuber, SmoothHinge, Squared

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
