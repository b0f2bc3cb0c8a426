"""A GPU: the audit of a posterior sample as a share of the floor that its memory, its matrix units and its link set.

The floor of resident rows is two readings of X at the speed of a copy inside the device (bytes read and written), or
the multiplications of X'X and X W, each counted as a full product, at the speed of a large product of float64,
whichever takes longer. "On the device" is the fit, leverage, residual, label and epsilon of everybody, whose answers
stay there; "audit" is the whole of ``pi.audit``, whose record is on the host: 25 bytes per person cross the link.
Tables of the host cross the link once where they fit into the device's memory, so the floor of "stream" is one crossing
of X and y at the speed of a copy from pinned memory, for the fit and for the whole audit. The
peer is torch.linalg's leverages and residuals of the same rows, with the epsilons of the processor's own inversion, all
cores.

    python -m benchmarks.gpu                   # the table by n and d, the whole audit, the stream, the peer
    python -m benchmarks.gpu --sizes 1e7x50    # some sizes only
    python -m benchmarks.gpu --device cpu --sizes 2e4x20   # the same code through torch on the processor
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch

import perinstance as pi
from perinstance.engines.cuda import Cuda, DeviceTable
from perinstance.engines.cuda.row_losses import LinearWalk
from perinstance.engines.local import available_cores
from perinstance.folds.block import Block

SIZES = [f"{n}x{d}" for n in ("1e6", "1e7", "1e8") for d in (5, 20, 50, 100, 200) if (n, d) != ("1e8", 200)]
DELTA = 1e-6


def table(n: int, d: int, device: str) -> tuple[Any, Any]:
    """Make normal rows on the device, a chunk at a time."""
    draw = torch.Generator(device=device).manual_seed(7)
    X = torch.empty((n, d), dtype=torch.float64, device=device)
    for start in range(0, n, 1 << 20):
        X[start : start + (1 << 20)].normal_(generator=draw)
    w = torch.randn(d, dtype=torch.float64, device=device, generator=draw)
    y = torch.randn(n, dtype=torch.float64, device=device, generator=draw)
    for start in range(0, n, 1 << 20):
        y[start : start + (1 << 20)] += X[start : start + (1 << 20)] @ w
    return X, y


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the shortest of some runs, the device's work included."""
    return min(runs(work, repeats))


def runs(work: Callable[[], object], repeats: int) -> list[float]:
    """Return the seconds of some runs, in order of length."""
    took = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        kept = work()
        wait()
        took.append(time.perf_counter() - start)
        del kept  # to give memory back is not the work's
    return sorted(took)


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def ceilings(device: str) -> tuple[float, float]:
    """Return bytes per second of a copy (read and written) and multiply-adds, counted twice, of a large product."""
    size = (1 << 30) if device != "cpu" else (1 << 22)
    a = torch.randn(size, dtype=torch.float64, device=device)
    b = torch.empty_like(a)
    b.copy_(a)
    copy = 16 * size / seconds(partial(b.copy_, a), 10)
    del a, b
    side = 8192 if device != "cpu" else 512
    m = torch.randn((side, side), dtype=torch.float64, device=device)
    m @ m
    return copy, 2 * side**3 / seconds(lambda: m @ m, 5)


def on_device(release: Any, X: Any, y: Any) -> tuple[Any, Any, Any]:
    """Fit and answer for everybody; nothing of length n leaves the device."""
    with Cuda(str(X.device)).sweep(DeviceTable(X, y)) as sweep:
        fit = release.confidential_fit(sweep)
        walk = LinearWalk(release, fit, True, DELTA, X.device)
        return fit, walk, walk.losses(X, y)


def compared(release: Any, fit: Any, found: Any, X: Any, y: Any, rows: int = 50_000) -> str:
    """Compare some rows with the processor's answers for the same fit."""
    part = Block(X[:rows].cpu().numpy(), y[:rows].cpu().numpy())
    people = release.people(fit, part)
    epsilon = people.pairs.epsilon(DELTA)
    if found.epsilon is None:
        return "no kernels here: left to the host"
    got, codes = found.epsilon[:rows].cpu().numpy(), found.code[:rows].cpu().numpy()
    left = np.isnan(got) | (codes > 1)
    known = ~left & (epsilon > 0)
    off = np.abs(got[known] / epsilon[known] - 1).max() if known.any() else 0.0
    apart = np.abs(got[known] - epsilon[known]).max() if known.any() else 0.0
    kinds = int((np.minimum(codes, 1) != people.pairs._codes).sum())
    return f"epsilon to {off:.0e} (absolutely {apart:.0e}), {int(left.sum())} left to the host, {kinds} other labels"


def resident(text: str, device: str, copy: float, peak: float, repeats: int) -> None:
    """Print one row of the table."""
    n, d = (int(float(one)) for one in text.split("x"))
    release = pi.PosteriorSample(alpha=1.0, gamma=1.0)
    X, y = table(n, d, device)
    fit, _, found = on_device(release, X, y)
    said = compared(release, fit, found, X, y)
    del found
    took = seconds(lambda: on_device(release, X, y), repeats)
    memory, products = 2 * 8 * n * d / copy, 4 * n * d * d / peak
    floor = max(memory, products)
    binds = "memory" if memory >= products else "products"
    print(
        f"{text:>8}  {took * 1e3:9.2f} ms  floor {floor * 1e3:8.2f} ms ({binds})  {floor / took:5.0%}  {said}",
        flush=True,
    )


def whole_audit(text: str, device: str) -> None:
    """Print how long ``pi.audit`` takes, its record on the host included."""
    n, d = (int(float(one)) for one in text.split("x"))
    X, y = table(n, d, device)
    release, engine = pi.PosteriorSample(alpha=1.0, gamma=1.0), Cuda(device)
    source = DeviceTable(X, y)
    run = lambda: pi.audit(release, source, delta=DELTA, engine=engine)  # noqa: E731
    run()
    print(f"{text:>8}  whole audit, answers on the host: {seconds(run, 2):.3f} s", flush=True)


def streamed(text: str, device: str) -> None:
    """Print how long a table of the host takes to be fitted and to be audited, and the floor of one crossing."""
    n, d = (int(float(one)) for one in text.split("x"))
    X, y = (one.cpu().numpy() for one in table(n, d, device))
    size = 1 << 27
    pinned = torch.empty(size, dtype=torch.float64, pin_memory=device != "cpu")
    there = torch.empty(size, dtype=torch.float64, device=device)
    link = 8 * size / seconds(partial(there.copy_, pinned, non_blocking=True), 5)
    del pinned, there
    release = pi.PosteriorSample(alpha=1.0, gamma=1.0)
    source = pi.data.read_table(X, y)

    def fit() -> None:
        with Cuda(device).sweep(source) as sweep:
            release.confidential_fit(sweep)

    def whole() -> pi.Audit:
        return pi.audit(release, X, y, delta=DELTA, engine=Cuda(device))

    floor = 8 * n * (d + 1) / link
    for name, work in (("fit", fit), ("whole audit", whole)):
        work()
        took = runs(work, 9)
        print(
            f"{text:>8}  stream, {name}: {took[0]:.3f} s, {8e-9 * n * (d + 1) / took[0]:.1f} GB/s of "
            f"{link / 1e9:.1f}: {floor / took[0]:.0%} of one crossing, median {floor / took[4]:.0%}",
            flush=True,
        )


def peer(text: str, device: str) -> None:
    """Print torch.linalg's leverages and residuals with the processor's inversion, and the audit on the device."""
    n, d = (int(float(one)) for one in text.split("x"))
    X, y = table(n, d, device)
    cores = available_cores()
    mu, rho = (torch.empty(n, dtype=torch.float64, pin_memory=device != "cpu") for _ in range(2))
    cuts = np.linspace(0, n, cores + 1).astype(int)

    def inverted(run: tuple[int, int]) -> np.ndarray:
        return pi.pairs.PosteriorSamplePair(mu.numpy()[slice(*run)], rho.numpy()[slice(*run)]).epsilon(DELTA)

    def torch_road(pool: ThreadPoolExecutor) -> None:
        H = X.T @ X + torch.eye(d, dtype=torch.float64, device=device)
        L = torch.linalg.cholesky(H)
        theta = torch.cholesky_solve((X.T @ y)[:, None], L)[:, 0]
        # a product with the inverse factor: cuBLAS' triangular solve of as many right-hand sides as rows did not end
        W = torch.linalg.solve_triangular(L, torch.eye(d, dtype=torch.float64, device=device), upper=False).T
        m = torch.cat([(part @ W).square().sum(1) for part in X.split(1 << 20)])
        e = y - X @ theta
        mu.copy_(m / (1 - m), non_blocking=True)
        rho.copy_((e / (1 - m)).abs(), non_blocking=True)
        wait()
        list(pool.map(inverted, zip(cuts[:-1], cuts[1:], strict=True)))

    with ThreadPoolExecutor(cores) as pool:
        torch_road(pool)
        other = seconds(partial(torch_road, pool), 5)
    on_device(pi.PosteriorSample(), X, y)
    ours = seconds(lambda: on_device(pi.PosteriorSample(), X, y), 3)
    print(
        f"{text:>8}  torch.linalg + inversion by {cores} cores {other:.3f} s; on the device {ours:.4f} s: "
        f"{other / ours:.0f}x",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--sizes", nargs="*", default=SIZES)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", choices=["resident", "audit", "stream", "peer"])
    given = parser.parse_args()
    copy, peak = ceilings(given.device)
    name = torch.cuda.get_device_name() if given.device != "cpu" else "processor"
    print(f"{name}: copy {copy / 1e12:.2f} TB/s, products {peak / 1e12:.1f} TFLOP/s of float64", flush=True)
    small = given.sizes[-1] if given.device == "cpu" else None
    if given.only in (None, "resident"):
        for text in given.sizes:
            resident(text, given.device, copy, peak, given.repeats)
    if given.only in (None, "audit"):
        for text in [small] if small else ["1e7x50", "1e8x50"]:
            whole_audit(text, given.device)
    if given.only in (None, "stream"):
        for text in [small] if small else ["1e7x200", "2e7x50"]:
            streamed(text, given.device)
    if given.only in (None, "peer"):
        peer(small or "1e7x50", given.device)


if __name__ == "__main__":
    main()
