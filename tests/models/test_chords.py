"""Slopes over intervals stay within their enclosures, and the enclosures are as narrow as they say."""

import numpy as np
import pytest

from perinstance.analysis.within_bounds.by_sphere.slope_enclosure import chords, has_chords
from perinstance.models.losses.catalogue import CATALOGUE
from perinstance.models.losses.smooth import Gamma, Logistic, Poisson, PseudoHuber, SmoothHinge, Squared
from perinstance.models.losses.with_knots import Huber

LOSSES = [Squared(), Logistic(), Poisson(), Gamma(), PseudoHuber(0.7), SmoothHinge(0.3)]
ENCLOSED = [*(loss for loss in CATALOGUE.values() if has_chords(loss)), *LOSSES[4:]]


def targets(loss, rng, n):
    if loss.binary:
        return rng.integers(0, 2, n).astype(float)
    return rng.poisson(2, n).astype(float) + 0.2


@pytest.mark.parametrize("loss", ENCLOSED, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_no_slope_leaves_its_enclosure(loss, share):
    rng = np.random.default_rng(3)
    n = 400
    y, middle = targets(loss, rng, n), 3 * rng.standard_normal(n)
    reach = np.exp(rng.uniform(-9, 1.5, n))
    reach[:20] = 0.0
    found = chords(loss, y, middle, reach, np.full(n, share))
    worst = np.zeros(n)
    for u in np.linspace(-1, 1, 401):
        v = u * reach
        slope = loss.derivatives(y, middle + v)[0]
        worst = np.maximum(worst, np.abs(slope - found.level - v * (found.slope + found.bend * v / 2)))
    assert (worst <= found.off + 1e-13 * (1 + np.abs(found.level))).all()
    if share == 1.0 and not isinstance(loss, Squared):  # chords are met: a narrower claim would be false
        chord = (found.bend == 0) & (found.off > 1e-3)
        assert chord.any() and (worst[chord] > 0.98 * found.off[chord]).all()


@pytest.mark.parametrize("loss", LOSSES[1:], ids=lambda loss: type(loss).__name__)
def test_where_the_curvature_is_what_it_was(loss):
    rng = np.random.default_rng(5)
    y, eta = targets(loss, rng, 50), rng.standard_normal(50)
    found = loss.inverse_curvature(y, loss.curvature(y, eta))
    assert np.min([np.abs(at - eta) for at in found], axis=0).max() < 1e-6
    for at in found:
        assert loss.curvature(y, at) == pytest.approx(loss.curvature(y, eta), rel=1e-6)


def test_losses_with_knots_have_none():
    assert not has_chords(Huber(1.0)) and all(has_chords(loss) for loss in LOSSES)
