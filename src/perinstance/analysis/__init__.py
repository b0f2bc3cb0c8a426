"""What the losses mean: distributions, everyone, groups, composition, worst cases, generalisation.

Every answer is a frozen record with its ``kind`` and its ``assumptions``. All of them are confidential unless they say
otherwise: they are functions of the data.
"""

from __future__ import annotations

from typing import Any

# Not lazily: several functions have the name of their module, and must win over it.
from perinstance.analysis.assumptions import Assumed, with_assumptions
from perinstance.analysis.composition import (
    Composition,
    Reading,
    RenyiFilter,
    advanced_bound,
    compose,
    composition,
    odometer,
)
from perinstance.analysis.efficiency import Efficiency, OptimisationError, efficiency, optimisation_error
from perinstance.analysis.everyone import Everyone, everyone
from perinstance.analysis.exponential import PureDP, exponential_mechanism
from perinstance.analysis.generalization import GeneralizationBound, bounded, generalization, series, stability
from perinstance.analysis.group import Chain, Group, chain, chain_bound, chain_pairs, group, group_pairs
from perinstance.analysis.identification import (
    Identification,
    OddsBound,
    identification,
    odds_bound,
    posterior_odds,
    realised_loss,
)
from perinstance.analysis.moments import Intervals, Moments, bootstrap, moments, quantile, tail
from perinstance.analysis.one import one, subsets
from perinstance.analysis.prior import prior
from perinstance.analysis.sampled import Between, LossSample
from perinstance.analysis.variants import Variants, variants
from perinstance.analysis.worst_case import WorstCase, dp, personal_dp

# Needs the releases, hence scikit-learn: loaded when first asked for.
_LATER = ("Conversion", "KeyQuantity", "PrivateBound", "convert")

__all__ = [
    "Assumed",
    "Between",
    "Chain",
    "Composition",
    "Conversion",
    "Efficiency",
    "Everyone",
    "GeneralizationBound",
    "Group",
    "Identification",
    "Intervals",
    "KeyQuantity",
    "LossSample",
    "Moments",
    "OddsBound",
    "OptimisationError",
    "PrivateBound",
    "PureDP",
    "Reading",
    "RenyiFilter",
    "Variants",
    "WorstCase",
    "advanced_bound",
    "bootstrap",
    "bounded",
    "chain",
    "chain_bound",
    "chain_pairs",
    "compose",
    "composition",
    "convert",
    "dp",
    "efficiency",
    "everyone",
    "exponential_mechanism",
    "generalization",
    "group",
    "group_pairs",
    "identification",
    "moments",
    "odds_bound",
    "odometer",
    "one",
    "optimisation_error",
    "personal_dp",
    "posterior_odds",
    "prior",
    "quantile",
    "realised_loss",
    "series",
    "stability",
    "subsets",
    "tail",
    "variants",
    "with_assumptions",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        from perinstance.analysis import conversion

        return getattr(conversion, name)
    raise AttributeError(f"module 'perinstance.analysis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
