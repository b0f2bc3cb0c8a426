"""Whatever is passed for a number is taken as that number, or refused in words that quote none of it."""

from __future__ import annotations

import inspect
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from perinstance.errors import InvalidInput
from perinstance.pairs import GaussianShift, SampledGaussian, compose, from_columns
from perinstance.pairs.composition import pairs_of_promise

from .test_catalogue import CATALOGUE

SECRET = "HIV+"
#: Of any shape, in any place: no numbers.
NO_NUMBERS = {
    "text": SECRET,
    "a number as text": "1.0",
    "texts": ["0.1", SECRET],
    "numbers as texts": np.array(["1.0"]),
    "bytes": b"1",
    "arrays of bytes": np.array([b"1"]),
    "NaN": float("nan"),
    "NaNs": [0.1, np.nan],
    "None": None,
    "Nones": [None],
    "a complex number": 1j,
    "complex numbers": np.array([0.5 + 1j]),
    "complex numbers that are real": np.array([0.5 + 0j]),
    "a truth value": True,
    "truth values": np.array([True]),
    "truth values among objects": np.array([0.5, True], dtype=object),
    "objects": np.array([0.1, SECRET], dtype=object),
    "rows of different lengths": [[0.1], [0.1, 0.2]],
    "masked": np.ma.array([0.1, 0.2], mask=[False, True]),
    "missing in pandas": pd.array([0.1, None], dtype="Float64"),
    "pandas.NA": pd.NA,
    "categories": pd.Series([SECRET], dtype="category"),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "durations": np.array([3], dtype="timedelta64[s]"),
    "no date": np.datetime64("NaT"),
    "a mapping": {},
    "a set": {1.0},
    "records": np.zeros(1, dtype=[("a", float)]),
    "beyond floats": 10**400,
    "some beyond floats": [0.1, -(10**400)],
    "long floats beyond": np.array([np.longdouble("1e4000")]),
    "three dimensions": np.ones((1, 1, 1)),
}
#: Of numbers alone.
NUMBERS = {
    "whole": [1, 2],
    "a frame's column": pd.Series([1.0, 2.0], index=[7, 3]),
    "nullable": pd.array([1, 2], dtype="Int64"),
    "decimal": [Decimal("1.0"), Decimal("2.0")],
    "fractions": [Fraction(1), Fraction(4, 2)],
    "short": np.array([1.0, 2.0], dtype=np.float16),
    "unmasked": np.ma.array([1.0, 2.0]),
    "backwards": np.array([1.0, 2.0], dtype=">f8"),
    "a generator's list": list(float(i) for i in (1, 2)),
}
SINGLE = {name: pairs for name, pairs in CATALOGUE.items() if name != "composed"}
PARAMETERS = [(name, column) for name, pairs in SINGLE.items() for column in pairs.parameters()]


def all_refused(call, word: str = "") -> None:
    """Whatever of the table is passed is refused, by the name of the parameter, and no cell is shown."""
    for what, value in NO_NUMBERS.items():
        try:
            call(value)
        except InvalidInput as error:
            assert word in str(error) and SECRET not in str(error), what
            assert error.__context__ is None or error.__suppress_context__, what
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__} instead of words") from error
        else:
            raise AssertionError(f"{what} was taken for {word or 'pairs'}")


@pytest.mark.parametrize(("name", "column"), PARAMETERS)
def test_no_parameter_takes_it(name, column):
    pairs = SINGLE[name]
    all_refused(lambda value: type(pairs)(**{**pairs.parameters(), column: value}), column)


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_question_takes_it(name):
    pairs = CATALOGUE[name][:1]
    all_refused(pairs.epsilon, "delta")
    all_refused(pairs.delta, "epsilon")
    all_refused(pairs.renyi, "alpha")
    all_refused(pairs.attack_power, "false_positive_rate")


def test_no_list_of_pairs_is_made_of_it():
    for call in (
        compose,
        lambda value: compose([value]),
        GaussianShift.concatenate,
        lambda value: GaussianShift([1.0]) + value,
    ):
        all_refused(call)
    all_refused(lambda value: GaussianShift.concatenate([GaussianShift([1.0]), value]))
    all_refused(lambda value: from_columns({"distance": value, "kind": ["exact"]}, "shift/1"), "distance")
    all_refused(lambda value: pairs_of_promise(value, 1e-6, 1), "epsilon")
    all_refused(lambda value: pairs_of_promise(1.0, value, 1), "delta")
    with pytest.raises(InvalidInput, match="list of pairs"):
        compose(GaussianShift([1.0, 2.0]))


def test_no_noise_grows_by_it():
    all_refused(GaussianShift([1.0]).with_noise, "factor")
    all_refused(SampledGaussian(0.1, [1.0], 3).with_noise, "factor")


@pytest.mark.parametrize("what", NO_NUMBERS)
def test_no_word_is_read_in_it(what):
    value = NO_NUMBERS[what]
    with pytest.raises(InvalidInput, match="kind"):
        GaussianShift([1.0], kind=value)
    with pytest.raises(InvalidInput, match="direction"):
        GaussianShift([1.0]).epsilon(1e-6, value)


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_are_numbers(what):
    """However they are kept, the pairs are those of 1 and 2, bit for bit."""
    for make in (
        GaussianShift,
        lambda value: SampledGaussian(0.5, value),
        lambda value: SampledGaussian(0.5, 1.0, value),
    ):
        assert make(NUMBERS[what]).epsilon(1e-5).tolist() == make(np.array([1.0, 2.0])).epsilon(1e-5).tolist()


def test_steps_rates_and_distances_have_their_ranges():
    for changed in ({"rate": 1.5}, {"rate": np.inf}, {"rate": -0.1}, {"distance": np.inf}, {"distance": -1.0}):
        with pytest.raises(InvalidInput, match=next(iter(changed))):
            SampledGaussian(**{"rate": 0.1, "distance": 1.0, "steps": 3, **changed})
    for steps in (2.5, -1, np.inf, 2.0**54):
        with pytest.raises(InvalidInput, match="steps"):
            SampledGaussian(0.1, 1.0, steps)


def test_words_of_a_frame_are_words():
    frame = GaussianShift([1.0, 2.0], kind=["exact", "estimate"]).to_frame()
    assert GaussianShift(frame["distance"], kind=frame["kind"]).kinds.tolist() == ["exact", "estimate"]


def test_every_parameter_is_asked_for():
    """So that the table above misses none."""
    for pairs in SINGLE.values():
        names = set(inspect.signature(type(pairs)).parameters) - {"kind"}
        assert names == set(pairs.parameters())
