"""``perinstance audit --model``: who paid for what was published, by its own pairs; and its refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import perinstance as pi
from tests.cli.conftest import people

FEATURES = ["age", "weight", "dose"]
RELEASES = {
    "adassp": lambda: pi.AdaSSP(epsilon=1.0, delta=1e-6, x_bound=4.0, y_bound=6.0),
    "adaops": lambda: pi.AdaOPS(epsilon=1.0, delta=1e-6, x_bound=4.0, y_bound=6.0),
    "logistic": lambda: pi.PrivateLogisticRegression(epsilon=1.0, delta=1e-6, x_bound=4.0, classes=(0, 1)),
    "descent": lambda: pi.NoisyDescent(Ridge(alpha=1.0), steps=5, learning_rate=0.01, clip=1.0, noise=20.0),
    "unclipped": lambda: pi.NoisyDescent(Ridge(alpha=1.0), steps=5, learning_rate=0.01, noise=20.0),
    "output": lambda: pi.OutputPerturbation(Ridge(alpha=1.0), scale=2.0),
    "classifier": lambda: pi.OutputPerturbation(LogisticRegression(C=0.5), scale=2.0),
    "posterior": lambda: pi.PosteriorSample(alpha=1.0, gamma=0.5),
}


@pytest.mark.parametrize("name", RELEASES)
def test_losses_are_those_of_the_fitted_release(run, tmp_path, name):
    frame, classes = people(), name in ("logistic", "classifier")
    frame["ill"] = (frame.bmi > 0).astype(int)
    target = "ill" if classes else "bmi"
    release = RELEASES[name]().fit(frame[FEATURES], frame[target])
    release.save(tmp_path / "model.json", target=target)
    frame.to_csv(tmp_path / "people.csv", index=False)
    done = run("audit", "people.csv", "--model", "model.json", "--id", "person", "--per-person", "l.csv", "-q")
    assert done.code == 0, done.err
    found = pd.read_csv(tmp_path / "l.csv")
    expected = pi.audit(release, frame[FEATURES], frame[target])
    np.testing.assert_allclose(found.epsilon, expected.losses, rtol=1e-9)
    assert set(found.kind) == set(expected.pairs.kinds)


def test_a_model_says_itself_what_was_published(run, table, tmp_path):
    RELEASES["adassp"]().fit(people()[FEATURES], people().bmi).save(tmp_path / "model.json", target="bmi")
    for words in (("--release", "output"), ("--gamma", "2"), ("--feature", "age"), ("--recipe", "r.toml")):
        done = run("audit", table.name, "--model", "model.json", *words)
        assert done.code == 2 and "--model says itself" in done.err and done.err.count("\n") == 1
    for name, content in (("none.json", None), ("empty.json", ""), ("text.json", "age,weight\n"), ("nan.json", "NaN")):
        if content is not None:
            (tmp_path / name).write_text(content)
        done = run("audit", table.name, "--model", name)
        assert done.code == 2 and name in done.err and done.err.count("\n") == 1
