"""Lines of more digits: every product, moment, sum and answer against balls, and against roads that share nothing."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from flint import acb, arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from perinstance.numerics.double_double_complex import product, reciprocals, total
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import PAIR_POLE, PAIR_PRODUCT, PAIR_SUM
from perinstance.pairs import SampledGaussian
from perinstance.pairs.loss_sums.sampled import epsilon as by_lines
from perinstance.pairs.loss_sums.sampled.lattice import answers as by_lattice
from perinstance.pairs.loss_sums.sampled.lines import line_integral
from perinstance.pairs.loss_sums.sampled.log_moments import StepKind, divergence_of, fill_log_moments
from perinstance.pairs.loss_sums.sampled.more_digits import line_answer, precise_answers
from perinstance.pairs.loss_sums.sampled.more_digits.ball_integral import ball_line, moments_in_balls
from perinstance.pairs.loss_sums.sampled.more_digits.noise_balls import NotPreciseError
from perinstance.pairs.loss_sums.sampled.more_digits.pair_integral import pair_line
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import in_pairs, moments_in_pairs
from perinstance.pairs.loss_sums.sampled.more_digits.pair_sums import LANES, TURN, additions, fill_sums

from .test_few_steps_table import ROWS, _kind, _numbers

floats = st.floats(-1.0, 1.0).filter(lambda x: x == 0.0 or abs(x) > 1e-20)
low = st.floats(-(2.0**-53), 2.0**-53).filter(lambda x: x == 0.0 or abs(x) > 1e-40)


@st.composite
def pairs_of_floats(draw):
    """A complex number as a pair: low parts are at most half a unit in the last place."""
    high = complex(draw(floats), draw(floats))
    return high, complex(high.real * draw(low), high.imag * draw(low))


def _exact(high: complex, low: complex) -> tuple[Fraction, Fraction]:
    return Fraction(high.real) + Fraction(low.real), Fraction(high.imag) + Fraction(low.imag)


def _size(a: tuple[Fraction, Fraction]) -> float:
    return math.hypot(float(a[0]), float(a[1]))


@given(pairs_of_floats(), pairs_of_floats())
def test_products_and_sums_of_pairs(a, b):
    """In rationals: no product loses more than ``PAIR_PRODUCT`` of its size, no sum more than ``PAIR_SUM``."""
    x, y = _exact(*a), _exact(*b)
    found, true = _exact(*product(*a, *b)), (x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0])
    assert _size((found[0] - true[0], found[1] - true[1])) <= PAIR_PRODUCT * _size(x) * _size(y)
    found = _exact(*total(*a, *b))
    assert _size((found[0] - x[0] - y[0], found[1] - x[1] - y[1])) <= PAIR_SUM * (_size(x) + _size(y))


def _rows(pairs) -> np.ndarray:
    """Complex pairs as four rows, filled up with zeros."""
    out = np.zeros((4, -(-len(pairs) // LANES) * LANES))
    for i, (high, rest) in enumerate(pairs):
        out[:, i] = high.real, high.imag, rest.real, rest.imag
    return out


def _sum_at(out: np.ndarray, node: int) -> tuple[Fraction, Fraction]:
    return _exact(complex(*out[:2, node]), complex(*out[2:, node]))


@given(pairs_of_floats(), st.lists(pairs_of_floats(), min_size=3, max_size=3), st.integers(0, LANES - 1))
def test_products_in_eights(a, factors, lane):
    """One term in some lane, in rationals: turned by each of its three factors."""
    nothing = [(0j, 0j)] * lane
    turns = np.stack([_rows([*nothing, factor]) for factor in factors])
    out = np.empty((4, TURN**2 + 1))
    fill_sums(_rows([*nothing, a]), turns, out)
    x = _exact(*a)
    assert _sum_at(out, 0) == x
    for node, factor in zip((1, TURN, TURN**2), factors, strict=True):
        y, found = _exact(*factor), _sum_at(out, node)
        off = found[0] - (x[0] * y[0] - x[1] * y[1]), found[1] - (x[0] * y[1] + x[1] * y[0])
        assert _size(off) <= PAIR_PRODUCT * _size(x) * _size(y)


@pytest.mark.parametrize("noise", [1, 7, 8, 9, 128, 129, 2500])
@pytest.mark.parametrize("nodes", [1, 31, 33, 1060])
def test_sums_in_eights(noise, nodes):
    """As many terms as there may be, at the last of as many nodes, in rationals; factors are turns, about."""
    rng = np.random.default_rng([noise, nodes])
    angles = rng.uniform(-2.0, 2.0, noise)
    weights = [(complex(w), complex(w * 2.0**-60)) for w in rng.uniform(0.0, 1.0, noise)]
    turns = [[(complex(math.cos(a * n), math.sin(a * n)), 0j) for a in angles] for n in (1, TURN, TURN**2)]
    out = np.empty((4, nodes))
    fill_sums(_rows(weights), np.stack([_rows(each) for each in turns]), out)
    last = nodes - 1
    counts = last % TURN, last // TURN % TURN, last // TURN**2
    true = [Fraction(0), Fraction(0)]
    for i in range(noise):
        x = _exact(*weights[i])
        for count, factors in zip(counts, turns, strict=True):
            y = _exact(*factors[i])
            for _ in range(count):
                x = x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]
        true = [true[0] + x[0], true[1] + x[1]]
    found = _sum_at(out, last)
    allowed = (1.0 + sum(counts)) * PAIR_PRODUCT + additions(noise) * PAIR_SUM
    assert _size((found[0] - true[0], found[1] - true[1])) <= 1.01 * allowed * sum(abs(w) for w, _ in weights)


@given(pairs_of_floats().filter(lambda a: abs(a[0]) > 1e-3))
def test_reciprocals_of_pairs(a):
    """The largest error of a pole is that of one Newton step."""
    x, g = _exact(*a), _exact(*reciprocals(*a)[:2])
    off = x[0] * g[0] - x[1] * g[1] - 1, x[0] * g[1] + x[1] * g[0]
    assert _size(off) <= 0.5 * PAIR_POLE


def _moment(q: float, m: float, over: bool, z: acb) -> acb:
    """The same integral along the real line, by flint's own quadrature."""

    def integrand(x, _):
        w = 1 - arb(q) + arb(q) * (arb(m) * x - arb(m) ** 2 / 2).exp()
        loss = w.log() if over else -w.log()
        return (z * loss - x * x / 2).exp() * (w if over else 1) / (2 * arb.pi()).sqrt()

    return acb.integral(integrand, -39, 39 + m, rel_tol=arb(2) ** -140, abs_tol=arb(2) ** -140)


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize(
    ("q", "m", "place"), [(1e-6, 1.0, (17.4, 2.0)), (3e-4, 0.4, (60.0, 4.0)), (0.2, 2.5, (1.0, 0.05))]
)
def test_moments_are_enclosed(q, m, place, over):
    """Pairs are off by less than they say, balls contain the truth; at the first nodes and after every kind of turn."""
    nodes = 1100
    pairs = moments_in_pairs(q, m, over, place, nodes)
    assert pairs.errors.max() < 1e-24 * abs(pairs.values[0, 0])
    balls = moments_in_balls(q, m, over, place, nodes, 192)
    with ctx.workprec(220):
        for k in (0, 1, 31, 32, 63, 1023, 1024, 1099):
            true = _moment(q, m, over, acb(place[0], arb(place[1]) * k))
            high, low = (acb(part.real, part.imag) for part in pairs.values[:, k])
            assert abs(high + low - true) < arb(pairs.errors[k])
            assert balls[k].overlaps(true)
            assert balls[k].rad() < arb(2) ** -150


def test_wide_balls_are_not_rounded():
    """Balls of fewer digits than asked for, as another thread might cause, are refused."""
    with ctx.workprec(60), pytest.raises(NotPreciseError, match="too wide"):
        in_pairs([acb(1) / 3])
    with pytest.raises(NotPreciseError, match="rate"):
        moments_in_pairs(1e-3, 1.0, True, (1e3, 1.0), 10)


def _both_lines(q: float, m: float, steps: float, over: bool, place: tuple[float, float], nodes: int):
    pairs = pair_line([(moments_in_pairs(q, m, over, place, nodes), steps)], place, nodes, 1e-30)
    balls = ball_line([(moments_in_balls(q, m, over, place, nodes, 192), steps)], place, nodes, 1e-30, 192)
    return pairs, balls


@pytest.mark.parametrize("over", [True, False])
def test_pairs_and_balls_agree(over):
    """The bound in pairs is above the one in balls, by no more than it has charged; slopes are those of differences."""
    pairs, balls = _both_lines(2e-5, 0.9, 300_000.0, over, (12.0, 1.5), 1000)
    for epsilon in (0.0, 0.02, 0.1):
        (log, slope), (least, rate) = pairs.log_bound(epsilon), balls.log_bound(epsilon)
        room = 1.01 * pairs.charged(epsilon, least) + 1e-13
        assert least - 1e-14 * (1 + abs(least)) <= log <= least + room
        assert slope == pytest.approx(rate, rel=1e-4)
        nearby = balls.log_bound(epsilon + 1e-7)[0]
        assert (least - nearby) / 1e-7 == pytest.approx(rate, rel=1e-3)
        assert balls.charged(epsilon, least) <= pairs.charged(epsilon, least)


def test_vague_terms_count_twice():
    """Where moments have large errors, or powers vanish, nothing is taken for known."""
    place, nodes = (2.0, 0.5), 64
    moments = moments_in_pairs(0.3, 1.5, True, place, nodes)
    exact = pair_line([(moments, 40.0)], place, nodes, 0.0)
    vague = type(moments)(moments.values, np.full(nodes, 1e-2 * abs(moments.values[0, 0])))
    rough = pair_line([(vague, 40.0)], place, nodes, 0.0)
    assert rough.log_bound(3.0)[0] > exact.log_bound(3.0)[0] + 0.3
    many = pair_line([(moments, 1e6)], place, nodes, 0.0)  # the second term is far below 1e-140
    assert (many.terms[:, 8:] == 0.0).all()
    assert 0.0 < many.lost < 1e-20


@pytest.mark.parametrize("over", [True, False])
@pytest.mark.parametrize(
    ("q", "m", "place"),
    [(1e-6, 0.3, (300.0, 900.0)), (1e-4, 1.5, (2.0, 37.0)), (0.01, 1.0, (5.0, 2.0)), (0.6, 0.2, (0.5, 1.5))],
)
def test_log_moments_are_enclosed(q, m, place, over):
    """Small ones are sums of excesses, eight nodes of the noise at a time: each within its own error of an integral."""
    step, out, error = StepKind(q, m, over, 0.0), np.empty(24, np.complex128), np.empty(24)
    fill_log_moments(step, np.array(divergence_of(step)), *place, out, error)
    with working_precision(160):
        for k in range(0, 24, 5):
            true = complex(_moment(q, m, over, acb(place[0], k * place[1])).log())
            assert abs(out[k] - true) <= error[k] + 4e-16 * abs(true)
    assert error[0] < 1e-11 * abs(out[0])


@pytest.fixture
def precise_alone(monkeypatch):
    """Nobody's line is good enough, and there is no lattice: lines of more digits answer, and are counted."""
    answered = []

    def counted(*args, **kwargs):
        out, cost = answer(*args, **kwargs)
        answered.append(np.isfinite(out[:, 0]) & np.isfinite(cost))
        return out, cost

    answer = precise_answers.answer_precisely
    monkeypatch.setattr(precise_answers, "answer_precisely", counted)
    monkeypatch.setattr(by_lines, "_fine", lambda out, *_: np.zeros(len(out), dtype=bool))
    monkeypatch.setattr(by_lattice, "MOST_STEPS", 0.0)
    return answered


@pytest.fixture
def without_floats(monkeypatch):
    """Lines of floats answer nobody."""
    straight = by_lines._invert_straight

    def lost(*args):
        out, cost = straight(*args)
        return np.full_like(out, np.inf), np.full_like(cost, np.inf)

    monkeypatch.setattr(by_lines, "_invert_straight", lost)


def _check(row, answered) -> int:
    """Never below; next to the truth where a line of more digits serves."""
    truth, delta = float(row["epsilon"]), float(row["delta"])
    rates, distances, steps = _numbers(row)
    pairs = SampledGaussian([rates], [distances], [steps])
    answered.clear()
    (found,), (profile,) = pairs.epsilon(delta, row["direction"]), pairs.delta(truth, row["direction"])
    assert found >= truth and profile >= delta, row
    if not answered[0][0]:
        return 0
    assert found <= truth * (1 + 1e-9) + 1e-13, (found / truth - 1, row)
    return 1


MANY = [row for row in ROWS if _kind(row)[1] != "few"]


def test_never_below_proved_rows(precise_alone, without_floats, monkeypatch):
    """In pairs, short lines; large losses have tests of their own."""
    monkeypatch.setattr(precise_answers, "_with_cut", lambda *_: line_answer.NONE)
    monkeypatch.setattr(precise_answers, "DIGITS", precise_answers.DIGITS[:2])
    monkeypatch.setattr(precise_answers, "MOST_TERMS", 1 << 21)
    assert sum(_check(row, precise_alone) for row in MANY[::40]) >= 3


@pytest.mark.slow
def test_never_below_any_proved_row(precise_alone, without_floats, monkeypatch):
    """In pairs or balls."""
    monkeypatch.setattr(precise_answers, "MOST_TERMS", 1 << 25)
    assert sum(_check(row, precise_alone) for row in MANY) >= 100


def test_more_digits_meet_lattices(precise_alone, monkeypatch):
    """Seldom steps: a lattice, which shares nothing with lines, is above, and comes closer with more points."""
    pair = SampledGaussian(2e-5, 1.2, 3000)
    (found,) = pair.epsilon(1e-9, "with")
    assert precise_alone.pop().all()
    table = np.array([[2e-5], [1.2], [3000.0]])
    lattices = [
        by_lattice.lattice_epsilon(table, 1.0, math.log(1e-9), (np.inf, np.inf), 1 << k) - found for k in (12, 14, 16)
    ]
    assert lattices[0] > 4 * lattices[1] > 16 * lattices[2] > 0.0
    assert lattices[2] < 1e-6 * found


def test_more_digits_than_pairs(precise_alone, monkeypatch):
    """A sum that cancels more than pairs have: balls answer, and in pairs alone epsilon would be larger."""
    q, m, steps, delta = 1e-3, 0.7, 20_000, 1e-28
    monkeypatch.setattr(precise_answers, "_with_cut", lambda *_: line_answer.NONE)
    (found,) = SampledGaussian(q, m, steps).epsilon(delta, "with")
    assert precise_alone.pop().all()
    monkeypatch.setattr(precise_answers, "DIGITS", precise_answers.DIGITS[:2])
    (rough,) = SampledGaussian(q, m, steps).epsilon(delta, "with")
    assert found < rough
    back = SampledGaussian(q, m, steps).delta(found, "with")[0]
    assert back == pytest.approx(delta, rel=1e-3)


def test_several_people_and_kinds(precise_alone):
    """Each as if alone: tables that people share, people who occur twice, two kinds between one and the other."""
    rate, steps = np.array([1e-4, 1e-4, 2e-4, 1e-4]), np.array([[20_000], [30_000], [20_000], [20_000]])
    together = SampledGaussian(rate, 0.8, steps).epsilon(1e-8, "with")
    alone = [SampledGaussian(q, 0.8, k).epsilon(1e-8, "with")[0] for q, k in zip(rate, steps, strict=True)]
    assert together == pytest.approx(alone, rel=1e-9)
    assert together[0] == together[3] < together[1] < together[2]
    assert all(each.all() for each in precise_alone)
    (mixed,) = SampledGaussian([[1e-4, 1e-4]], [[0.8, 0.8]], [[5_000, 15_000]]).epsilon(1e-8, "with")
    assert mixed == pytest.approx(together[0], rel=1e-9)
    (between,) = SampledGaussian([[1e-4, 2e-4]], [[0.8, 0.8]], [[10_000, 10_000]]).epsilon(1e-8, "with")
    assert together[0] < between < together[2]


def test_a_limit_on_how_long_it_takes(precise_alone, monkeypatch):
    """Beyond the terms of one person they keep what they had: a bound."""
    monkeypatch.setattr(precise_answers, "_along_hyperbola", lambda *_: line_answer.NONE)
    monkeypatch.setattr(precise_answers, "ALTOGETHER", 1000)
    (rough,) = SampledGaussian(1e-4, 0.8, 20_000).epsilon(1e-8, "with")
    assert not precise_alone.pop().any()
    monkeypatch.undo()
    (found,) = SampledGaussian(1e-4, 0.8, 20_000).epsilon(1e-8, "with")
    assert found <= rough < 1.1 * found


@pytest.mark.parametrize("steps", range(1, 7))
def test_an_epsilon_is_returned_after_its_own_delta_was_seen(steps, monkeypatch):
    """Also where Newton's method ends before it has converged."""
    place, nodes = (12.0, 1.5), 600
    line = pair_line([(moments_in_pairs(2e-5, 0.9, True, place, nodes), 300_000.0)], place, nodes, 1e-30)
    least, left, _ = line_answer.solve_on(line, math.log(1e-9), 0.3, np.inf)
    assert left < 1e-13 * least
    monkeypatch.setattr(line_answer, "STEPS", steps)
    for start in (0.0, 0.3):
        found, left, _ = line_answer.solve_on(line, math.log(1e-9), start, np.inf)
        assert line.log_bound(found)[0] <= math.log(1e-9) if found < np.inf else steps < 6
        assert found - least <= 4.0 * left + 1e-13 * least  # and says what it left


def test_nothing_to_lose_is_not_asked_for_to_more_digits(monkeypatch):
    """An epsilon of zero is the least one, whatever was charged along its line."""
    monkeypatch.setattr(precise_answers, "ball_line", None)
    monkeypatch.setattr(by_lattice, "answer_on_lattice", None)
    assert SampledGaussian(0.001, 0.0794, 1881).epsilon(0.0794, "with")[0] == 0.0
    assert SampledGaussian(1e-4, 0.5, 2000).epsilon(0.1, "with")[0] == 0.0


def test_no_search_from_the_far_end():
    """Where the last digits of large numbers come and go Newton's method ends, or goes on next to where it is."""
    kinds = [1.85215e-06, 0.0214175, 0.000429576], [0.00589421, 0.00308377, 6.68601], [1893077, 72574, 1836184]
    (found,) = SampledGaussian(*([some] for some in kinds)).epsilon(2.074474271131541e-88, "without")
    assert 788.09425298 <= found <= 788.09425298 * (1.0 + 1e-9)  # a row of large_counts_truth.csv
    c, low, high = 234.0, 788.09, 2363.0
    new = line_integral.next_epsilon(low, 1e-14, (239.0, 0.0), (low, high), c)
    assert low < new <= low + 20.0 / c


def test_threads_take_turns_with_the_precision():
    """Eight threads at once say what one says, and leave the precision as it was."""
    before = ctx.prec
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: SampledGaussian(1e-4, 1.0, 10_000).epsilon(1e-6, "with")[0], range(16)))
    assert len(set(found)) == 1
    assert ctx.prec == before
