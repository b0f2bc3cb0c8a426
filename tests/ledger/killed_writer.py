"""Charge and publish in child processes that are killed at random moments; then look at what is left.

Run as ``python -m tests.ledger.killed_writer FOLDER KILLS SEED``: prints how many releases were published.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import perinstance as pi
import perinstance.ledger.ledger  # before the forks: a thousand children need not read it again
from perinstance.data.private_files import private_file


def charge_and_publish(folder: Path, child: int, pipe: int) -> None:
    """Publish one release after the other; tell the parent of each one that is committed."""
    ledger = pi.Ledger(folder / "ledger")
    pairs = pi.pairs.GaussianShift(
        np.random.default_rng(child).uniform(size=5)
    )  # nothing to compile, in a thousand processes
    audit = SimpleNamespace(pairs=pairs)
    os.write(pipe, b"ready\n")
    for i in range(1000):
        key = f"{child}-{i}"
        with ledger.reserve(audit, key=key, ids=list("abcde")), private_file(folder / "published" / key) as file:
            file.write(b"a model")
        os.write(pipe, f"{key}\n".encode())


def lines(pipe: int, least: int) -> str:
    """Read what is there, and wait for so many lines at least."""
    told = ""
    while select.select([pipe], [], [], 120.0 if told.count("\n") < least else 0.0)[0]:
        told += os.read(pipe, 1 << 16).decode()
    assert told.count("\n") >= least, "the child charges nothing"
    return told


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill, and check that no commit is lost, no release is half there, nothing is published uncharged."""
    (folder / "published").mkdir()
    chance = random.Random(seed)
    pipe = os.pipe()
    told, window = "", 0.0
    for child in range(kills):
        process = os.fork()
        if not process:
            charge_and_publish(folder, child, pipe[1])
            os._exit(0)
        told += lines(pipe[0], 1)  # whatever the machine is doing, the moments are those of charging and publishing
        if child % 20 == 0:  # a charge takes longer the more there are
            start = time.perf_counter()
            told += lines(pipe[0], 3)
            window = time.perf_counter() - start
        time.sleep(chance.uniform(0.0, window))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        told += lines(pipe[0], 0)
    ledger = pi.Ledger(folder / "ledger")
    state = {release.key: release.state for release in ledger.releases()}
    published = {path.name for path in (folder / "published").iterdir() if not path.name.startswith(".")}
    assert published <= state.keys(), f"published uncharged: {published - state.keys()}"
    committed = set(told.split("\n")[:-1]) - {"ready"}
    assert len(committed) > kills // 10, f"{len(committed)} commits are too few to show anything"
    assert all(state.get(key) == "committed" for key in committed), "a commit was lost"
    assert all(key in published for key, now in state.items() if now == "committed"), "committed but not published"
    found = ledger.verify()
    assert found.ok, found.problems
    assert len(ledger.totals()) in (0, 5)
    print(f"{kills} kills, {len(committed)} commits told, {len(state)} charges, {len(found.leftovers)} leftovers")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
