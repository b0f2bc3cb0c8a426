"""``calibrate``, ``epsilon`` and ``perinstance choose``: the smallest noise, what training costs, what is compared."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from perinstance.errors import InvalidInput
from tests.cli.conftest import people, run, table  # noqa: F401 - fixtures

RNG = np.random.default_rng(3)
X = RNG.uniform(-0.5, 0.5, size=(300, 3))
Y = np.clip(X @ [1.0, -1.0, 0.5] + RNG.normal(scale=0.1, size=300), -1, 1)
RIDGE = Ridge(alpha=5.0, fit_intercept=False)
RELEASES = {
    "output": pi.OutputPerturbation(RIDGE, scale=1.0),
    "posterior": pi.PosteriorSample(alpha=50.0, gamma=1.0),
    "classifier": pi.OutputPerturbation(LogisticRegression(), scale=1e-3),
}


@pytest.mark.parametrize("name", RELEASES)
def test_the_smallest_noise_over_a_table(name):
    y = (Y > 0).astype(int) if name == "classifier" else Y
    found = pi.calibrate(RELEASES[name], X, y, epsilon=0.7, over="table")
    assert pi.audit(found.release, X, y).losses.max() == found.epsilon <= 0.7 and "Confidential" in found.note
    less = found.value * (1.01 if found.parameter == "gamma" else 0.99)  # the next smaller noise does not keep it
    assert pi.audit(found.release.set_params(**{found.parameter: less}), X, y).losses.max() > 0.7


@pytest.mark.parametrize("name", ["output", "posterior"])
def test_the_smallest_noise_over_bounds_keeps_the_loss_of_every_table(name):
    bounds = {"x_bound": 1.0, "y_bound": 1.0}
    found = pi.calibrate(RELEASES[name], epsilon=1.5, people=300, n_features=3, **bounds)
    worst = pi.analysis.worst_case_dp(found.release, 1e-6, n=300, d=3, **bounds)
    assert found.epsilon == worst.epsilon <= 1.5 < worst.attained * 1.02 + 0.01
    assert pi.audit(found.release, X, Y).losses.max() <= 1.5 and found.over == "bounds"


def test_what_training_costs_is_what_its_pairs_say():
    told = pi.epsilon(noise_multiplier=1.1, rate=0.01, steps=1000, delta=1e-5)
    pairs = pi.pairs.SampledGaussian(0.01, 1 / 1.1, 1000)
    assert told >= pairs.epsilon(1e-5)[0] * (1 - 1e-12) and told == pytest.approx(1.515, abs=2e-3)
    assert pi.epsilon(noise_multiplier=2.0, rate=1, steps=1) >= pi.pairs.GaussianShift(0.5).epsilon(1e-6)[0]


@pytest.mark.parametrize(
    "wrong",
    [{"noise_multiplier": 0}, {"noise_multiplier": "a"}, {"rate": 0}, {"rate": np.nan}, {"steps": 0}, {"steps": 1.5},
     {"delta": 1}, {"delta": -1}],
)  # fmt: skip
def test_what_no_training_has_is_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        pi.epsilon(**({"noise_multiplier": 1.0, "rate": 0.1, "steps": 10} | wrong))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon": -1.0}, "epsilon must be"),
        ({"epsilon": float("nan")}, "epsilon must be"),
        ({"epsilon": 1.0, "over": "everybody"}, "over must be"),
        ({"epsilon": 1.0}, "needs x_bound"),
        ({"epsilon": 1.0, "X": X, "y": Y}, "looks at no table"),
        ({"epsilon": 1.0, "over": "table"}, "needs the table"),
        ({"epsilon": 1.0, "release": pi.AdaSSP()}, "calibrated already"),
        ({"epsilon": 1.0, "release": "ridge"}, "calibrate changes"),
        ({"epsilon": 1e-9, "over": "table", "X": X, "y": Y, "release": pi.PosteriorSample(alpha=0.1)}, "no gamma"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(given, said):
    given = {"release": RELEASES["output"], **given}
    with pytest.raises(InvalidInput, match=said):
        pi.calibrate(**given)


def test_choose(run, table):  # noqa: F811
    asked = ("choose", table.name, "--target", "bmi", "--id", "person", "--feature", "age", "--feature", "dose")
    done = run(*asked, "--x-bound", "4", "--y-bound", "6", "--at", "0.5", "--at", "2")
    assert done.code == 0 and "Confidential: this noise was chosen" in done.out.replace("\n", " ")
    assert re.search(r"^ *0.5 +[0-9.]+ +\S+ +0\.\d+ +0\.\d+ +0\.\d+", done.out, re.MULTILINE), done.out
    record = json.loads(run(*asked, "--method", "posterior", "--at", "0.1", "--json").out)
    frame = people()
    expected = pi.audit(
        pi.PosteriorSample(alpha=1.0, gamma=0.1, fit_intercept=True), frame[["age", "dose"]], frame.bmi
    ).losses.max()
    assert record["confidential"] and record["rows"][0]["max"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--at", "-1"), "--epsilon must be"),
        (("--at", "nan"), "--epsilon must be"),
        (("--method", "adassp"), ""),
        (("--x-bound", "-4"), "--x-bound"),
        (("--y-bound", "text"), "--y-bound must be a number"),
    ],
)
def test_choose_refuses_in_one_sentence(run, table, words, said):  # noqa: F811
    bounds = () if words[0] == "--method" else ("--x-bound", "4", "--y-bound", "6")
    asked = ("--target", "bmi", "--feature", "age", *bounds, *words)
    for name in (table.name,) if said else ("none.csv", "empty.csv"):
        (table.parent / "empty.csv").write_text("")
        done = run("choose", name, *asked)
        assert done.code == 2 and said in done.err and done.err.count("\n") == 1, done.err
