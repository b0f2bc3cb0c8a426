"""Draws of Student noise: the same grid point as 400 digits give, the right law, refusals."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from mpmath import mpf

import perinstance as pi
from perinstance.errors import InvalidInput
from perinstance.sampling.ideal_laws import DealtBits, ExactStudent, settle
from perinstance.sampling.known_answers import StreamBits
from tests.sampling import reference

BITS = 1300  # of the reference, as many as 400 digits hold


def uniform(bits) -> tuple[int, mpf]:
    """Sign and V of a bit string, as ``variates`` reads it."""
    whole = bits.prefix(BITS)
    return whole >> (BITS - 1), (mpf(whole & ((1 << (BITS - 1)) - 1)) + mpf(1) / 2) / mpf(2) ** (BITS - 1)


def normal(bits) -> mpf:
    sign, V = uniform(bits)
    return (-1 if sign else 1) * mpmath.sqrt(2) * mpmath.erfinv(1 - V)


@pytest.mark.parametrize("nu", [1, 2, 5])
@pytest.mark.parametrize("seed", range(8))
def test_the_grid_point_is_that_of_many_digits(nu, seed):
    strings = [StreamBits(f"student {nu} {seed} {i}") for i in range(3)]
    center, scale = [0.1, -3.0, 7.25], 1.7
    parts = 1 + nu // 2 + nu % 2
    with mpmath.workdps(reference.DIGITS):
        shares = [DealtBits(strings[0], k, parts) for k in range(parts)]
        g = sum((-2 * mpmath.log(uniform(one)[1]) for one in shares[1 : 1 + nu // 2]), mpf(0))
        g += normal(shares[-1]) ** 2 if nu % 2 else 0
        z = [normal(bits) for bits in (shares[0], *strings[1:])]
        truth = [mpf(c) + mpf(scale) * v / mpmath.sqrt(g / nu) for c, v in zip(center, z, strict=True)]
        assert settle(ExactStudent(center, scale, nu), strings, -40) == reference.rounded(truth, -40)


def test_bits_are_dealt_out_and_never_change():
    whole = StreamBits("dealt")
    shares = [DealtBits(whole, k, 3) for k in range(3)]
    bits = format(whole.prefix(300), "0300b")
    for k, share in enumerate(shares):
        assert format(share.prefix(100), "0100b") == bits[k::3]
        assert share.prefix(40) == share.prefix(100) >> 60


@pytest.mark.parametrize("wrong", [0, 2.5, 1001, True, -3, "a", None, float("nan"), float("inf")])
def test_degrees_of_freedom_are_whole(wrong):
    with pytest.raises(InvalidInput, match="degrees_of_freedom"):
        ExactStudent([0.0], 1.0, wrong)
    X, y = np.ones((3, 1)), np.arange(3.0)
    for use in (lambda release: pi.audit(release, X, y), lambda release: release.fit(X, y)):
        with pytest.raises(InvalidInput, match="degrees_of_freedom must be a whole number"):
            use(pi.StudentPerturbation(degrees_of_freedom=wrong))


def test_scale_is_positive():
    with pytest.raises(InvalidInput, match="scale"):
        ExactStudent([0.0], 0.0, 4)
