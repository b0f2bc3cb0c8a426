"""Whatever is passed for a parameter is that number, or is refused in words before any row is looked at."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from perinstance.errors import PerinstanceError

from ..pairs.test_bad_input import NO_NUMBERS, SECRET
from .catalogue import CATALOGUE

VALUES = {**NO_NUMBERS, "infinity": np.inf, "less than nothing": -1.0, "an empty list": []}
#: What None says: nothing declared, no clipping, no promise.
NONE = {"clip", "delta", "epsilon", "filter", "intervals", "kappa", "n_public", "precision"}
NONE |= {"residual_bound", "rows_per_person", "weight_bound"}
#: Parameters that are no numbers; words and models are refused in other tests.
OTHERS = {"estimator", "classes"}
EVERY = {
    (type(example.release), parameter): example
    for example in CATALOGUE.values()
    for parameter in example.release.get_params(deep=False)
    if parameter not in OTHERS
}


@pytest.mark.parametrize(("release", "parameter"), EVERY, ids=[f"{kind.__name__}-{name}" for kind, name in EVERY])
def test_no_parameter_takes_it(release, parameter):
    example = EVERY[release, parameter]
    for what, value in VALUES.items():
        if (what == "None" and parameter in NONE) or (what == "a truth value" and parameter == "fit_intercept"):
            continue
        changed = clone(example.release).set_params(**{parameter: value})
        try:
            changed.fit(example.X, *(() if example.y is None else (example.y,)))
        except PerinstanceError as error:
            assert error.__context__ is None or error.__suppress_context__, what
            assert SECRET not in str(error) or parameter in str(error), (
                what
            )  # of what was declared a word may be quoted
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__} instead of words") from error
        else:
            raise AssertionError(f"{what} was taken for {parameter}")
