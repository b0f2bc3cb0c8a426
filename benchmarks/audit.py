"""Speed of the audit: as a multiple of the two BLAS passes nobody can avoid, and against the best route through peers.

The floor is X'X (syrk), then the rows of X L^-T and their norms in pieces that stay in the cache, with the same
threads. The audit is everything: checks, fit, leverage, residual, exact epsilon of everybody, the answer's record.
Both run in this process, alternating; each number is the minimum over the repeats. Wall time and processor time (of all
threads together) are both told: on a machine that others use too, only the latter is worth something.

    python -m benchmarks.audit                # the three sizes, one and two threads
    python -m benchmarks.audit --threads 1 16 --widths 4 8 20 50 100 200 300      # other widths, and how threads scale
    python -m benchmarks.audit --peers        # against statsmodels + dp_accounting
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

import perinstance as pi
from perinstance.engines import Local

SIZES = [(1_000_000, 50), (1_000_000, 200), (10_000_000, 20)]
LIMIT = 1.15  # of every size, on every processor
NUMBERS = 50_000_000  # in the tables of ``--widths``: more than any cache holds
PIECE = 1 << 19  # bytes; 1/4 and 1 MB are not better


def table(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    X = np.empty((n, d))
    for start in range(0, n, 100_000):
        X[start : start + 100_000] = rng.standard_normal((len(X[start : start + 100_000]), d))
    y = X @ rng.standard_normal(d) + rng.standard_normal(n)
    return X, y


def floor(X: np.ndarray, threads: int, piece: int = PIECE) -> np.ndarray:
    """X'X, then the leverages; nothing else."""
    n, d = X.shape
    out = np.empty(n)
    cuts = np.linspace(0, n, threads + 1).astype(int)
    runs = list(zip(cuts[:-1], cuts[1:], strict=True))

    def rows(run: tuple[int, int]) -> None:
        step = max(64, piece // (8 * d))
        Q = np.empty((step, d))
        for start in range(run[0], run[1], step):
            stop = min(start + step, run[1])
            q = np.matmul(X[start:stop], W, out=Q[: stop - start])
            np.einsum("ij,ij->i", q, q, out=out[start:stop])

    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        H = sum(pool.map(lambda run: X[run[0] : run[1]].T @ X[run[0] : run[1]], runs)) + np.eye(d)
        W = np.ascontiguousarray(np.linalg.inv(np.linalg.cholesky(H)).T)
        list(pool.map(rows, runs))
    return out


def releases() -> dict[str, object]:
    return {
        "PosteriorSample": pi.PosteriorSample(alpha=1.0, gamma=1.0),
        "OutputPerturbation": pi.OutputPerturbation(Ridge(alpha=1.0, fit_intercept=False), scale=1e-3),
    }


def seconds(work: Callable[[], object]) -> np.ndarray:
    """Wall time and processor time."""
    start = time.perf_counter(), time.process_time()
    work()
    return np.array([time.perf_counter() - start[0], time.process_time() - start[1]])


def against_the_floor(X: np.ndarray, y: np.ndarray, threads: int, repeats: int) -> dict[str, np.ndarray]:
    n, d = X.shape
    engine = Local(threads=threads)
    jobs: dict[str, Callable[[], object]] = {"floor": lambda: floor(X, threads)}
    for name, release in releases().items():
        jobs[name] = lambda r=release: pi.audit(r, X, y, delta=1e-6, engine=engine)
    best = {name: np.array([np.inf, np.inf]) for name in jobs}
    small = X[:5000], y[:5000]
    for release in releases().values():
        pi.audit(release, *small, engine=engine)  # compiled code is loaded
    for _ in range(repeats):
        for name, job in jobs.items():
            best[name] = np.minimum(best[name], seconds(job))
    for name in releases():
        wall, processor = best[name] / best["floor"]
        print(
            f"n={n:>10,} d={d:>3} threads={threads} {name:<18} {best[name][1] / n * 1e9:7.1f} ns of processor each, "
            f"floor {best['floor'][1] / n * 1e9:7.1f}: ratio {processor:.2f}; wall {wall:.2f} (limit {LIMIT})",
            flush=True,
        )
    return best


def by_threads(n: int, d: int, threads: list[int], repeats: int) -> None:
    X, y = table(n, d)
    best = [against_the_floor(X, y, some, repeats) for some in threads]
    if len(threads) > 1:
        faster = ", ".join(f"{name} {best[0][name][0] / best[-1][name][0]:.1f}" for name in best[0])
        print(f"n={n:>10,} d={d:>3} {threads[-1]} threads instead of {threads[0]}, times faster: {faster}", flush=True)


def against_peers(n: int, d: int, repeats: int) -> None:
    """Statsmodels' influence on rows augmented for the penalty, then dp_accounting person by person."""
    import statsmodels.api as sm
    from dp_accounting import get_epsilon_gaussian

    X, y = table(n, d)
    alpha, scale = 1.0, 1e-3

    def peers() -> np.ndarray:
        model = sm.OLS(np.append(y, np.zeros(d)), np.vstack([X, np.sqrt(alpha) * np.eye(d)])).fit()
        influence = model.get_influence()
        hat, e = influence.hat_matrix_diag[:n], model.resid[:n]
        move = np.linalg.norm(X @ model.normalized_cov_params, axis=1) * np.abs(e) / (1 - hat)
        with np.errstate(divide="ignore"):
            return np.array([get_epsilon_gaussian(scale / D, 1e-6) for D in move])

    release = pi.OutputPerturbation(Ridge(alpha=alpha, fit_intercept=False), scale=scale)

    def ours() -> np.ndarray:
        return pi.audit(release, X, y, delta=1e-6).losses

    gap = float(np.abs(ours() - peers()).max() / ours().max())
    best_ours = min(seconds(ours)[1] for _ in range(10 * repeats))
    best_peers = min(seconds(peers)[1] for _ in range(repeats))
    print(
        f"peers: n={n:,} d={d} statsmodels + dp_accounting {best_peers:.2f} s, audit {best_ours * 1e3:.2f} ms, "
        f"{best_peers / best_ours:.0f} times faster (limit 300), losses agree to {gap:.0e} of the largest",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", action="store_true", help="only the comparison with peers")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--shrink", type=int, default=1, help="divide the numbers of people by this, for a quick look")
    parser.add_argument("--only", type=int, help="only this number of features")
    parser.add_argument("--widths", type=int, nargs="*", help="tables of these widths, instead of the three sizes")
    options = parser.parse_args()
    if options.widths is None:
        against_peers(20_000 // options.shrink, 20, max(1, options.repeats // 4))
    if options.peers:
        return
    sizes = SIZES if options.widths is None else [(min(NUMBERS // d, 4_000_000), d) for d in options.widths]
    for n, d in sizes:
        if options.only in (None, d):
            by_threads(n // options.shrink, d, options.threads, options.repeats)


if __name__ == "__main__":
    main()
