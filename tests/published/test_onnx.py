"""A published model in other tools: scikit-learn's own estimators, and through them ONNX."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from perinstance.published.model_files import model_of
from tests.published.test_model_files import EVERY, X, fitted
from tests.releases.catalogue import CATALOGUE

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed: pip install 'perinstance[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.mark.parametrize(
    "name", [name for name in EVERY if name not in ("process", "mean", "gaussian sum", "slow scaling sum")]
)
def test_onnx_predicts_the_same(name):
    model = model_of(json.loads(fitted(name).to_json()))
    # its classifiers know single precision only
    rows = X.astype(np.float32 if model.numbers.task == "classifier" else np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages
        graph = skl2onnx.to_onnx(model.to_sklearn(), rows[:1])
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    answer = session.run(None, {session.get_inputs()[0].name: rows})[0].reshape(len(X))
    expected = model.predict(X)
    if model.numbers.task == "classifier":
        assert (answer == expected).mean() > 0.95  # a score next to zero may round to the other side in float32
    else:
        assert answer == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_the_catalogue_is_covered():
    assert set(CATALOGUE) <= set(EVERY)
