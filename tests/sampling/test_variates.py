"""Knowing few bits, the ball must contain every variate that longer strings can still become."""

import pytest
from flint import arb

from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.sampling.ball_arithmetic import Undecided
from perinstance.sampling.known_answers import StreamBits
from perinstance.sampling.random_bits import NOISES, variate


class Then:
    """A few given bits, then only zeros or only ones: the two ends of what may come."""

    def __init__(self, first: int, length: int, bit: int) -> None:
        self.first, self.length, self.bit = first, length, bit

    def prefix(self, n: int) -> int:
        rest = n - self.length
        if rest == 0:
            return self.first
        return (self.first << rest) | ((1 << rest) - 1 if self.bit else 1)  # not all zeros: V = 0 has no variate


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("length", [2, 3, 6, 9])
def test_balls_contain_both_ends_of_every_prefix(noise, length):
    with working_precision(400):
        for first in range(1 << length):
            try:
                ball = variate(noise, Then(first, length, 0), length)
            except Undecided:  # V may be 0: no upper bound yet
                assert first & ((1 << (length - 1)) - 1) == 0
                continue
            for bit in (0, 1):
                assert ball.contains(variate(noise, Then(first, length, bit), 300))


@pytest.mark.parametrize("noise", NOISES)
def test_more_bits_give_smaller_balls_around_the_same_variate(noise):
    with working_precision(700):
        for i in range(50):
            bits = StreamBits(f"nested {i}")
            last = variate(noise, bits, 600)
            for n in (12, 20, 53, 192, 384):
                ball = variate(noise, bits, n)
                assert ball.overlaps(last)
                assert ball.contains(last)
                assert ball.rad() < abs(last) * arb((1, 16 - n)) + arb((1, 16 - n))


@pytest.mark.parametrize("noise", NOISES)
def test_the_first_bit_is_the_sign(noise):
    with working_precision(192):
        plus, minus = (variate(noise, Then((sign << 9) | 137, 10, 1), 100) for sign in (0, 1))
        assert plus > 0
        assert (plus + minus).contains(0)
