"""Operations of a GPU for smooth models, objective perturbation and descents: through torch on the processor here."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from flint import arb
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

from perinstance import NoisyDescent, ObjectivePerturbation, OutputPerturbation, audit
from perinstance.data import read_table
from perinstance.engines import Cuda, Local
from perinstance.engines.cuda import device_source, newton_sums, transfers
from perinstance.engines.cuda import engine as engine_file
from perinstance.engines.cuda.catalogue import FOLDS, LOSS_FOLDS, device_fold
from perinstance.engines.local import LocalSweep
from perinstance.errors import InvalidInput, InvalidTable, NumericalTrouble
from perinstance.folds.block import Block
from perinstance.folds.sweep import NamelessSweep
from perinstance.models import (
    Gamma,
    Logistic,
    Poisson,
    PseudoHuber,
    RidgePenalty,
    SmoothHinge,
    SmoothObjective,
    Squared,
)
from perinstance.models.smooth.newton import whiten
from perinstance.models.smooth.objective_folds import Outsider, slopes
from perinstance.numerics.rounding import HALF_UNIT

from ..models.sharp_minima import exact, many_digits, minimum, one_predictor
from .devices import DELTA, DEVICES, torch

LOSSES = [Squared(), Logistic(), Poisson(), Gamma(), PseudoHuber(0.7)]


pytestmark = pytest.mark.usefixtures("one_torch_thread")


@pytest.fixture
def short_runs(monkeypatch):
    """Small tables have many runs, chunks and blocks."""
    for name, small in (("RUN", 16), ("SHORT_RUN", 8), ("RUNS", 4)):
        monkeypatch.setattr(newton_sums, name, small)
    for name in ("STREAMED_BYTES", "VIEWED_BYTES"):
        monkeypatch.setattr(engine_file, name, 1 << 10)
    monkeypatch.setattr(transfers, "GROUP_BYTES", 1 << 11)
    monkeypatch.setattr(engine_file, "KEPT_SHARE", 0.0)


def people(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * rng.gamma(2.0, 0.5, size=(n, 1))
    y = X @ rng.normal(size=d) * 0.7 + rng.normal(size=n)
    return X, {"real": y, "class": (y > 0).astype(float), "count": np.floor(np.abs(y))}


#: release, target, arguments of ``audit``, and by what share the bounds of the two engines may differ
CASES = {
    "refits": (OutputPerturbation(LogisticRegression(C=0.5), scale=0.1), "class", {}, 1e-7),
    "bounds": (OutputPerturbation(LogisticRegression(C=0.5), scale=0.1), "class", {"method": "upper"}, 1e-7),
    "counts": (OutputPerturbation(PoissonRegressor(alpha=0.1), scale=0.1), "count", {"method": "upper"}, 1e-5),
    "estimate": (OutputPerturbation(LogisticRegression(), scale=0.1), "class", {"method": "estimate"}, 1e-9),
    "objective, logistic": (ObjectivePerturbation(LogisticRegression(), scale=3.0), "class", {}, 1e-7),
    "objective, ridge": (ObjectivePerturbation(Ridge(alpha=0.5), scale=3.0), "real", {}, 1e-9),
    "descent, own row": (NoisyDescent(LogisticRegression(), noise=5.0, steps=4), "class", {}, 1e-12),
    "descent, ridge": (NoisyDescent(Ridge(), noise=5.0, steps=4), "real", {}, 1e-12),
    "descent, reading": (
        NoisyDescent(LogisticRegression(), noise=5.0, steps=4),
        "class",
        {"method": "estimate"},
        1e-9,
    ),
}


@DEVICES
@pytest.mark.parametrize("case", CASES)
def test_the_same_answers_as_here(device, case, short_runs):
    release, target, arguments, share = CASES[case]
    X, y = people()
    new = people(20, seed=5)
    for others in (None, (new[0] * 2, new[1][target])):
        asked = {"delta": DELTA, "outsiders": others, **arguments}
        ours, here = (audit(release, X, y[target], engine=one, **asked) for one in (Cuda(device), Local()))
        np.testing.assert_allclose(ours.losses, here.losses, rtol=share, atol=1e-12)
        np.testing.assert_allclose(ours.leverage, here.leverage, rtol=1e-7)
        np.testing.assert_allclose(ours.residual, here.residual, rtol=1e-7, atol=1e-9)
        assert (ours.kind == here.kind).all()


@DEVICES
def test_sums_with_a_name_are_taken_there(device, monkeypatch):
    """Tables on the device: whatever fold has an implementation there is not walked by the processor."""
    X, y = people(5000)
    table, folded = torch.tensor(X, device=device), LocalSweep.fold

    def others(self, step):
        assert device_fold(step) is None, f"{step} ran on the processor"
        return folded(self, step)

    monkeypatch.setattr(LocalSweep, "fold", others)
    for case in ("bounds", "objective, logistic", "descent, own row", "descent, reading"):
        release, target, arguments, _ = CASES[case]
        source = device_source(table, torch.tensor(y[target].astype(np.int32), device=device))
        assert audit(release, source, **arguments).losses.max() > 0


@DEVICES
@pytest.mark.parametrize("longest", [1.0, 300.0])
def test_never_below_minima_of_many_digits(device, short_runs, longest):
    """The slow road: minima without each person, at 120 digits; a few long rows move what everybody is raised by."""
    X, y = people(60, 2, seed=3)
    X[:3] *= longest
    codes, scale = y["class"], 0.1
    release = OutputPerturbation(LogisticRegression(C=2.0, fit_intercept=False), scale=scale)
    found = {m: audit(release, X, codes, method=m, engine=Cuda(device)) for m in ("exact", "upper")}
    above: dict[str, list[float]] = {method: [] for method in found}
    with many_digits():
        term, rows, targets = partial(one_predictor, "logistic"), exact(X), exact(codes)
        weights = [arb(0.5)] * 2
        everyone = minimum(term, rows, targets, weights, [0.0, 0.0])
        for i in range(0, 60, 5):
            without = minimum(term, rows[:i] + rows[i + 1 :], targets[:i] + targets[i + 1 :], weights, [0.0, 0.0])
            gap = sum(((a - b) ** 2 for a, b in zip(everyone, without, strict=True)), arb(0)).sqrt() / arb(scale)
            for method, one in found.items():
                D = one.pairs.distance[i]
                assert arb(D) >= gap
                assert float(gap) * (1 + 1e-6) >= D or method != "exact"
                above[method].append(D / float(gap))
    assert np.median(above["upper"]) < 1.05


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_losses_are_the_processors(loss):
    rng = np.random.default_rng(1)
    eta = rng.normal(size=400) * 8
    y = rng.integers(0, 2, size=400).astype(float) + (0.5 if isinstance(loss, Gamma) else 0.0)
    there = newton_sums.device_loss(loss)
    assert there is not None
    value, *derivatives = there(torch.tensor(y), torch.tensor(eta))
    want = loss.value(y, eta)
    np.testing.assert_allclose(value, want, rtol=1e-12, atol=1e-13 * np.abs(want).max())
    for got, want in zip(derivatives, loss.derivatives(y, eta), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)
    assert newton_sums.device_loss(SmoothHinge()) is None


@DEVICES
@pytest.mark.parametrize("intercept", [False, True])
def test_sums_lose_no_more_than_is_charged(device, intercept, short_runs):
    """Gradient and Hessian against sums of many digits; sizes differ widely, and terms cancel."""
    X, y = people(2000, 3, seed=7)
    X[:, 1] *= 1e4
    X, codes = np.vstack([X, -X]), np.concatenate([y["class"], y["class"]])
    objective = SmoothObjective(Logistic(), RidgePenalty(1.0), fit_intercept=intercept)
    theta = np.array([0.3, -1e-4, 0.2, 0.1][: 3 + intercept])
    there = torch.tensor(X, device=device), torch.tensor(codes, device=device)
    got = newton_sums.slopes_there(*there, objective, theta)
    charged = newton_sums.gradient_rounding_there(*there, objective, theta)
    Z = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
    with many_digits():
        gradient, hessian = [arb(0)] * len(theta), [[arb(0)] * len(theta) for _ in theta]
        for x, t in zip(exact(Z), exact(codes), strict=True):
            eta = sum((a * b for a, b in zip(x, exact(theta), strict=True)), arb(0))
            p = 1 / (1 + (-eta).exp())
            gradient = [g + (p - t) * a for g, a in zip(gradient, x, strict=True)]
            hessian = [
                [h + p * (1 - p) * a * b for h, b in zip(row, x, strict=True)]
                for row, a in zip(hessian, x, strict=True)
            ]
        off = [abs(float(arb(g) - w)) for g, w in zip(got.gradient.tolist(), gradient, strict=True)]
        share = [
            [
                float((arb(g) - w) / (arb(a) * arb(b)).sqrt())
                for g, w, b in zip(mine, row, np.diag(got.hessian).tolist(), strict=True)
            ]
            for mine, row, a in zip(got.hessian.tolist(), hessian, np.diag(got.hessian).tolist(), strict=True)
        ]
    assert (np.array(off) <= charged.vector).all() and (charged.vector < 1e-9 * np.abs(Z).sum(axis=0)).all()
    twice = charged + charged  # one more addition
    np.testing.assert_allclose(twice.vector, 2 * (charged.vector + charged.absolute), rtol=1e-12)
    around = whiten(got.hessian + np.eye(len(theta)), chain=got.chain)
    assert np.linalg.norm(share, 2) <= around.lost < 1e-9
    assert got.chain >= 16 and around.error > around.lost


@DEVICES
def test_whoever_is_taken_out_is_in_no_sum(device, short_runs):
    X, y = people(200)
    X[150] = X[7]
    codes = y["class"].copy()
    codes[150] = codes[7]
    objective = SmoothObjective(Logistic(), RidgePenalty(1.0), fit_intercept=True)
    theta, out = np.array([0.1, 0.2, -0.3, 0.05]), Outsider(np.append(X[7], 1.0), float(codes[7]), -1)
    want = slopes(Block(X, codes), objective, theta, out)
    got = newton_sums.slopes_there(
        torch.tensor(X, device=device), torch.tensor(codes, device=device), objective, theta, out
    )
    assert got.left_out == want.left_out == 2 and got.n == want.n
    np.testing.assert_allclose(got.hessian, want.hessian, rtol=1e-12)
    np.testing.assert_allclose(got.gradient, want.gradient, atol=1e-11)
    both = got + got
    assert both.chain == got.chain + 1 and (want + want).chain == 0


@DEVICES
def test_a_nearly_flat_objective_is_summed_here_again(device):
    """Columns that nearly repeat each other leave no room for long chains of additions."""
    X, y = people(3000)
    X = np.hstack([X, X[:, :1] + 1e-5 * people(3000, 1, seed=9)[0]])
    release = OutputPerturbation(LogisticRegression(C=1e6), scale=1.0)
    ours, here = (audit(release, X, y["class"], method="upper", engine=one) for one in (Cuda(device), Local()))
    assert ours.fit.model.fit.nameless and not here.fit.model.fit.nameless
    assert ours.fit.model.fit.chain == 0
    # each is charged for what its own factor is off, which is up to a hundredth of a small loss here
    np.testing.assert_allclose(ours.losses, here.losses, rtol=1e-3, atol=1e-6)
    with Cuda(device).sweep(read_table(X, y["class"])) as sweep:
        found = NamelessSweep(sweep).fold(partial(slopes, objective=SmoothObjective(Logistic()), theta=np.zeros(4)))
    assert found.chain == 0


BAD = {
    "missing cell": lambda X, y: (np.where(np.arange(X.size).reshape(X.shape) == 44, np.nan, X), y),
    "infinite target": lambda X, y: (X, np.where(np.arange(len(y)) == 5, np.inf, y)),
    "one class": lambda X, y: (X, np.zeros(len(y))),
    "one row": lambda X, y: (X[:1], y[:1]),
    "negative count": lambda X, y: (X, y - 3.0),
}


@DEVICES
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("release", ["bounds", "counts", "objective, logistic", "objective, ridge", "descent, own row"])
def test_bad_tables_are_refused_alike(device, bad, release):
    kind = CASES[release]
    X, y = people(40)
    table = BAD[bad](X, y[kind[1]])
    said = []
    for engine in (Cuda(device), Local()):
        try:
            said.append(np.round(audit(kind[0], *table, engine=engine, **kind[2]).losses, 6).tolist())
        except (InvalidInput, InvalidTable) as refused:
            said.append((type(refused), str(refused)))
        except NumericalTrouble:  # whose words quote what Newton's method came down to
            said.append(NumericalTrouble)
    assert said[0] == said[1]


def test_rows_are_copied_once_and_are_the_hosts_own():
    X, y = people(10)
    table = device_source(torch.tensor(X), torch.tensor(y["class"].astype(np.int32)))
    block = [piece() for piece in table.pieces(4 * 32)][1]
    assert block.X.dtype == block.y.dtype == np.float64 and block.start == 4 and len(block) == 4
    block.X[:] = 0.0
    np.testing.assert_array_equal(table.X.numpy(), X)
    turned = device_source(torch.tensor(np.ascontiguousarray(X.T), dtype=torch.float32).T, y["real"])
    (whole,) = (piece() for piece in turned.pieces())
    np.testing.assert_array_equal(whole.X, X.astype(np.float32))
    assert whole.X.flags.c_contiguous


def test_every_operation_has_a_name():
    """Parameters go by name, so that a step is found whatever wraps it; steps without a name have no device's way."""
    for operation in [*FOLDS, *LOSS_FOLDS]:
        assert operation.__module__.startswith("perinstance.") and operation.__name__ == operation.__qualname__
    assert device_fold(lambda block: block) is None and device_fold(len) is None
    theta, kinked = np.zeros(2), SmoothObjective(SmoothHinge())
    assert device_fold(partial(slopes, objective=kinked, theta=theta)) is None
    assert device_fold(partial(slopes, objective=SmoothObjective(Logistic()), theta=theta)) is not None


def test_a_chain_is_as_long_as_the_longest_way(short_runs):
    """Terms that do not cancel, of which every addition rounds; and the additions of each, counted."""
    for n in (1, 5, 64, 1000, 5003):
        v = torch.linspace(0.1, 0.3, n, dtype=torch.float64)
        want = math.fsum(v.tolist())
        bound = newton_sums.chain(n, 1, 16) * HALF_UNIT * want
        by_total, by_cross = newton_sums.PairedSum(), newton_sums.PairedSum()
        for x, t in newton_sums.chunks(v[:, None], v, 1):
            by_total.add(newton_sums.total(t, 16))
            by_cross.add(newton_sums.cross(x, torch.ones_like(x), 16))
        assert abs(float(by_total.total) - want) <= bound
        assert abs(float(by_cross.total) - want) <= bound
    counted = newton_sums.PairedSum()
    for _ in range(1000):
        counted.add(Counted(0))
    assert counted.total.additions <= 2 * (1000).bit_length()


class Counted:
    """A term that counts its additions."""

    def __init__(self, additions):
        self.additions = additions

    def __add__(self, other):
        return Counted(max(self.additions, other.additions) + 1)
