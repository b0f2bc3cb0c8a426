"""What must hold for every member of the catalogue. A new kind of pair is added to ``CATALOGUE`` and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance import pairs as pairs_
from perinstance.errors import InvalidInput, PerinstanceError
from perinstance.pairs import (
    Composed,
    GaussianShift,
    GeneralGaussian,
    LaplaceShift,
    ObjectivePair,
    Pairs,
    PosteriorSamplePair,
    SampledGaussian,
    StudentShift,
)

DISTANCES = [0.02, 0.3, 1.0, 4.0]
MU, RHO = [0.01, 0.3, 0.05, 2.0], [1.0, 0.2, 6.0, 3.0]

CATALOGUE: dict[str, Pairs] = {
    "shift": GaussianShift(DISTANCES),
    "laplace": LaplaceShift(DISTANCES),
    "student": StudentShift(DISTANCES, [1.0, 5.0, 2.5, 8.0], [1.0, 3.0, 2.0, 1.0]),
    "posterior": PosteriorSamplePair(MU, RHO),
    "objective": ObjectivePair(MU, RHO, [0.1, 1.0, 0.2, 1.5], [0.002, 0.2, 0.02, 4.0]),
    "gaussian": GeneralGaussian([[0.2, -0.1], [0.0, 0.5], [1.0, 0.3], [-0.4, -0.2]], np.full((4, 2), [0.3, 0.8])),
    "sampled": SampledGaussian([[0.2, 0.5]], [[0.8, 0.1]], [[40, 20], [300, 1], [9, 30], [90, 7]]),
    "composed": Composed([PosteriorSamplePair(MU, RHO), GaussianShift(DISTANCES)]),
}
DIRECTIONS = ["without", "with"]  # the worst of them is compared with both below
SYMMETRIC = {"shift", "laplace"}

every = pytest.mark.parametrize("pairs", CATALOGUE.values(), ids=CATALOGUE.keys())
each_direction = pytest.mark.parametrize("direction", DIRECTIONS)


def some(pairs: Pairs, grid: np.ndarray) -> np.ndarray:
    """Return each third place where an answer takes a twentieth of a second."""
    return grid[::3] if isinstance(pairs, SampledGaussian) else grid


def width(pairs: Pairs) -> float:
    """Return by how much of itself an answer may be above another bound of the same number."""
    return 1e-4 if pairs.kind == "upper" else 1e-8


def test_the_catalogue_is_complete():
    public = {
        getattr(pairs_, name)
        for name in pairs_.__all__
        if name not in ("PairSchema", "Pairs", "compose", "from_columns")
    }
    assert {type(pairs) for pairs in CATALOGUE.values()} == public


@every
@each_direction
def test_profile_falls_and_is_convex_in_exp_epsilon(pairs, direction):
    grid = some(pairs, np.log(np.linspace(0.2, 6.0, 31)))
    table = np.array([pairs.delta(epsilon, direction) for epsilon in grid])
    assert ((table >= 0) & (table <= 1)).all()
    assert (np.diff(table, axis=0) <= 1e-12).all()
    assert (np.diff(table, 2, axis=0) >= -1e-10).all()  # equal steps of exp(epsilon)
    assert (table >= -np.expm1(grid)[:, None] - 1e-12).all()  # S = everything


@every
def test_directions_are_mirror_images(pairs):
    """``delta_PQ(-e) = 1 - exp(-e) + exp(-e) delta_QP(e)``: the same sets, seen from the other side."""
    for epsilon in (0.1, 0.7, 2.0):
        seen = {direction: pairs.delta(epsilon, direction) for direction in ("without", "with")}
        for one, other in (("without", "with"), ("with", "without")):
            mirrored = -np.expm1(-epsilon) + np.exp(-epsilon) * seen[other]
            assert pairs.delta(-epsilon, one) == pytest.approx(mirrored, rel=width(pairs))
        both = np.maximum(seen["without"], seen["with"])
        assert pairs.delta(epsilon) == pytest.approx(both, rel=width(pairs))
    assert pairs.tv() == pytest.approx(pairs.delta(0.0, "with"), rel=width(pairs))


@every
@each_direction
def test_epsilon_inverts_delta(pairs, direction):
    for delta in (1e-8, 1e-3, 0.2):
        epsilons = pairs.epsilon(delta, direction)
        assert (pairs.delta(epsilons, direction) <= delta * (1 + 10 * width(pairs))).all()
        positive = epsilons > 0
        below = pairs[positive].delta(epsilons[positive] * (1 - max(1e-6, width(pairs))), direction)
        assert (below > delta).all()
    assert (np.diff([pairs.epsilon(d, direction) for d in (1e-10, 1e-5, 0.1, 0.6)], axis=0) <= 0).all()


@every
def test_worst_epsilon_is_the_larger(pairs):
    both = np.maximum(pairs.epsilon(1e-4, "without"), pairs.epsilon(1e-4, "with"))
    assert pairs.epsilon(1e-4) == pytest.approx(both, rel=width(pairs))


@every
def test_one_delta_per_person(pairs):
    deltas = np.array([1e-6, 1e-3, 0.05, 0.4])
    each = [pairs[i].epsilon(delta).item() for i, delta in enumerate(deltas)]
    assert pairs.epsilon(deltas) == pytest.approx(each, rel=width(pairs), abs=1e-13)
    assert pairs.delta(deltas) == pytest.approx(
        [pairs[i].delta(e).item() for i, e in enumerate(deltas)], rel=width(pairs)
    )


@every
@each_direction
def test_renyi_grows_with_its_order(pairs, direction):
    table = np.array([pairs.renyi(alpha, direction) for alpha in (1.0, 1.01, 1.5, 2.0, 8.0, 64.0)])
    assert (table >= 0).all()
    finite = np.nan_to_num(table, posinf=1e300)
    assert (np.diff(finite, axis=0) >= -1e-9 * finite[:-1]).all()
    assert table[0] == pytest.approx(pairs.kl(direction), rel=1e-9)
    # Pinsker: 2 tv^2 <= KL
    assert (2 * pairs.tv() ** 2 <= table[0] * (1 + 1e-9)).all()


@every
def test_zcdp_bounds_every_order(pairs):
    rho = pairs.zcdp()
    for alpha in (1.0, 1.2, 3.0, 20.0):
        assert (pairs.renyi(alpha) <= rho * alpha * (1 + 1e-9)).all()


@every
def test_attack_power_is_a_trade_off_curve(pairs):
    room = 0.1 * width(pairs)
    rates = some(pairs, np.linspace(0.02, 0.98, 13))
    powers = np.array([pairs.attack_power(rate) for rate in rates])
    assert ((powers >= rates[:, None] - 1e-9) & (powers <= 1 + 1e-12)).all()
    assert (np.diff(powers, axis=0) >= -room).all()
    assert (np.diff(powers, 2, axis=0) <= max(1e-7, room)).all()  # concave
    # no test beats the privacy promise: power <= e^epsilon rate + delta, in the direction Q over P
    for epsilon in (0.0, 0.5, 2.0):
        assert (powers <= np.exp(epsilon) * rates[:, None] + pairs.delta(epsilon, "with") + room).all()
    # and one test attains the total variation distance
    assert ((powers - rates[:, None]).max(axis=0) <= pairs.tv() + room).all()


@every
def test_people_can_be_picked_and_put_together(pairs):
    n = len(pairs)
    mask = np.arange(n) % 2 == 0
    assert len(pairs[mask]) == 2 and len(pairs[1:3]) == 2 and len(pairs[[3, 0]]) == 2 and len(pairs[2]) == 1
    again = type(pairs).concatenate([pairs[:1], pairs[1:]])
    assert again.epsilon(1e-5) == pytest.approx(pairs.epsilon(1e-5), rel=0.1 * width(pairs))
    assert pairs[[3, 0]].epsilon(1e-5) == pytest.approx(pairs.epsilon(1e-5)[[3, 0]], rel=0.1 * width(pairs))
    assert len(pairs[:0]) == 0 and pairs[:0].epsilon(1e-5).shape == (0,) and pairs[:0].delta(1.0).shape == (0,)


@every
def test_frame_and_repr(pairs):
    frame = pairs.to_frame()
    assert len(frame) == len(pairs) and list(frame["kind"]) == list(pairs.kinds)
    assert f"{len(pairs)} people" in repr(pairs)


@every
@pytest.mark.parametrize("delta", [-0.1, 1.0, 1.5, np.nan, np.inf, [0.1, 0.2], [[0.1]]])
def test_bad_delta_is_refused(pairs, delta):
    with pytest.raises(InvalidInput, match="delta"):
        pairs.epsilon(delta)


@every
def test_other_bad_input_is_refused(pairs):
    with pytest.raises(InvalidInput, match="direction"):
        pairs.epsilon(1e-6, "sideways")
    with pytest.raises(InvalidInput, match="epsilon"):
        pairs.delta(np.nan)
    with pytest.raises(InvalidInput, match="epsilon"):
        pairs.delta([0.1, 0.2])
    with pytest.raises(InvalidInput, match="alpha"):
        pairs.renyi(0.5)
    with pytest.raises(InvalidInput, match="false_positive_rate"):
        pairs.attack_power(1.2)
    with pytest.raises(PerinstanceError):
        type(pairs).concatenate([])
