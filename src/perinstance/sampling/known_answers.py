"""Known answers, before the first draw of a process: a broken dependency must not make a broken release.

The strings are SHAKE-256 streams. The answers were computed with 400 digits of mpmath, by the roads of
``tests/sampling/test_known_answers.py``, which recomputes them.
"""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np

from perinstance.errors import NumericalTrouble
from perinstance.sampling.exact_gram import ExactGram
from perinstance.sampling.ideal_laws import ExactObjective, ExactOutput, ExactPosterior, Ideal, Noisy, settle
from perinstance.sampling.random_bits import SystemBits

X = np.array([[0.1, -0.7], [1.3, 0.2], [-0.4, 2.5]])
y = np.array([0.3, -1.1, 0.9])
A = np.array([[2.0, 0.5], [0.5, 1.0]])
ROUGH, FINE = -40, -300  # the fine grid needs a second attempt, hence appended bits


class StreamBits:
    """A fixed, public bit string: for known answers only. A release made with it would not be private."""

    def __init__(self, label: str) -> None:
        self._label = label.encode()

    def prefix(self, n: int) -> int:
        """Return the first n bits of the stream."""
        size = -(-n // 8)
        return int.from_bytes(hashlib.shake_256(self._label).digest(size), "big") >> (8 * size - n)


def cases() -> dict[str, tuple[Ideal, int]]:
    """Return one small draw of each kind, and the exponent of its grid."""
    equations = ExactGram.of(X, y).normal_equations(0.5)
    return {
        "gaussian": (Noisy([0.1, -3], scale=1.7), ROUGH),
        "fine": (Noisy([0.1, -3], scale=1.7), FINE),
        "laplace": (Noisy([0.1, -3], scale=1.7, noise="laplace"), ROUGH),
        "output": (ExactOutput(equations, scale=1.7, A=A), ROUGH),
        "posterior": (ExactPosterior(equations, gamma=2.3), ROUGH),
        "objective": (ExactObjective(equations, scale=1.7), ROUGH),
    }


def answer(name: str) -> tuple[int, ...]:
    """Return the grid point of one case."""
    ideal, exponent = cases()[name]
    return settle(ideal, [StreamBits(f"{name} {i}") for i in range(ideal.d)], exponent)


KNOWN: dict[str, tuple[int, ...]] = {
    "gaussian": (3027011687201, -2912792030637),
    "fine": (
        834256856909278630465594614487678723532964389033295306916504181484671207600234392793306151,
        -9136923897247797087196429987750954087027836634606033027032297391434680140418633637906280727,
    ),
    "laplace": (2498556669394, -5662718817755),
    "output": (-4142123057708, 1866529484447),
    "posterior": (-1302169224797, 193249792670),
    "objective": (-930451831692, -183909396777),
}


@cache
def self_test() -> None:
    """Check every known answer, and that the system's randomness is not stuck; once per process."""
    for name, known in KNOWN.items():
        if answer(name) != known:
            raise NumericalTrouble(
                f"the sampler's self-test failed ({name}): numpy or python-flint does not compute what it should; "
                "nothing was released; reinstall them and run the tests"
            )
    if len({SystemBits().prefix(128) for _ in range(8)}) < 8:
        raise NumericalTrouble("the operating system's randomness repeats itself; nothing was released")
