"""Knowing few bits, the ball must contain every variate that longer strings can still become."""

import pytest

from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.sampling.ball_arithmetic import Undecided
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
def test_the_first_bit_is_the_sign(noise):
    with working_precision(192):
        plus, minus = (variate(noise, Then((sign << 9) | 137, 10, 1), 100) for sign in (0, 1))
        assert plus > 0
        assert (plus + minus).contains(0)
