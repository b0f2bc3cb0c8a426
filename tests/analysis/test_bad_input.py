"""Nonsense is refused by name, nobody is told apart from somebody, and infinite losses stay infinite."""

import subprocess
import sys
from dataclasses import is_dataclass

import numpy as np
import pytest

from perinstance import analysis
from perinstance.analysis.group_privacy import chain
from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift
from tests.analysis.worlds import fit_of, release_of, table

X, Y = table(np.random.default_rng(0), 30, 3)
RELEASE = release_of("posterior")
FIT = fit_of(RELEASE, X, Y)
ONE = GaussianShift([0.1])
NAN = np.where(np.eye(2, 3) > 0, np.nan, X[:2])

REFUSED = {
    "moments of nobody": lambda: analysis.moments([]),
    "moments of order zero": lambda: analysis.moments([1.0], 0),
    "a quantile beyond one": lambda: analysis.quantile([1.0], 2.0),
    "a level of one": lambda: analysis.bootstrap([1.0], level=1.0),
    "coefficients of another length": lambda: analysis.efficiency(np.eye(2), 1.0, 1.0, 1.0, [1.0]),
    "an improper posterior": lambda: analysis.efficiency(np.zeros((2, 2)), 0.0, 1.0, 1.0, [1.0, 1.0]),
    "no coefficients": lambda: analysis.optimisation_error(0, 1.0),
    "definitions without a delta": lambda: analysis.variants(ONE),
    "a definition that is not there": lambda: analysis.variants(ONE, 1e-6)["hamming"],
    "a group about other features": lambda: analysis.group(RELEASE, FIT, X[:2, :2], Y[:2]),
    "a chain of negative losses": lambda: analysis.chain_bound([-1.0], [0.1]),
    "releases about other people": lambda: analysis.composition([ONE, GaussianShift([0.1, 0.2])], 1e-6),
    "a composition of nothing": lambda: analysis.composition([], 1e-6),
    "everyone in a cube": lambda: analysis.everyone(RELEASE, FIT, 1e-6, domain="cube"),
    "everyone in a negative ball": lambda: analysis.everyone(RELEASE, FIT, 1e-6, x_bound=-1),
    "everyone in a ball of three radii": lambda: analysis.everyone(RELEASE, FIT, 1e-6, x_bound=[1, 1, 1]),
    "everyone with any target": lambda: analysis.everyone(RELEASE, FIT, 1e-6, y_bound=np.inf),
    "everyone at no delta": lambda: analysis.everyone(RELEASE, FIT, 0.0),
    "moments of half an order": lambda: analysis.moments([1.0], 2.5),
    "a tail at NaN": lambda: analysis.share_above([1.0], np.nan),
    "a tail bound at NaN": lambda: analysis.moments([1.0]).tail_bound(np.nan),
    "no bootstrap moments": lambda: analysis.bootstrap([1.0], k=0),
    "no bootstrap draws": lambda: analysis.bootstrap([1.0], draws=0),
    "a share of 1.5": lambda: analysis.bootstrap([1.0], 1.5),
    "definitions for nobody": lambda: analysis.variants(GaussianShift([]), 1e-6),
    "composition for nobody": lambda: analysis.composition([GaussianShift([])], 1e-6),
    "composition of numbers": lambda: analysis.composition([1, 2], 1e-6),
    "a filter for fewer than nobody": lambda: analysis.RenyiFilter.of(-1, 1.0, 1e-6),
    "a charge for others": lambda: analysis.RenyiFilter.of(3, 1.0, 1e-6).charge(GaussianShift([0.1] * 3), used=[True]),
    "a chain of nobody": lambda: chain(GaussianShift([]), 1e-6),
    "a chain with other deltas": lambda: analysis.chain_bound([1.0, 2.0], [0.1, 0.1, 0.1]),
    "a group with a hole": lambda: analysis.group(RELEASE, FIT, NAN, Y[:2]),
    "a group with a missing target": lambda: analysis.group(RELEASE, FIT, X[:2], np.array([1.0, np.nan])),
    "a group with targets in columns": lambda: analysis.group(RELEASE, FIT, X[:2], Y[:2, None]),
    "nobody as a group": lambda: analysis.group(RELEASE, FIT, X[:0], Y[:0]),
    "odds that are sure": lambda: analysis.posterior_odds([1.0], 0.0),
    "odds of NaN": lambda: analysis.posterior_odds([np.nan], 0.5),
    "a negative loss": lambda: analysis.odds_bound([-1.0], 1e-6),
    "a negative delta": lambda: analysis.odds_bound([1.0], -1.0),
    "stability of a negative loss": lambda: analysis.stability(-1.0, 0, 0, 0),
    "stability of NaN": lambda: analysis.stability(np.nan, 0, 0, 0),
    "total variations of others": lambda: analysis.generalization([[0.1, 0.2]], 1e-6, tv=[[0.1, 0.2, 0.3]]),
    "a total variation of 2": lambda: analysis.generalization([[0.1, 0.2]], 1e-6, tv=[[0.1, 2.0]]),
    "only the target's variation": lambda: analysis.generalization([[0.1]], 1e-6, tv_target=[[0.1]]),
    "weights of others": lambda: analysis.generalization([[0.1, 0.2]], 1e-6, weights=[1.0, 1.0, 1.0]),
    "a negative tolerance": lambda: analysis.everyone(RELEASE, FIT, 1e-6, tolerance=-1.0),
    "a tolerance of NaN": lambda: analysis.everyone(RELEASE, FIT, 1e-6, tolerance=np.nan),
    "a bound in words": lambda: analysis.everyone(RELEASE, FIT, 1e-6, x_bound="wide"),
    "one with too few features": lambda: analysis.one_person(RELEASE, [1.0, 2.0], 1.0, [(X, Y)]),
    "one with a hole": lambda: analysis.one_person(RELEASE, [1.0, 2.0, np.nan], 1.0, [(X, Y)]),
    "a prior about other features": lambda: analysis.over_random_tables(
        RELEASE, lambda rng: (X, Y), (X[:1, :2], Y[:1]), draws=1
    ),
    "no features": lambda: analysis.worst_case_dp(RELEASE, 1e-6, n=10, d=0),
    "fewer than nobody": lambda: analysis.worst_case_dp(RELEASE, 1e-6, n=-1, d=2),
    "a data set without the last person": lambda: next(analysis.subsets(X, Y, 30, 1, np.random.default_rng(0))),
    "a person who joins no data set": lambda: analysis.one_person(RELEASE, [1.0], 0.0, []),
    "half a person": lambda: analysis.worst_case_dp(RELEASE, 1e-6, n=2.5, d=2),
    "losses in words": lambda: analysis.moments(["HIV+"]),
    "a tail in words": lambda: analysis.share_above([1.0], "far"),
    "a quantile of words": lambda: analysis.quantile(["0.5"], 0.5),
    "masked losses": lambda: analysis.moments(np.ma.array([1.0, 9.0], mask=[False, True])),
    "complex losses": lambda: analysis.posterior_odds(np.array([1.0 + 2.0j]), 0.5),
    "odds of dates": lambda: analysis.posterior_odds([1.0], np.array(["2020-01-01"], dtype="datetime64[D]")),
    "odds in words": lambda: analysis.identification(ONE, "even"),
    "a delta in words": lambda: analysis.odds_bound([1.0], "small"),
    "an advanced bound of NaN": lambda: analysis.advanced_bound([np.nan], 1e-6),
    "an advanced bound of a negative loss": lambda: analysis.advanced_bound([-1.0], 1e-6),
    "an advanced bound at a word": lambda: analysis.advanced_bound([1.0], "small"),
    "a chain of words": lambda: analysis.chain_bound(["1.0"], 1e-6),
    "stability in words": lambda: analysis.stability("x", 0, 0, 0),
    "losses of a table of words": lambda: analysis.generalization([["HIV+"]], 1e-6),
    "a total variation in words": lambda: analysis.generalization([[0.1]], 1e-6, tv=["x"]),
    "coefficients in words": lambda: analysis.efficiency(np.eye(1), 1.0, 1.0, 1.0, ["x"]),
    "bounds of rows of different lengths": lambda: analysis.everyone(RELEASE, FIT, 1e-6, x_bound=[[1.0], [1.0, 2.0]]),
    "a person who is not there": lambda: analysis.personal_dp(RELEASE, [1.0, np.nan], 0.0, 1e-6, n=10),
}


@pytest.mark.parametrize("case", REFUSED)
def test_nonsense_is_refused(case):
    with pytest.raises(InvalidInput) as caught:
        REFUSED[case]()
    assert "HIV+" not in str(caught.value)


def test_infinite_losses_stay_infinite():
    assert analysis.moments([np.inf, 1.0], 2).variance == np.inf
    assert analysis.moments([1e200, 1.0], 4).raw[3] == np.inf
    assert analysis.bootstrap([1.0, np.inf], rng=np.random.default_rng(0)).high.tolist() == [np.inf, np.inf]
    assert analysis.bootstrap([1.0, 1.0, np.inf], 0.9, rng=np.random.default_rng(0)).high[0] == np.inf
    assert analysis.generalization([[0.1, np.inf]], 1e-6).bound == np.inf
    assert analysis.generalization([[np.inf]], 0.0, population=True).bound == np.inf
    assert analysis.composition([GaussianShift([np.inf, 0.1]), GaussianShift([0.1, 0.1])], 1e-6).exact[0] == np.inf


def test_one_person_is_enough():
    assert analysis.moments([2.0], 2).variance == 0
    assert analysis.variants(ONE, 1e-6)["approximate"].shape == (1,)
    assert analysis.composition([ONE], 1e-6).exact == pytest.approx(ONE.epsilon(1e-6))
    assert chain(ONE, 1e-6).epsilon == pytest.approx(float(ONE.epsilon(1e-6)[0]))
    assert analysis.generalization([[0.1]], 1e-6).people == 1
    alone = analysis.one_person(RELEASE, X[0], 1.0, [(X[:1], Y[:1])])
    assert np.isfinite(alone.epsilon).all() and alone.kind == "exact"


@pytest.mark.parametrize("name", analysis.__all__)
def test_each_name_is_a_function_or_a_frozen_record(name):
    thing = getattr(analysis, name)
    assert callable(thing) and thing.__doc__
    if isinstance(thing, type):
        assert is_dataclass(thing) and thing.__dataclass_params__.frozen
        if name not in ("Between", "KeyQuantity", "PrivateBound"):
            assert {"kind", "assumptions"} <= set(thing.__dataclass_fields__), name


def test_a_function_wins_over_the_module_of_its_name():
    code = "import perinstance.analysis.worst_case, perinstance.analysis.random_tables as m;"
    code += "from perinstance import analysis;"
    code += "assert callable(analysis.everyone) and callable(analysis.one_person) and callable(analysis.group)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_not_there():
    with pytest.raises(AttributeError):
        analysis.nothing  # noqa: B018 - asking is the test
