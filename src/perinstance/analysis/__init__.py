"""What the losses mean: distributions, everyone, groups, composition, worst cases, generalisation.

Every answer is a frozen record with its ``kind`` and its ``assumptions``. All of them are confidential unless they say
otherwise: they are functions of the data.
"""

from __future__ import annotations

from typing import Any

from perinstance.analysis.people.composition_bounds import (
    Composition,
    Reading,
    RenyiFilter,
    advanced_bound,
    compose,
    composition,
    odometer,
)
from perinstance.analysis.people.dp_definitions import Variants, variants
from perinstance.analysis.people.group_privacy import Chain, Group, chain, chain_bound, chain_pairs, group, group_pairs
from perinstance.analysis.people.loss_moments import Intervals, Moments, bootstrap, moments, quantile, tail
from perinstance.analysis.people.membership_odds import (
    Identification,
    OddsBound,
    identification,
    odds_bound,
    posterior_odds,
    realised_loss,
)
from perinstance.analysis.random_data.monte_carlo import Between, LossSample
from perinstance.analysis.random_data.one_person import one, subsets
from perinstance.analysis.random_data.random_tables import prior
from perinstance.analysis.utility.generalization_bounds import (
    GeneralizationBound,
    bounded,
    generalization,
    series,
    stability,
)
from perinstance.analysis.utility.statistical_efficiency import (
    Efficiency,
    OptimisationError,
    efficiency,
    optimisation_error,
)
from perinstance.analysis.within_bounds.anybody import Everyone, everyone

# Not lazily: several functions have the name of their module, and must win over it.
from perinstance.analysis.worst_case.assumed_data import Assumed, with_assumptions
from perinstance.analysis.worst_case.pure_dp import PureDP, exponential_mechanism
from perinstance.analysis.worst_case.worst_case_dp import WorstCase, dp, personal_dp

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
        from perinstance.releases.promises import private_bounds

        return getattr(private_bounds, name)
    raise AttributeError(f"module 'perinstance.analysis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
