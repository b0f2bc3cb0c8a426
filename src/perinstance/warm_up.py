"""Compile ahead what would be compiled at first use: for images, for the building of wheels, for ``make demo``.

Small computations are done whose only purpose is to call every kernel with the types that audits call it with, each
part of them in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perinstance.errors import NotPrepared
from perinstance.numerics.compilation import code_folders


@dataclass(frozen=True, slots=True)
class Prepared:
    """What compiling ahead did."""

    folder: Path  #: where the code lies
    new: int  #: compiled now, one for each kernel and signature
    before: int  #: lay there already
    seconds: float


def compile_ahead(folder: Path | None = None) -> Prepared:
    """Compile all kernels into ``folder``, side by side.

    By default that is the folder of this Python environment, which all its users read, and where that cannot be
    written, the user's own.
    """
    begin = time.monotonic()
    place = _place() if folder is None else folder
    place.mkdir(parents=True, exist_ok=True)
    before = _count(place)
    running = [_start(part, place) for part in PARTS]
    failed = [process.wait() for process in running]
    if any(failed):
        raise NotPrepared(f"compiling ahead ended with {failed}; the code is compiled at first use instead")
    return Prepared(place, _count(place) - before, before, time.monotonic() - begin)


def _place() -> Path:
    own = code_folders.user_folder()
    for home in (code_folders.environment_folder(), own):
        found = None if home is None else code_folders.writable(home)
        if found is not None:
            return found
    raise NotPrepared(
        "no folder for compiled code can be written; set NUMBA_CACHE_DIR to a folder that can be written, "
        "or pass --folder"
    )


def _start(part: str, folder: Path) -> subprocess.Popen[bytes]:
    paths = [str(code_folders.PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "perinstance.warm_up", part, str(folder)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})


def _count(folder: Path) -> int:
    return sum(1 for _ in folder.glob("*.nbc"))


def _table(d: int, n: int = 60) -> tuple[Any, Any]:
    random = np.random.default_rng(d)
    X = random.normal(size=(n, d)) / np.sqrt(d)
    return X, X[:, 0] + 0.1 * random.normal(size=n)


def _tables() -> None:
    """Fit and map: rows of float64 and float32, columns, few and many features, people outside, named people."""
    import pyarrow as pa

    import perinstance as pi
    from perinstance.engines import Local
    from perinstance.ledger.files.byte_order import id_order
    from perinstance.models.linear.ridge import LinearProblem

    posterior = pi.PosteriorSample(1.0, 1.0)
    output = pi.OutputPerturbation(scale=1.0)
    for d in (3, 10, 80):
        X, y = _table(d)
        for table in (X, np.asfortranarray(X), X.astype(np.float32)):
            for release in (posterior, output, pi.PosteriorSample(1.0, 1.0, fit_intercept=True)):
                pi.audit(release, table, y)
            pi.audit(pi.NoisyMean(), table)
        pi.audit(posterior, X, y, targets=(X[:3], y[:3]))
    pi.audit(posterior, *_table(310, n=400))
    ridge = pi.OutputPerturbation(LinearProblem(0.0), scale=1.0)
    for release in (posterior, ridge):
        pi.audit(release, *_table(50, n=2100))  # enough for a block to be answered in one call
    for d in (50, 80):
        for release in (posterior, output, ridge):  # several blocks: threads share the passes
            pi.audit(release, *_table(d, n=20_000_000 // (8 * d)), engine=Local(threads=2))
    for rows, engine in ((400, Local(block_bytes=1 << 12)), (800_000, Local(threads=2))):
        X, y = _table(3, n=rows)
        y[0] = X[0] @ np.linalg.lstsq(X[1:], y[1:], rcond=None)[0]  # almost fitted: folded again, in pairs or on grids
        pi.audit(ridge, X, y, engine=engine)
    X, y = _table(10)
    pi.audit(ridge, np.hstack([X, X[:, :1] + 1e-5 * np.random.default_rng(0).normal(size=(60, 1))]), y)  # folded twice
    pi.audit(posterior, X, y, ids=[f"person {i}" for i in range(len(y))]).summary()
    id_order(pa.chunked_array([["b", "a"]], pa.large_string()).combine_chunks())  # of a ledger
    for release in (posterior, output):
        answer = pi.audit(release, X, y)
        answer.everyone(x_bound=1.0, y_bound=1.0)
        answer.dp(x_bound=1.0, y_bound=1.0)


def _pairs() -> None:
    """Closed forms: a few people, and more than ``MANY`` with tables per delta, in all directions."""
    from perinstance.pairs import Laplace, Posterior, Shift
    from perinstance.pairs.interface.base import MANY
    from perinstance.pairs.stored_pairs import single_pairs

    size = np.geomspace(1e-4, 2.0, MANY + 8)
    for n in (3, len(size)):
        for pair in (Posterior(size[:n], size[:n]), Shift(size[:n]), Laplace(size[:n])):
            _ask(pair)
            pair.epsilon(np.full(n, 1e-6))
    for kind in single_pairs().values():
        if kind.one_number_each:  # two ordinary people of every pair that there is
            _ask(kind._from_stored({slot[1:]: np.ones(2) for slot in kind.__slots__}))


def _sums() -> None:
    """Sums of losses: composition, general Gaussians, objective perturbation."""
    from sklearn.linear_model import LogisticRegression

    import perinstance as pi
    from perinstance.pairs import Gaussian, Laplace, Posterior, Shift

    X, y = _table(10)
    pi.audit(pi.ObjectivePerturbation(scale=1.0), X, y)
    size = np.array([0.01, 0.1])
    for pair in (
        Posterior(size, size) + Laplace(size),
        Laplace(size) + Laplace(2 * size) + Shift(size),
        Shift(size) + Shift(size),
        pi.audit(pi.ObjectivePerturbation(scale=10.0), X, y).pairs[:2],
    ):
        _ask(pair)
    _ask(Gaussian([[0.5, -0.1]], [[0.1, 0.2]]))
    # terms that cancel, next to delta = 1: settled with twice the digits
    Posterior([1908.87586266434], [0.0]).epsilon(0.9438659162667447)
    Shift([9.571242855158664]).epsilon(0.9999982954089253)
    pi.audit(pi.OutputPerturbation(LogisticRegression(), scale=1.0), X, y > 0)


def _trainings() -> None:
    """Sampled noisy steps: one, many, of kinds that everybody shares or of one's own, alone and with other releases."""
    from perinstance.pairs import Laplace, SampledGaussian, Shift
    from perinstance.pairs.loss_sums.sampled.lattice.excess_mass import without_excess
    from perinstance.pairs.loss_sums.sampled.lattice.lattice_laws import Lattice, LossSum

    distance = np.array([0.5, 1.0])
    many = SampledGaussian(0.1, distance, 100)
    for pair in (SampledGaussian(0.1, distance), many, SampledGaussian(0.1, [[0.5, 1.0]], [[50, 50], [0, 100]])):
        _ask(pair)
    for steps in (2, 3):  # over the noise, and on a lattice
        few = SampledGaussian(0.05, distance, steps)
        few.epsilon(1e-6)
        few.delta(0.5)
    seldom = SampledGaussian(1e-4, 1.0, 20_000)  # along a line of more digits
    seldom.epsilon(1e-8)
    seldom.delta(0.1)
    SampledGaussian(1e-4, [[0.5, 1.1]], [[300, 200]]).epsilon(1e-8)  # and with floats far along it
    SampledGaussian(1e-4, 2.0, 30).epsilon(1e-6)  # along hyperbolas
    SampledGaussian(0.01, 9.0, 20).epsilon(1e-6)  # large losses taken apart
    SampledGaussian(0.01, np.geomspace(0.3, 0.6, 300)[None]).epsilon(1e-6)  # many distances
    without_excess(LossSum((np.full(40, 0.02),), 0.0, 1.0, 0.3, 0.0), Lattice(0.25, 0.0, 40, 1.0, many=True))
    for other in (Shift(distance), Laplace(distance)):
        _ask(many + other)


def _ask(pair: Any) -> None:
    for direction in ("worst", "with", "without"):
        pair.epsilon(1e-6, direction)
        pair.delta(0.5, direction)
        pair.renyi(2.0, direction)
    pair.epsilon(0.6)
    pair.zcdp()
    pair.attack_power(0.05)


def _both(*work: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        for one in work:
            one()

    return run


#: what one process does each; they share few kernels and take about as long
PARTS: dict[str, Callable[[], None]] = {
    "tables": _both(_tables, _pairs),
    "sums": _sums,
    "trainings": _trainings,
}


def main(part: str, folder: str) -> None:
    """Do one part of the work in this process."""
    code_folders.FOLDERS.use_only(Path(folder))
    with tempfile.TemporaryDirectory() as elsewhere, np.errstate(all="ignore"):
        os.chdir(elsewhere)
        PARTS[part]()


if __name__ == "__main__":
    main(*sys.argv[1:])
