"""Trainings are charged like any other release: descents, readings of a watch, sampled steps of other tools."""

from __future__ import annotations

import numpy as np
import pytest

import perinstance as pi
from perinstance.pairs import SampledGaussian
from perinstance.training import Watch

DELTA = 1e-6


def test_descents_and_readings_add_up(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((12, 2)) / 3
    ids = [f"p{k}" for k in range(12)]
    ledger = pi.Ledger(tmp_path / "ledger")
    whole = pi.audit(pi.NoisyDescent(steps=20, clip=1.0, epsilon=1.0, delta=DELTA), X, X[:, 0], ids=ids)
    sampled = pi.audit(pi.NoisyDescent(steps=20, clip=1.0, noise=4.0, rate=0.2), X, X[:, 0], ids=ids)
    watch = Watch(people=12, rate=0.3, noise_multiplier=3.0, clip=1.0)
    for _ in range(12):  # of fewer steps sums are finer, and take seconds a person
        batch = np.flatnonzero(rng.random(12) < 0.3)
        watch.step(batch, rng.random(len(batch)))
    reading = watch.audit(DELTA)
    ledger.charge(whole, key="descent")
    ledger.charge(sampled, key="sampled descent")
    ledger.charge(reading, key="watch", ids=ids)
    steps = SampledGaussian([0.01, 0.1], [1.0, 0.5], [100, 7])
    ledger.charge_pairs(["p0", "new"], steps, key="elsewhere")
    totals = ledger.totals(DELTA)
    by_id = dict(zip(totals.ids.to_pylist(), totals.losses.tolist(), strict=True))
    assert ledger.person("new").entries[-1].epsilon == steps.epsilon(DELTA)[1]
    assert by_id["new"] == pytest.approx(steps.epsilon(DELTA)[1], rel=1e-9)  # in company other roads may be taken
    for name in ("p0", "p5"):
        person = ledger.person(name)
        assert person.epsilon == pytest.approx(by_id[name], rel=1e-9)
        at = ids.index(name)
        parts = max(audit.losses[at] for audit in (whole, sampled, reading))
        assert parts <= person.epsilon <= sum(audit.losses[at] for audit in (whole, sampled, reading)) + 1.0
    assert totals.kind == "estimate"  # one of them was a reading
