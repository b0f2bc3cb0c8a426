"""``python -m benchmarks.first_use``: seconds to the first answer on 442 people, with the user's caches emptied.

Two columns: with an empty cache, and the second time.
Each answer is asked for in a process of its own; the time of the imports is not in it. The load of the machine is
printed, because seconds mean nothing without it; processor seconds mean more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

WORK = ("posterior", "output", "objective", "sums", "everyone", "logistic")
#: seconds of compiling that a first answer may take
PROMISED = {"posterior": 10.0, "output": 10.0, "objective": 25.0, "sums": 25.0, "everyone": 25.0, "logistic": 25.0}


def answer(what: str) -> None:
    """Compute the first answer of one kind."""
    from sklearn.datasets import load_diabetes

    import perinstance as pi

    X, y = load_diabetes(return_X_y=True)
    y = y - 150.0
    if what == "sums":
        from perinstance.pairs import LaplaceShift, PosteriorSamplePair

        (PosteriorSamplePair([0.01, 0.1], [1.0, 2.0]) + LaplaceShift([0.1, 0.2])).epsilon(1e-6)
    elif what == "logistic":
        from sklearn.linear_model import LogisticRegression

        pi.audit(pi.OutputPerturbation(LogisticRegression(), scale=1.0), X, y > 0)
    elif what == "output":
        pi.audit(pi.OutputPerturbation(scale=100.0), X, y).summary()
    elif what == "objective":
        pi.audit(pi.ObjectivePerturbation(scale=100.0), X, y).summary()
    else:
        found = pi.audit(pi.PosteriorSample(1.0, 1 / 3600), X, y)
        found.everyone(0.5, 200.0) if what == "everyone" else found.summary()


class Stopwatch:
    """Seconds in which numba compiles."""

    def __init__(self) -> None:
        from numba.core import event

        self.total, self.kernels = 0.0, 0
        stopwatch, depth, since = self, 0, 0.0

        class Listener(event.Listener):
            def on_start(self, event):
                nonlocal depth, since
                since = time.perf_counter() if depth == 0 else since
                depth += 1
                stopwatch.kernels += 1

            def on_end(self, event):
                nonlocal depth
                depth -= 1
                stopwatch.total += time.perf_counter() - since if depth == 0 else 0.0

        event.register("numba:compile", Listener())


def child(what: str) -> None:
    """Measure in this process."""
    import sklearn.datasets
    import sklearn.linear_model  # noqa: F401 - its import is not what is measured

    import perinstance as pi

    pi.audit, pi.PosteriorSample  # noqa: B018 - loaded now
    compiling = Stopwatch()
    wall, processor = time.perf_counter(), time.process_time()
    answer(what)
    measured = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    print(json.dumps({**measured, "compiling": compiling.total, "kernels": compiling.kernels}))


def measured(what: str, caches: str) -> dict[str, float]:
    """Measure in a new process whose user has no caches but ``caches``."""
    command = [sys.executable, "-m", "benchmarks.first_use", "--child", what]
    environment = {**os.environ, "NUMBA_CACHE_DIR": caches}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_use", description=__doc__)
    parser.add_argument("names", nargs="*", default=WORK, help=", ".join(WORK))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        return child(chosen.child)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; s compiling / s to the answer / processor s")
    print(f"{'':10} {'first use':>26} {'functions':>10} {'second time':>20} {'promised':>9}")
    for what in chosen.names:
        with tempfile.TemporaryDirectory() as caches:
            runs = [measured(what, caches) for _ in range(2)]
        cells = [f"{m['compiling']:.1f} / {m['wall']:.1f} / {m['processor']:.1f}" for m in runs]
        functions = runs[0]["kernels"]
        print(f"{what:10} {cells[0]:>26} {functions:10} {cells[1]:>20} {PROMISED[what]:>7g} s", flush=True)
    return None


if __name__ == "__main__":
    main()
