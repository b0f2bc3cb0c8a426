"""scikit-learn's own checks. Four of them compare two fits for equality, which a release must not allow."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import perinstance as pi
from tests.releases.catalogue import QUIET

TWO_FITS = "compares two fits for equality: a release draws anew each time and cannot be seeded"
RANDOM = dict.fromkeys(
    [
        "check_regressor_data_not_an_array",
        "check_supervised_y_2d",
        "check_regressors_int",
        "check_fit_idempotent",
    ],
    TWO_FITS,
)

NOISY = [
    pi.OutputPerturbation(scale=0.01),
    pi.PosteriorSample(),
    pi.PosteriorSample(fit_intercept=True),
    pi.ObjectivePerturbation(scale=0.5),
]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")


@parametrize_with_checks(NOISY, expected_failed_checks=lambda estimator: RANDOM)
def test_noisy_releases(estimator, check):
    check(estimator)


@parametrize_with_checks(QUIET)
def test_quiet_releases(estimator, check):
    check(estimator)
