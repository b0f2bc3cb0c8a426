"""PrivateLogisticRegression on small tables that it was not made for, against rivals tuned in hindsight. One command:

    python -m benchmarks.small_tables [--tables ../shared/data/uci] [--draws 10] [--out out]

Tables of scikit-learn, and regression tables whose target is cut at its median or at its 80% quantile; at most 5,000
rows. Every column is scaled to [-1, 1] by its range, which counts as public; nothing else enters. Rivals, with noise
in floats: objective perturbation of the logistic loss (penalty tuned), and full-batch gradient descent, all steps
accounted as one Gaussian (steps and learning rate tuned), as it stands (slopes up to 1) and with slopes clipped at
1/2. A rival's setting is the best of its grid on half of the draws and is scored on the other half, and the other way
round, so that luck does not count. All on the same random splits, a fifth held out: AUC there, mean and standard
error.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm, rankdata
from sklearn import datasets

from perinstance.releases.logistic import mechanism as slope_mechanism
from perinstance.releases.promises.declared_box import box_of
from perinstance.releases.promises.promise import gaussian_distance
from perinstance.releases.promises.window import Window, simulated
from perinstance.sampling import FixedRows

Floats = NDArray[np.float64]
Scores = dict[str, list[Floats]]  # of each setting, one array of draws per split

DELTA = 1e-5
EPSILONS = (0.1, 1.0)
MOST_ROWS = 5000
PENALTIES = (1, 3, 10, 30, 100, 300, 1000, 3000)
STEPS = (1, 3, 10, 30, 100)
RATES = (1, 4, 16, 64, 256)
#: the constants of ``gram_reading`` were chosen looking at these
CHOSEN_ON = (
    "breast cancer", "digits", "wine", "housing", "concrete", "yacht", "skillcraft", "sml", "machine", "solar", "kin40k"
)  # fmt: skip
REGRESSION = (
    "housing .5", "housing .8", "concrete .5", "yacht .5", "skillcraft .8", "sml .5", "machine .5", "solar .5",
    "pendulum .5", "bike .5", "bike .8", "elevators .5", "protein .5", "protein .8", "keggdirected .5", "kin40k .5",
)  # fmt: skip
ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT.parent / "shared" / "data" / "uci"


@dataclass(frozen=True, slots=True)
class Result:
    """Mean AUC of one method on one table, and its standard error."""

    table: str
    n: int
    d: int
    epsilon: float
    method: str
    auc: float
    error: float
    log_loss: float | None = None


def tables(folder: Path) -> Iterator[tuple[str, Floats, Floats]]:
    """Yield names, features scaled to [-1, 1], and outcomes of 0 and 1."""
    cancer, digits, wine = datasets.load_breast_cancer(), datasets.load_digits(), datasets.load_wine()
    yield "breast cancer", _scaled(cancer.data), cancer.target.astype(float)
    yield "digits above 4", _scaled(digits.data), (digits.target > 4).astype(float)
    yield "digit 8", _scaled(digits.data), (digits.target == 8).astype(float)
    yield "wine 1", _scaled(wine.data), (wine.target == 1).astype(float)
    if not folder.exists():
        return
    import pyarrow.parquet as pq

    for name in REGRESSION:
        file, at = name.split()
        whole = pq.read_table(folder / f"{file}.parquet").to_pandas()
        whole = whole.iloc[np.random.default_rng(1).permutation(len(whole))[:MOST_ROWS]]
        y = whole.pop("y").to_numpy()
        yield name, _scaled(whole.to_numpy()), (y > np.quantile(y, float(at))).astype(float)


def _scaled(X: Floats) -> Floats:
    low, high = X.min(axis=0), X.max(axis=0)
    return (X - (low + high) / 2) / np.where(high > low, (high - low) / 2, 1.0)


def auc(eta: Floats, y: Floats) -> Floats:
    """Return the AUC of every column."""
    ranks, ones = rankdata(eta, axis=0), y > 0.5
    n1, n0 = ones.sum(), (~ones).sum()
    return (ranks[ones].sum(axis=0) - n1 * (n1 + 1) / 2) / (n1 * n0)


def _shift(distance: float, epsilon: float) -> float:
    """Profile of a Gaussian shift."""
    tail = math.exp(epsilon + norm.logcdf(-distance / 2 - epsilon / distance))
    return float(norm.cdf(distance / 2 - epsilon / distance) - tail)


def perturbation_scale(epsilon: float, penalty: float) -> float | None:
    """Scale of objective perturbation, slopes up to 1, curvature up to 1/4; None where the penalty is too small."""
    left = epsilon - math.log1p(0.25 / penalty)

    def excess(log_scale: float) -> float:
        distance = math.exp(-log_scale)
        after = left - distance**2 / 2
        if after >= 0:
            return 2 * _shift(distance, left) - DELTA
        return 1 - math.exp(after) + 2 * math.exp(after) * _shift(distance, distance**2 / 2) - DELTA

    return None if excess(16.0) > 0 else math.exp(brentq(excess, -3.0, 16.0))


def objective_perturbation(X: Floats, y: Floats, epsilon: float, draws: int, rng: np.random.Generator) -> dict:
    """Return the minima of each penalty, one column per draw."""
    noise = rng.standard_normal((X.shape[1], draws))
    found = {}
    for penalty in PENALTIES:
        scale = perturbation_scale(epsilon, penalty)
        if scale is None:
            continue
        newton = np.linalg.inv(X.T @ X / 4 + penalty * np.eye(X.shape[1]))
        theta = before = np.zeros_like(noise)
        for t in range(60):
            z = theta + (t / (t + 3) if t % 12 else 0.0) * (theta - before)
            gradient = X.T @ (expit(X @ z) - y[:, None]) + penalty * z + scale * noise
            before, theta = theta, z - newton @ gradient
            if np.abs(theta - before).max() < 1e-3 * np.abs(theta).max():
                break
        found[f"penalty {penalty}"] = theta
    return found


def gradient_descent(clip: float) -> Callable[..., dict]:
    """Return noisy gradient descent whose slopes are clipped."""

    def descend(X: Floats, y: Floats, epsilon: float, draws: int, rng: np.random.Generator) -> dict:
        distance = gaussian_distance(epsilon, DELTA)
        rates = np.repeat(RATES, draws) / len(y)
        found = {}
        for steps in STEPS:
            theta = np.zeros((X.shape[1], len(rates)))
            for _ in range(steps):
                slopes = np.clip(expit(X @ theta) - y[:, None], -clip, clip)
                noise = clip * math.sqrt(steps) / distance * rng.standard_normal(theta.shape)
                theta = theta - rates * (X.T @ slopes + noise)
            for k, rate in enumerate(RATES):
                found[f"{steps} steps, rate {rate}"] = theta[:, k * draws : (k + 1) * draws]
        return found

    return descend


RIVALS: dict[str, Callable[..., dict]] = {
    "objective perturbation": objective_perturbation,
    "gradient descent": gradient_descent(1.0),
    "gradient descent, clipped": gradient_descent(0.5),
}


def splits(n: int) -> Iterator[tuple[NDArray, NDArray]]:
    """Yield rows to fit and a fifth held out."""
    for seed in range(5 if n <= 2500 else 2):
        order = np.random.default_rng([2024, seed]).permutation(n)
        yield order[n // 5 :], order[: n // 5]


def of_rival(name: str, X: Floats, y: Floats, epsilon: float, draws: int) -> tuple[float, float]:
    """Tune on half of the draws, score on the others, both ways."""
    rows = np.column_stack([X, np.ones(len(X))]) / math.sqrt(X.shape[1] + 1)
    scores: Scores = {}
    for number, (fit, held) in enumerate(splits(len(y))):
        rng = np.random.default_rng([51, number])
        for setting, theta in RIVALS[name](rows[fit], y[fit], epsilon, draws, rng).items():
            scores.setdefault(setting, []).append(auc(rows[held] @ theta, y[held]).reshape(2, -1))
    halves = []
    for half in (0, 1):
        best = max(scores, key=lambda setting: np.mean([split[half] for split in scores[setting]]))
        halves.append(np.ravel([split[1 - half] for split in scores[best]]))
    both = np.concatenate(halves)
    return float(both.mean()), float(both.std() / math.sqrt(len(both)))


def ours(X: Floats, y: Floats, epsilon: float, draws: int) -> tuple[float, float, float]:
    """Return AUC, its standard error and log loss of the release, with simulated noise."""
    d = X.shape[1]
    box = box_of([1.0] * d, 1.0, d, True)
    sign = 2.0 * y - 1.0
    rows = box.rows(X, sign).X
    plan = slope_mechanism.spend(epsilon, DELTA, box.x_bound, 30)
    found, losses = [], []
    for number, (fit, held) in enumerate(splits(len(y))):
        seen = FixedRows(rows[fit], sign[fit], np.ones(len(fit), dtype=bool))
        windows = (Window(seen, simulated(np.random.default_rng([9, number, k]))) for k in range(draws))
        eta = rows[held] @ np.column_stack([slope_mechanism.run(plan, window).theta for window in windows])
        found.append(auc(eta, y[held]))
        losses.append(np.mean(np.logaddexp(0.0, eta) - y[held][:, None] * eta))
    scores = np.concatenate(found)
    return float(scores.mean()), float(scores.std() / math.sqrt(len(scores))), float(np.mean(losses))


def measure(folder: Path, draws: int, out: Path, console: Console) -> list[Result]:
    """Make, print and keep all results."""
    results: list[Result] = []
    shown = Table("table", "n, d", "epsilon", "ours", "log loss", *RIVALS, "", title=f"AUC, delta = {DELTA:g}")
    for name, X, y in tables(folder):
        n, d = X.shape
        for epsilon in EPSILONS:
            mine = ours(X, y, epsilon, draws)
            results.append(Result(name, n, d, epsilon, "ours", *mine))
            rivals = {rival: of_rival(rival, X, y, epsilon, draws) for rival in RIVALS}
            results += [Result(name, n, d, epsilon, rival, *score) for rival, score in rivals.items()]
            cells = [f"{one[0]:.3f} ± {one[1]:.3f}" for one in (mine, *rivals.values())]
            mark = "chosen on" if name.startswith(CHOSEN_ON) else ""
            shown.add_row(name, f"{n:,}, {d}", f"{epsilon:g}", cells[0], f"{mine[2]:.3f}", *cells[1:], mark)
    console.print(shown)
    out.mkdir(parents=True, exist_ok=True)
    (out / "small_tables.json").write_text(json.dumps([asdict(one) for one in results], indent=2) + "\n")
    return results


def main(argv: list[str] | None = None) -> int:
    """Make the table."""
    parser = argparse.ArgumentParser(prog="small_tables", description=__doc__)
    parser.add_argument("--tables", type=Path, default=TABLES)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--out", type=Path, default=ROOT / "out")
    options = parser.parse_args(argv)
    measure(options.tables, options.draws, options.out, Console(width=160))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
