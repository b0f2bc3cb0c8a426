"""An empirical audit of whole mechanisms: the best attack on chosen neighbours, with confidence bounds on its success.

The attacker sees everything that is released and uses the exact likelihood ratio: as sharp as draws allow.
"""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.releases.adaops import mechanism as adaops_mechanism
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.promises.declared_box import box_of

from ..sampling.empirical import delta_lower_bound
from .slow_roads import losses_watched

NOBODY = np.zeros((0, 1)), np.zeros(0)
ONE = np.array([[1.0]]), np.array([1.0])


def ada_ops(epsilon, delta):
    """n_public = 1 and a high floor make the bounds tight for this pair: nothing is hidden behind slack."""
    spent = adaops_mechanism.plan(adaops_mechanism.Request(epsilon, delta, 1.0, 1.0, 1, 1, 1e-3))
    return lambda window: adaops_mechanism.run(spent, window)


def ada_ssp_robust(epsilon, delta):
    """Everything: standardised columns, an intercept, robust intervals; a public n, so that columns are looked at."""
    spent = adassp_mechanism.spend(epsilon, delta, BOX, None, 2, n_public=1, robust=True)
    return lambda window: adassp_mechanism.run(spent, window)


def ada_ops_whole(epsilon, delta):
    """With the first estimate and the coordinates that follow from it."""
    request = adaops_mechanism.Request(epsilon, delta, BOX.x_bound, 1.0, 2, 1, 1e-3, box=BOX)
    spent = adaops_mechanism.plan(request)
    return lambda window: adaops_mechanism.run(spent, window)


BOX = box_of([(-4.0, 6.0)], (0.0, 8.0), 1, True)
CORNER = BOX.rows(np.array([[6.0]]), np.array([8.0]))
IN_A_BOX = (np.zeros((0, 2)), np.zeros(0)), (CORNER.X, CORNER.y)


def found(mechanism, epsilon, draws, pair=(NOBODY, ONE)):
    """Lower bounds on the hockey-stick divergence at epsilon, P without the person over Q with them and Q over P."""
    p, q = losses_watched(mechanism, pair, draws)  # log p/q under P, then log q/p under Q
    return [delta_lower_bound(a > epsilon, b > epsilon, epsilon) for a, b in ((p, -q), (q, -p))]


@pytest.mark.parametrize(
    ("mechanism", "pair", "part", "few"),
    [
        (ada_ops, (NOBODY, ONE), 0.5, 1500),
        (ada_ssp_robust, IN_A_BOX, 0.3, 600),
        (ada_ops_whole, IN_A_BOX, 0.1, 600),
    ],
)
@pytest.mark.parametrize(
    ("epsilon", "delta", "times"), [(0.3, 0.3, 1), pytest.param(1.0, 0.05, 100, marks=pytest.mark.slow)]
)
def test_no_violation_is_found_and_a_good_part_of_delta_is_refuted(mechanism, pair, part, few, epsilon, delta, times):
    worst = max(found(mechanism(epsilon, delta), epsilon, few * times, pair))
    assert worst <= delta
    assert worst > delta * part


def test_the_attack_does_find_a_broken_promise():
    """A control: the same audit of a release that spent three times the epsilon it claims must fail."""
    assert max(found(ada_ops(3.0, 0.05), 1.0, 1_000)) > 0.05
