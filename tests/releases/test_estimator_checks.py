"""scikit-learn's own checks, once for each release that a table decides alone: but for noise they pass all."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tests.releases.catalogue import QUIET

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")


@parametrize_with_checks(QUIET)
def test_quiet_releases(estimator, check):
    check(estimator)
