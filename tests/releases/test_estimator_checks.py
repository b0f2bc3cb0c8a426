"""scikit-learn's own checks. Four of them compare two fits for equality, which a release must not allow."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import perinstance as pi

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
FINE = 2.0**-120  # with noise this small the same checks must pass: nothing but the noise stands in their way

NOISY = [
    pi.OutputPerturbation(scale=0.01),
    pi.PosteriorSample(),
    pi.PosteriorSample(fit_intercept=True),
    pi.ObjectivePerturbation(scale=0.5),
]
QUIET = [
    pi.NoisyMean(),
    pi.NoisyMean(noise="gaussian", statistic="sum"),
    pi.OutputPerturbation(scale=1e-20, grid=FINE),
    pi.PosteriorSample(gamma=1e40, grid=FINE),
    pi.PosteriorSample(gamma=1e40, fit_intercept=True, grid=FINE),
    pi.ObjectivePerturbation(scale=1e-20, grid=FINE),
]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")


@parametrize_with_checks(NOISY, expected_failed_checks=lambda estimator: RANDOM)
def test_noisy_releases(estimator, check):
    check(estimator)


@parametrize_with_checks(QUIET)
def test_quiet_releases(estimator, check):
    check(estimator)
