"""Charge and publish in child processes that are killed at random moments; then look at what is left.

Run as ``python -m tests.ledger.killed_writer FOLDER KILLS SEED``: prints how many releases were published.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np

import perinstance as pi
from perinstance.data.confidential.private_files import private_file


def charge_and_publish(folder: Path, child: int, pipe: int) -> None:
    """Publish one release after the other; tell the parent of each one that is committed."""
    ledger = pi.Ledger(folder / "ledger")
    rng = np.random.default_rng(child)
    X, y = rng.standard_normal((5, 1)), rng.standard_normal(5)
    audit = pi.audit(pi.PosteriorSample(alpha=1.0), X, y, ids=list("abcde"))
    for i in range(1000):
        key = f"{child}-{i}"
        with ledger.reserve(audit, key=key), private_file(folder / "published" / key) as file:
            file.write(b"a model")
        os.write(pipe, f"{key}\n".encode())


def main(folder: Path, kills: int, seed: int) -> None:
    """Kill, and check that no commit is lost, no release is half there, nothing is published uncharged."""
    (folder / "published").mkdir()
    chance = random.Random(seed)
    read, write = os.pipe()
    os.set_blocking(read, False)
    told = ""
    for child in range(kills):
        process = os.fork()
        if not process:
            charge_and_publish(folder, child, write)
            os._exit(0)
        time.sleep(chance.uniform(0.0, 0.08))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        while True:
            try:
                told += os.read(read, 1 << 16).decode()
            except BlockingIOError:
                break
    ledger = pi.Ledger(folder / "ledger")
    state = {release.key: release.state for release in ledger.releases()}
    published = {path.name for path in (folder / "published").iterdir() if not path.name.startswith(".")}
    assert published <= state.keys(), f"published uncharged: {published - state.keys()}"
    committed = set(told.split("\n")[:-1])
    assert all(state.get(key) == "committed" for key in committed), "a commit was lost"
    assert all(key in published for key, now in state.items() if now == "committed"), "committed but not published"
    found = ledger.verify()
    assert found.ok, found.problems
    assert len(ledger.totals()) in (0, 5)
    print(f"{kills} kills, {len(committed)} commits told, {len(state)} charges, {len(found.leftovers)} leftovers")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
