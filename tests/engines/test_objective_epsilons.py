"""Epsilon of objective perturbation on a device: never below 60 digits, next to the processor's, its sum as proved."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess

import numpy as np
import pytest
from flint import acb, arb

from perinstance.engines.cuda import compiled_kernels
from perinstance.engines.cuda.operations import objective_epsilons as room
from perinstance.engines.cuda.operations.objective_epsilons import objective_epsilons_there
from perinstance.engines.cuda.operations.objective_kernel import shared_numbers
from perinstance.engines.cuda.operations.objective_plane import plane_there
from perinstance.engines.cuda.operations.row_walks import RowWalk
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Objective
from perinstance.pairs.closed_form.tables_per_delta import shift_table

from ..pairs import truth
from ..pairs.sums import Coordinates, exchanged, objective_coordinates, spectral_delta
from .devices import DEVICES, torch

DELTAS = (0.4, 0.01, 1e-6, 1e-12, 1e-100, 1e-300)


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def many_kinds(n: int, seed: int) -> list[Floats]:
    """Leverages and shifts over the whole range, planes from one dimension to |x||v| a thousand times the leverage."""
    rng = np.random.default_rng(seed)
    mu = np.where(rng.random(n) < 0.1, 0.0, 10 ** rng.uniform(-12, 1, n))
    shift = np.where(rng.random(n) < 0.05, 0.0, 10 ** rng.uniform(-8, 4, n))
    xx = 10 ** rng.uniform(-3, 3, n)
    tilt = np.where(rng.random(n) < 0.3, 1.0, 10 ** rng.uniform(0, 3, n))
    return [mu, shift / np.sqrt(xx), xx, (mu * tilt) ** 2 / xx * (1 + 1e-15)]


def rows_of_a_table(n: int, people: float, scale: float, seed: int) -> list[Floats]:
    """People as 50 columns of a table give them."""
    rng = np.random.default_rng(seed)
    xx = rng.chisquare(50, n)
    mu = xx / people
    return [mu, np.abs(rng.normal(size=n)) * scale, xx, mu**2 / xx * (1 + 0.5 * rng.exponential(size=n))]


def there(columns: list[Floats], delta: float, device: str) -> Floats:
    found: Floats = objective_epsilons_there(*(torch.tensor(c, device=device) for c in columns), delta).cpu().numpy()
    return found


def _profile(view: Coordinates, epsilon: float) -> arb:
    """``delta`` in many digits; zero beyond the largest loss, which is finite where every variance shrinks."""
    if all(nu < 0 for nu, _ in view):
        largest = -sum(((1 + nu).log() + m2 / nu for nu, m2 in view), arb(0)) / 2
        if arb(epsilon) >= largest:
            return arb(0)
    return spectral_delta(view, epsilon)


def _never_below(columns: list[Floats], delta: float, device: str) -> int:
    """Check the answers against 60 digits and return how many there were."""
    found = there(columns, delta, device)
    answered = np.flatnonzero(~np.isnan(found))
    for i in answered.tolist():
        with truth.digits(60):
            one = objective_coordinates(*(float(c[i]) for c in columns))
            views = [one, exchanged(one)]
            if not any(m2 > 0 or nu != 0 for nu, m2 in one):
                assert found[i] == 0
                continue
            assert all(_profile(view, float(found[i])) <= arb(delta) for view in views)
            less = float(found[i]) - max(1e-9 * float(found[i]), 1e-13)
            assert less <= 0 or any(_profile(view, less) >= arb(delta) for view in views)
    return len(answered)


@DEVICES
def test_never_below_and_at_most_the_promise_above(device):
    for k, delta in enumerate((0.4, 1e-6, 1e-300)):
        assert _never_below(many_kinds(6, k), delta, device) >= 1
    assert _never_below(rows_of_a_table(4, 1e6, 0.1, 1), 1e-6, device) == 4


@pytest.mark.slow
@DEVICES
@pytest.mark.parametrize("delta", [*DELTAS, 0.1, 1e-4, 1e-9, 1e-20])
def test_never_below_everywhere(device, delta):
    columns = many_kinds(60, 7)
    assert _never_below(columns, delta, device) > 20
    close = rows_of_a_table(12, 1e5, 0.02, 8)  # a leverage that is not small next to the residual
    assert _never_below(close, delta, device) >= 0


def _same_as_here(n: int, delta: float, device: str, seed: int) -> float:
    """Compare with the processor; return the share that is left to it."""
    columns = many_kinds(n, seed)
    found = there(columns, delta, device)
    known = ~np.isnan(found)
    here = Objective(*columns)[known].epsilon(delta)
    np.testing.assert_allclose(found[known], here, rtol=1e-9, atol=1e-13)
    return 1.0 - float(known.mean())


@DEVICES
def test_the_processors_answers(device):
    for k, delta in enumerate(DELTAS):
        assert 0.05 < _same_as_here(300, delta, device, k) < 0.7


@pytest.mark.slow
@DEVICES
def test_the_processors_answers_many_times(device):
    for k, delta in enumerate((*DELTAS, 0.1, 1e-4, 1e-9, 1e-20)):
        _same_as_here(20_000, delta, device, 100 + k)


@DEVICES
@pytest.mark.parametrize("delta", [1e-4, 1e-6, 1e-9])
def test_next_to_nobody_of_a_large_table_is_left(device, delta):
    found = there(rows_of_a_table(20_000, 1e7, 0.1, 3), delta, device)
    assert np.isnan(found).mean() < 0.002


@pytest.mark.parametrize("direction", ["without", "with"])
def test_the_sum_is_the_profile_and_its_neighbours(monkeypatch, direction):
    """Poisson's summation with steps so long that the other terms are seen: the rule is above by just those."""
    monkeypatch.setattr(room, "SMALL", 3.0)
    monkeypatch.setattr(room, "nodes_of", lambda delta: 60)
    columns = [np.array(c) for c in ([0.01, 0.2, 0.001], [1.0, 3.0, 0.2], [1.0, 1.5, 2.0], [0.0003, 0.05, 1e-6])]
    plane = plane_there(*map(torch.tensor, columns))
    plane = plane if direction == "without" else plane.exchanged()
    pairs = Objective(*columns)
    epsilon, delta = torch.tensor([2.0, 12.0, 0.5], dtype=torch.float64), 0.01
    line = room._laid(plane, epsilon, delta, 1)
    for d in (0.0, -0.2, 0.3):
        moved = torch.full((3,), d, dtype=torch.float64)
        T = (delta * (line.base - line.t * d).exp() * room._sums(line, moved)[0]).numpy()
        at, terms = epsilon.numpy() + d, np.zeros(3)
        for n in range(-12, 6):
            away = n * line.turns.numpy()
            terms += np.exp(np.minimum(away * line.t.numpy(), 700)) * pairs.delta(at + away, direction)
        np.testing.assert_allclose(T, terms, rtol=1e-9)
        only = pairs.delta(at, direction)
        assert (only * (1 - 1e-12) <= T).all() and (only * 1.001 < T).any()
        others = room._others(line, moved, delta).numpy() * delta
        assert (only + others * (1 + 1e-9) >= T).all()


def test_the_plane_is_as_good_as_it_says():
    columns = many_kinds(150, 5)
    plane = plane_there(*map(torch.tensor, columns))
    other, usable = plane.exchanged(), np.flatnonzero((plane.nu[0] <= 1.0).numpy())
    for i in usable.tolist():
        with truth.digits(60):
            one = objective_coordinates(*(float(c[i]) for c in columns))
            ideal = [*one, (arb(0), arb(0))][:2]
            back = exchanged(ideal)
            lost, whole = float(plane.lost[i]), sum(float(m2) for _, m2 in ideal)
            for j in range(2):
                (nu, m2), (nu_back, m2_back) = ideal[j], back[j]
                assert abs(float(arb(float(plane.nu[j, i])) - nu)) <= 6 * lost * float(ideal[0][0])
                assert abs(float(arb(float(other.nu[j, i])) - nu_back)) <= 24 * lost * float(ideal[0][0])
                assert abs(float(arb(float(plane.m2[j, i])) - m2)) <= 9 * lost * whole
                assert abs(float(arb(float(other.m2[j, i])) - m2_back)) <= 24 * lost * whole
        assert whole <= float(plane.square[i]) and 2 * whole <= float(other.square[i])
        assert all(float(plane.largest[i]) >= 1.9 * abs(float(nu)) for nu, _ in (*ideal, *back))


@pytest.mark.parametrize("delta", DELTAS)
def test_more_is_charged_than_rounding_takes(delta):
    """The same nodes in 60 digits, from the parameters themselves."""
    columns = many_kinds(60, 11)
    answered = np.flatnonzero(there(columns, delta, "cpu") > 0.0)[:4]
    columns = [c[answered] for c in columns]
    epsilon, plane = torch.tensor(there(columns, delta, "cpu")), plane_there(*map(torch.tensor, columns))
    for view, turned in ((plane, False), (plane.exchanged(), True)):
        line = room._laid(view, epsilon, delta, 1)
        sums = room._sums(line, torch.zeros_like(epsilon))[0]
        for i in range(len(answered)):
            with truth.digits(60):
                one = objective_coordinates(*(float(c[i]) for c in columns))
                want = _exact_sum(exchanged(one) if turned else one, line, i, float(epsilon[i]))
                got = (arb(float(line.base[i])) + arb(delta).log()).exp() * arb(float(sums[i]))
                off = abs(float(got / want - 1))
            assert off <= 0.2 * float(line.charge[i] / sums[i])


def _exact_sum(coordinates: Coordinates, line: room.Line, i: int, epsilon: float) -> arb:
    """``(h/pi) sum Re e^E`` over the nodes of a line, the first of which counts half."""

    def height(t):
        E = -t * arb(epsilon) - t.log() - (1 + t).log()
        for nu, m2 in coordinates:
            a = 1 - t * nu
            E += t * (1 + t) * m2 / (2 * a) - (a.log() + t * (1 + nu).log()) / 2
        return E.exp().real

    t, s = arb(float(line.t[i])), [arb(float(one)) for one in line.s[i]]
    return (height(acb(t)) / 2 + sum((height(acb(t, one)) for one in s), arb(0))) * s[0] / arb.pi()


@pytest.fixture(scope="module")
def compiled_here(tmp_path_factory):
    """The CUDA source of one person, compiled as C++."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler here")
    folder = tmp_path_factory.mktemp("source")
    text = compiled_kernels.source("one_person", "objective_person", **dict(shared_numbers()))
    (folder / "one.cpp").write_text(text)
    built = folder / "one.so"
    flags = ["-std=c++17", "-O2", "-shared", "-fPIC", "-Wno-unknown-pragmas"]
    done = subprocess.run([compiler, *flags, "-o", built, folder / "one.cpp"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(built))


def one_by_one(library, columns: list[Floats], delta: float, given: Floats | None = None) -> Floats:
    """Answer by the compiled source; from given epsilons the other direction alone."""
    table, n = shift_table(delta), len(columns[0])
    columns = [np.ascontiguousarray(c) for c in columns]
    pointers = (ctypes.c_void_p * 4)(*(c.ctypes.data for c in columns))
    place = np.array([table.first_cell, len(table.polynomials), room.nodes_of(delta)], dtype=np.int64)
    epsilon = np.empty(n) if given is None else given.copy()
    known = np.array([delta, math.log(delta)])
    polynomials = np.ascontiguousarray(table.polynomials)
    arrays = (polynomials, place, known, epsilon)
    way = library.objectives_one_by_one if given is None else library.others_one_by_one
    way(pointers, ctypes.c_longlong(n), *(one.ctypes.data_as(ctypes.c_void_p) for one in arrays))
    return epsilon


@pytest.mark.parametrize("delta", [1e-2, 1e-6])
def test_an_epsilon_that_is_not_enough_is_not_returned(delta, compiled_here):
    """The other direction starts from this one's answer, which must be raised where it is too small."""
    columns = many_kinds(400, 21)
    answered = np.flatnonzero(there(columns, delta, "cpu") > 1e-3)
    columns = [c[answered] for c in columns]
    plane, truth_with = plane_there(*map(torch.tensor, columns)), Objective(*columns).epsilon(delta, "with")
    for share in (0.5, 0.9, 0.999, 1.0, 1.001, 1.3):
        given = truth_with * share
        start = torch.tensor(given)
        in_torch = room._solved(plane.exchanged(), start, delta, start).numpy()
        for found in (in_torch, one_by_one(compiled_here, columns, delta, given)):
            known = ~np.isnan(found)
            assert known.mean() > 0.3  # lines that are laid far off may not find back
            np.testing.assert_array_less(truth_with[known] * (1 - 1e-9) - 1e-13, found[known])
            assert (found[known] <= np.maximum(truth_with, given)[known] * (1 + 1e-9) + 1e-13).all()


def test_the_kernel_answers_as_torch_does(compiled_here):
    for k, delta in enumerate(DELTAS):
        for columns in (many_kinds(500, 30 + k), rows_of_a_table(300, 1e5, 0.1, k)):
            one, other = one_by_one(compiled_here, columns, delta), there(columns, delta, "cpu")
            both = ~np.isnan(one) & ~np.isnan(other)
            assert (np.isnan(one) == np.isnan(other)).mean() > 0.99
            np.testing.assert_allclose(one[both], other[both], rtol=1e-9, atol=1e-13)
            here = Objective(*columns)[both].epsilon(delta)
            assert (one[both] >= here * (1 - 1e-11) - 1e-14).all()


@DEVICES
def test_edges(device):
    inf = math.inf
    columns = [
        np.array(c)
        for c in (
            [0.0, 0.0, inf, 0.1, 0.0, 0.1, 3.0],
            [5.0, inf, 1.0, inf, 1.0, 0.0, 1.0],
            [0.0, 0.0, inf, 1.0, 1.0, 1.0, 1.0],
            [0.0, 0.0, inf, 0.1, 0.0, 0.1, 9.1],
        )
    ]
    found = there(columns, 1e-6, device)
    here = Objective(*columns).epsilon(1e-6)
    known = ~np.isnan(found)
    assert known.tolist() == [True, False, False, False, True, False, False]
    np.testing.assert_allclose(found[known], here[known], rtol=1e-9)
    assert len(there([c[:0] for c in columns], 1e-6, device)) == 0
    walk = RowWalk(None, 1e-6, torch.device(device))
    np.testing.assert_allclose(walk._epsilon(Objective(*columns)), here, rtol=1e-9)
    for delta in (0.0, 0.7):  # deltas that the device does not take
        some = Objective([0.1], [1.0], [1.0], [0.02])
        assert (RowWalk(None, delta, torch.device(device))._epsilon(some) == some.epsilon(delta)).all()
