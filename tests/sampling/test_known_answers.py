"""The grid point of fixed bit strings: Arb enclosures against 400 digits of mpmath."""

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

from perinstance.errors import NumericalTrouble
from perinstance.sampling import (
    ExactGram,
    ExactObjective,
    ExactOutput,
    ExactPosterior,
    Noisy,
    known_answers,
)
from perinstance.sampling.ideal_laws import settle
from perinstance.sampling.known_answers import KNOWN, ROUGH, StreamBits, cases
from tests.sampling import reference

SCALES = [(0.0, 1.0), (0.1, 1e-3), (-7.25, 4.0), (1e6, 1e4), (3.0, 1e-12)]


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(reference.DIGITS):
        yield


def strings(label: str, d: int) -> list[StreamBits]:
    return [StreamBits(f"{label} {i}") for i in range(d)]


def test_known_answers_of_the_self_test():
    X, y, A = known_answers.X, known_answers.y, known_answers.A
    z = {name: [reference.normal(f"{name} {i}") for i in range(2)] for name in KNOWN if name != "laplace"}
    center, s = [mpf(0.1), mpf(-3)], mpf(1.7)
    expected = {
        "gaussian": [c + s * v for c, v in zip(center, z["gaussian"], strict=True)],
        "fine": [c + s * v for c, v in zip(center, z["fine"], strict=True)],
        "laplace": [c + s * reference.laplace(f"laplace {i}") for i, c in enumerate(center)],
        "output": reference.output(X, y, 0.5, 1.7, A, z["output"]),
        "posterior": reference.posterior(X, y, 0.5, 2.3, z["posterior"]),
        "objective": reference.objective(X, y, 0.5, 1.7, z["objective"]),
    }
    assert set(expected) == set(KNOWN) == set(cases())
    for name, (_, exponent) in cases().items():
        assert KNOWN[name] == reference.rounded(expected[name], exponent), name


def test_self_test_notices_a_wrong_answer(monkeypatch):
    monkeypatch.setitem(KNOWN, "posterior", (KNOWN["posterior"][0] + 1, KNOWN["posterior"][1]))
    with pytest.raises(NumericalTrouble, match=r"self-test failed \(posterior\)"):
        known_answers.self_test.__wrapped__()


def agree(i: int, noise: str) -> bool:
    """Check ``(k - 1/2) g <= center + scale z < (k + 1/2) g`` with the distribution function, not its inverse."""
    center, scale = SCALES[i % len(SCALES)]
    label = f"{noise} string {i}"
    (k,) = settle(Noisy([center], scale, noise), [StreamBits(label)], ROUGH)
    negative, V = reference.stream(label)
    low, high = (((k + mpf(h) / 2) * mpf(2) ** ROUGH - mpf(center)) / mpf(scale) for h in (-1, 1))
    if negative:
        low, high = -high, -low
    tail = (lambda t: mpmath.erfc(t / mpmath.sqrt(2))) if noise == "gaussian" else (lambda t: mpmath.exp(-t))
    return bool((low <= 0 or tail(low) >= V) and tail(high) <= V)  # |z| = tail^-1(V), decreasing


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_scalar_draws_of_fixed_strings(noise, count):
    assert [i for i in range(count) if not agree(i, noise)] == []


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_regression_draws_of_fixed_strings(count):
    rng = np.random.default_rng(20)
    wrong = []
    for i in range(count):
        d = 1 + i % 4
        X = rng.standard_normal((6, d)) * 10.0 ** rng.integers(-3, 4, d)
        y, alpha, s = rng.standard_normal(6), float(rng.choice([1e-9, 0.3, 50.0])), 10.0 ** rng.integers(-4, 3)
        A = np.cov(rng.standard_normal((d, 9))).reshape(d, d) + np.eye(d)
        A = (A + A.T) / 2
        gram = ExactGram.of(X, y).normal_equations(alpha)
        z = [reference.normal(f"regression {i} {j}") for j in range(d)]
        for ideal, expected in [
            (ExactPosterior(gram, s), reference.posterior(X, y, alpha, s, z)),
            (ExactObjective(gram, s), reference.objective(X, y, alpha, s, z)),
            (ExactOutput(gram, s, A), reference.output(X, y, alpha, s, A, z)),
        ]:
            if settle(ideal, strings(f"regression {i}", d), ROUGH) != reference.rounded(expected, ROUGH):
                wrong.append((i, type(ideal).__name__))
    assert wrong == []


def test_a_string_that_never_decides_is_reported():
    class Half:
        def prefix(self, n):
            return 1 << (n - 2)  # V = 1/2

    class Zeros:
        def prefix(self, n):
            return 0  # V = 0: probability zero

    quartile = int(mpmath.nint(mpmath.sqrt(2) * mpmath.erfinv(0.5) * 2**40))
    assert settle(Noisy([0.0], 1.0), [Half()], ROUGH) == (quartile,)
    with pytest.raises(NumericalTrouble, match="could not be enclosed"):
        settle(Noisy([0.0], 1.0), [Zeros()], ROUGH)
