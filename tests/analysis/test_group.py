"""Groups: against refits and two-Gaussian quadrature; the chain bound in both directions."""

from collections import Counter
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest

from perinstance.analysis import chain_bound, chain_pairs, group, group_pairs
from perinstance.analysis.group_privacy import chain
from perinstance.auditing import audit
from perinstance.errors import NumericalTrouble
from perinstance.folds.sweep import ArraySweep
from perinstance.pairs import GaussianShift, GeneralGaussian, PosteriorSamplePair
from tests.analysis.worlds import FAMILIES, fit_of, hostile, release_of, table
from tests.neighbours.divergence import one_axis_profiles
from tests.neighbours.refit import design, matrix, rational, solve, to_mpf

DELTA = 1e-6


def laws(release, X, y, k):
    """Means and covariances without and with the first k people, by refitting."""
    both = [release.law(fit_of(release, X[k:], y[k:])), release.law(fit_of(release, X, y))]
    return [(law.mean, law.root @ law.root.T) for law in both]


def test_a_whole_hospital():
    """300 people of 20 coefficients: still at most 20 directions, and finite."""
    rng = np.random.default_rng(7)
    X, y = table(rng, 1000, 20)
    release = release_of("posterior", 1.0, scale=3.0)
    pairs = group_pairs(release, fit_of(release, X, y), X[:300], y[:300])
    assert pairs.excess.shape == (1, 20)
    p, q = laws(release, X, y, 300)
    R = np.linalg.cholesky(q[1])
    nu = np.linalg.eigvalsh(np.linalg.solve(R, np.linalg.solve(R, p[1] - q[1]).T))
    assert np.allclose(np.sort(pairs.excess[0]), nu, rtol=1e-8)


def test_people_who_alone_hold_up_a_direction_lose_everything():
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.standard_normal(30), np.zeros(30)])
    X[:2, 1] = 1.0, -2.0
    release = release_of("posterior", 0.0)
    y = rng.standard_normal(30)
    with pytest.raises(NumericalTrouble, match="inside=False"):  # rounding cannot tell very large from infinite
        group(release, fit_of(release, X, y), X[:2], y[:2], 1e-6)
    outside = group(release, fit_of(release, X[2:], y[2:]), X[:2], y[:2], 1e-6, inside=False)
    assert outside.epsilon == np.inf


def test_the_chain_is_rounded_up():
    rng = np.random.default_rng(0)
    with mp.workdps(40):
        for k in rng.integers(1, 40, 50).tolist():
            eps, deltas = rng.uniform(0.0, 3.0, k), rng.uniform(0.0, 1e-60, k)
            e, d, c = [mp.mpf(v) for v in eps], [mp.mpf(v) for v in deltas], chain_bound(eps, deltas)
            forward = mp.fsum(d[i] * mp.exp(mp.fsum(e[:i])) for i in range(k))
            backward = mp.fsum(d[i] * mp.exp(mp.fsum(e[i + 1 :])) for i in range(k))
            assert forward <= c.delta_without <= forward * (1 + 1e-9) and c.epsilon >= mp.fsum(e)
            assert backward <= c.delta_with <= backward * (1 + 1e-9)
    assert chain_bound([np.inf, 1.0], 0.0).delta == 0.0 and chain_bound([800.0, 1.0], 1e-300).delta == 1.0


def test_the_chain_spends_its_delta():
    pairs = PosteriorSamplePair([0.01, 0.02, 0.05], [1.0, 0.5, 2.0])
    c = chain(pairs, 1e-6)
    assert 0.99e-6 < c.delta <= 1e-6
    assert c.epsilon >= pairs.epsilon(1e-6).sum()


#: both sides of a comparison are inverted profiles, each at most this share above its truth
INVERTED = 2e-9
#: what an answer labelled exact may lie above the truth
EXACT = 1e-6
#: pairs further apart are not compared: their profiles cannot be inverted to all digits
ABSURD = 1e20


@dataclass
class Truth:
    """Of one group: infinite, or a distance, or a Gaussian pair in coordinates of its own."""

    infinite: bool
    distance: mp.mpf | None = None
    excess: list | None = None
    shift: list | None = None


def mpm(M):
    return mp.matrix([[to_mpf(M[i, j]) for j in range(M.ncols())] for i in range(M.nrows())])


def truth(family, X, y, who, alpha, intercept, scale) -> Truth | None:
    """None where a direction is open to everybody: another convention, tested elsewhere."""
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    rest = np.setdiff1d(np.arange(len(y)), who)
    before, after = solve(X[rest], y[rest], alpha, intercept), solve(X, y, alpha, intercept)
    if before.null is not None:
        return Truth(True) if before.H.rank() < after.H.rank() else None
    move = after.theta - before.theta
    if family == "output":
        square = (move.transpose() * move)[0, 0] / rational(scale) ** 2
        return Truth(False, distance=mp.sqrt(to_mpf(square)))
    if family == "posterior":
        # gamma as it was declared; Q = N(theta1, H1^-1/gamma), P = N(theta0, H0^-1/gamma)
        L = mp.cholesky(mpm(after.H))
        S = L.T * mp.inverse(mpm(before.H)) * L
        values, vectors = mp.eigsy((S + S.T) / 2)
        shift = vectors.T * (L.T * mpm(move)) * mp.sqrt(mp.mpf(scale**-2))
        return Truth(False, excess=[v - 1 for v in values], shift=list(shift))
    Z = matrix(design(X[who], intercept))
    M = mpm(after.H * before.H.inv())
    r = matrix(y[who][:, None]) - Z * before.theta
    values, vectors = mp.eigsy(M * M.T)
    shift = vectors.T * mpm(Z.transpose() * r) / mp.mpf(scale)
    return Truth(False, excess=[v - 1 for v in values], shift=list(shift))


def members(rng, n):
    """One person, a few, nearly everybody, everybody."""
    k = int(rng.choice([1, 2, 3, max(1, n // 2), n - 1, n]))
    return np.sort(rng.permutation(n)[: max(1, min(k, n))])


def true_epsilon(true):
    if true.infinite:
        return np.inf
    excess = np.maximum(np.array([float(v) for v in true.excess]), np.nextafter(-1.0, 0.0))
    shift = np.array([float(v) for v in true.shift])
    for part in (excess, shift):  # the truth's own rounding: one coordinate that moves is to be known as such
        part[np.abs(part) < np.abs(part).max() * 1e-25] = 0.0
    if not (np.isfinite(excess).all() and np.isfinite(shift).all()):
        return None
    if np.abs(shift).max() > ABSURD or excess.max() > ABSURD:
        return None
    return float(GeneralGaussian(excess[None], shift[None]).epsilon(DELTA)[0])


def check(pairs, true, family):
    """The answer is not below the truth, and what it says of itself is so."""
    if true.infinite:
        assert np.isinf(pairs.epsilon(DELTA)[0])
        return
    kind = pairs.kind
    assert kind in ("exact", "upper")
    if family == "output":
        assert mp.mpf(float(pairs.distance[0])) >= true.distance
        if kind == "exact":
            assert np.isfinite(pairs.distance[0])
            assert mp.mpf(float(pairs.distance[0])) <= true.distance * (1 + EXACT)
        return
    least = true_epsilon(true)
    if least is None or least > ABSURD:
        return
    epsilon = float(pairs.epsilon(DELTA)[0])
    assert epsilon >= least * (1 - INVERTED), (epsilon, least)
    if kind == "exact":
        assert epsilon <= least * (1 + 2 * EXACT) + 1e-12, (epsilon, least)
    live = [(m, v) for m, v in zip(true.shift, (1 + e for e in true.excess), strict=True)]
    live = [(m, v) for m, v in live if abs(m) > mp.mpf(10) ** -25 or abs(v - 1) > mp.mpf(10) ** -25]
    if 0 < epsilon < 1e3 and len(live) == 1 and mp.mpf("1e-6") < live[0][1] < mp.mpf("1e6"):
        assert max(profile(mp.mpf(epsilon)) for profile in one_axis_profiles(*live[0])) <= mp.mpf(DELTA)


def check_chain(release, fit, X, y, inside, sweep, true):
    """The chain of single losses is a bound of the same loss."""
    steps = chain_pairs(release, fit, X, y, inside=inside, sweep=sweep)
    bound = chain(steps, DELTA)
    assert bound.kind == "upper"
    least = (
        float(GaussianShift([float(true.distance)]).epsilon(DELTA)[0])
        if true.distance is not None
        else true_epsilon(true)
    )
    assert least is None or not least < ABSURD or bound.epsilon >= least * (1 - INVERTED)


def attacked(seed) -> Counter:
    """One table, one group, every family, with the data and without it."""
    rng = np.random.default_rng([7, seed])
    table, seen = hostile(seed), Counter()
    who = members(rng, len(table.y))
    scale = float(rng.choice([0.1, 1.0, 30.0]))
    inside = bool(rng.integers(2))
    rest = np.setdiff1d(np.arange(len(table.y)), who)
    inside = inside or not len(rest)
    family = FAMILIES[seed // 14 % 3]
    release = release_of(family, table.alpha, table.intercept, scale)
    if family == "posterior":
        scale = release.mechanism().scale
    X, y = (table.X, table.y) if inside else (table.X[rest], table.y[rest])
    sweep = ArraySweep(X, y)
    with mp.workdps(60 + (200 if table.kind in ("scales", "tiny", "giant row") else 0)):
        true = truth(family, table.X, table.y, who, table.alpha, table.intercept, scale)
        if true is None:
            seen["open to everybody"] += 1
            return seen
        try:
            fit = release.confidential_fit(sweep)
        except NumericalTrouble:
            seen["no fit"] += 1
            return seen
        for data in (sweep, None):
            road = "data" if data is not None else "fit"
            try:
                pairs = group_pairs(release, fit, table.X[who], table.y[who], inside=inside, sweep=data)
            except NumericalTrouble:
                assert data is None or family == "objective"
                seen[f"{road}: refused"] += 1
                continue
            check(pairs, true, family)
            if data is not None and len(who) <= 6 and seed % 5 == 0:
                check_chain(release, fit, table.X[who], table.y[who], inside, data, true)
                seen["chains"] += 1
            seen[f"{road}: {pairs.kind}"] += 1
    return seen


def audited_people(seed) -> Counter:
    """One table in which people have several rows, everybody in it, one family."""
    rng = np.random.default_rng([8, seed])
    table, seen = hostile(seed), Counter()
    n = len(table.y)
    ids = rng.integers(0, int(rng.choice([1, 2, max(2, n // 2), n])), size=n)
    scale, family = float(rng.choice([0.1, 1.0, 30.0])), FAMILIES[seed // 14 % 3]
    release = release_of(family, table.alpha, table.intercept, scale)
    if family == "posterior":
        scale = release.mechanism().scale
    try:
        found = audit(release, table.X, table.y, ids=ids)
    except NumericalTrouble:
        return Counter({"no fit": 1})
    with mp.workdps(60 + (200 if table.kind in ("scales", "tiny", "giant row") else 0)):
        for at, name in enumerate(np.arange(len(found)) if found.ids is None else found.ids.to_pylist()):
            who = np.flatnonzero(ids.astype(str) == str(name))
            true = truth(family, table.X, table.y, who, table.alpha, table.intercept, scale)
            if true is None:
                seen["open to everybody"] += 1
                continue
            pairs = found.pairs[at]
            if len(who) == 1 and family != "output" and not hasattr(pairs, "excess"):
                continue  # nobody has several rows here: other tests
            check(pairs, true, family)
            seen[pairs.kind] += 1
    return seen


@pytest.mark.parametrize("start", range(0, 126, 42))
def test_people_with_several_rows_are_never_below(start):
    seen = sum((audited_people(seed) for seed in range(start, start + 42)), Counter())
    assert seen["exact"] > 0.9 * (seen["exact"] + seen["upper"])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 4000, 500))
def test_thousands_of_people_with_several_rows_are_never_below(start):
    print(dict(sum((audited_people(seed) for seed in range(start, start + 500)), Counter())))


@pytest.mark.parametrize("start", range(0, 126, 42))
def test_a_sample_of_groups_is_never_below(start):
    seen = sum((attacked(seed) for seed in range(start, start + 42)), Counter())
    assert seen["data: exact"] > 25


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 7000, 500))
def test_thousands_of_groups_are_never_below(start):
    seen = sum((attacked(seed) for seed in range(start, start + 500)), Counter())
    print(dict(seen))
    assert seen["data: exact"] > 300
