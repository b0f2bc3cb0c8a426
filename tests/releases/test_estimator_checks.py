"""scikit-learn's own checks, once for each release: but for noise, and for what would tell of rows, they pass all."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import perinstance as pi

from .catalogue import QUIET

TWO_FITS = "compares two fits for equality: a release draws anew each time and cannot be seeded"
TOLD = "under a promise no row is refused, nor a table without rows: a refusal would tell"
DECLARED = "classes are declared; other labels are missing"
PROMISED = {
    "check_regressor_data_not_an_array": TWO_FITS,
    "check_supervised_y_2d": TWO_FITS,
    "check_regressors_int": TWO_FITS,
    "check_fit_idempotent": TWO_FITS,
    "check_estimators_nan_inf": TOLD,
    "check_supervised_y_no_nan": TOLD,
    "check_estimators_empty_data_messages": TOLD,
    "check_dtype_object": "a cell that is no number is refused with InvalidTable, which is no TypeError",
}
OF_CLASSES = {name: why for name, why in PROMISED.items() if "regressor" not in name} | {
    "check_classifiers_classes": DECLARED,
    "check_classifiers_regression_target": DECLARED,
    "check_classifier_not_supporting_multiclass": DECLARED,
}
LOUD = [
    pi.AdaSSP(x_bound=1.0, y_bound=1.0),
    pi.AdaOPS(x_bound=1.0, y_bound=1.0),
    pi.NoisyDescent(steps=3, noise=1.0),
    pi.PrivateLogisticRegression(epsilon=1e9, delta=1e-2, x_bound=10.0, rounds=3),  # next to no noise
]


def failing(release):
    if release in LOUD:
        return OF_CLASSES if release is LOUD[-1] else PROMISED
    return {}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::perinstance.errors.ClassesNotDeclared")  # scikit-learn passes lists too
@parametrize_with_checks([*QUIET, *LOUD], expected_failed_checks=failing)
def test_releases(estimator, check):
    check(estimator)
