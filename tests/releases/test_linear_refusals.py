"""What a linear release refuses, and why."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, HuberRegressor, Lasso, LinearRegression, Ridge, RidgeCV
from sklearn.preprocessing import StandardScaler

import perinstance as pi
from perinstance.errors import InvalidInput, RefusedModel


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        (pi.OutputPerturbation(Lasso()), "not smooth"),
        (pi.OutputPerturbation(ElasticNet()), "not smooth"),
        (pi.OutputPerturbation(RidgeCV()), "chosen by looking at the data"),
        (pi.OutputPerturbation(Ridge(positive=True)), "positive"),
        (pi.OutputPerturbation(LinearRegression(positive=True)), "positive"),
        (pi.OutputPerturbation(Ridge(alpha=[1.0, 2.0])), "single number"),
        (pi.OutputPerturbation(StandardScaler()), "nothing is known"),
        (pi.ObjectivePerturbation(HuberRegressor()), "known for linear, ridge"),
    ],
)
def test_refused_with_the_reason(release, reason):
    with pytest.raises(RefusedModel, match=reason):
        pi.audit(release, np.eye(3), np.ones(3))


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        (pi.OutputPerturbation(Ridge(alpha=-1.0)), "alpha must be a number >= 0"),
        (pi.PosteriorSample(alpha=np.nan), "alpha must be a number >= 0"),
        (pi.PosteriorSample(gamma=0.0), "gamma must be a number > 0"),
        (pi.OutputPerturbation(Ridge(), scale="wide"), "scale must be a number > 0, got str"),
        (pi.OutputPerturbation(Ridge(), precision=np.eye(2)), "precision must be 4 x 4"),
        (pi.OutputPerturbation(Ridge(), precision=-np.eye(4)), "positive definite"),
        (pi.OutputPerturbation(Ridge(), precision=np.triu(np.ones((4, 4)))), "symmetric"),
        (pi.OutputPerturbation(Ridge(), precision=np.full((4, 4), np.nan)), "finite"),
        (pi.ObjectivePerturbation(Ridge(), scale=-1), "scale must be a number > 0"),
    ],
)
def test_parameters_are_validated_when_used(release, reason):
    with pytest.raises(InvalidInput, match=reason):
        pi.audit(release, np.eye(3), np.ones(3))


def test_many_targets_are_refused():
    X = np.eye(3)
    with pytest.raises(InvalidInput, match="2 columns, and a release has one"):
        pi.audit(pi.PosteriorSample(), X, np.ones((3, 2)))
