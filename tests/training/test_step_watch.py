"""The watch over a training: counted lengths against the lengths themselves."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.errors import InvalidInput
from perinstance.pairs import SampledGaussian, Shift
from perinstance.training import Watch


def told(everybody=False, steps=24, n=6, rate=0.5):
    """A watch, who was sampled, and everybody's lengths at each step."""
    rng = np.random.default_rng(3)
    watch = Watch(people=n, rate=rate, noise_multiplier=1.5, clip=2.0)
    members, norms = rng.random((steps, n)) < rate, rng.uniform(0, 2.5, size=(steps, n))
    for who, lengths in zip(members, norms, strict=True):
        index = np.flatnonzero(who)
        watch.step(index, lengths if everybody else lengths[index], everybody=everybody)
    return watch, members, norms


def composed(lengths):
    return SampledGaussian(0.5, (np.minimum(lengths, 2.0) / 3.0).T).epsilon(1e-6)


@pytest.mark.parametrize("everybody", [True, False])
def test_a_reading_is_the_composition_rounded_up_and_unknown_steps_cost_the_clip(everybody):
    watch, members, norms = told(everybody)
    reading = watch.audit(1e-6)
    lengths = norms if everybody else np.where(members, norms, 2.0)
    assert (reading.epsilon >= composed(lengths) * (1 - 1e-9)).all()
    assert (reading.epsilon <= composed(lengths + 2.0 / 128) * (1 + 1e-9)).all()
    assert set(reading.kind) == {"estimate"} and "odometer reading" in reading.assumption
    assert (reading.epsilon - reading.rounding() <= composed(lengths) * (1 + 1e-9)).all()
    assert reading.upper == pytest.approx(SampledGaussian(0.5, [1 / 1.5], 24).epsilon(1e-6)[0], rel=1e-8)
    assert (reading.epsilon <= reading.upper).all()


def test_known_batches_cost_the_sampled_steps_alone():
    watch, members, norms = told()
    square = (np.where(members, np.minimum(norms, 2.0), 0.0) ** 2).sum(axis=0) / 9.0
    assert watch.audit(1e-6, batches="known").epsilon == pytest.approx(Shift(np.sqrt(square)).epsilon(1e-6), rel=1e-8)


def test_memory_does_not_grow_with_the_steps():
    watch, *_ = told(steps=3)
    before = watch._counts.nbytes + watch._squares.nbytes
    for _ in range(50):
        watch.step([0], [0.1])
    assert watch._counts.nbytes + watch._squares.nbytes == before


def test_answers_for_groups_and_frames():
    reading = told()[0].audit(1e-6)
    table = reading.by(["a", "a", "a", "b", "b", "b"])
    assert list(table["people"]) == [3, 3] and max(table["maximum"]) == reading.epsilon.max()
    assert list(reading.to_frame().columns) == ["epsilon", "kind", "upper"]
    assert reading.summary().maximum == reading.epsilon.max() and "estimate" in repr(reading)


def test_batches_that_are_no_poisson_samples_are_refused():
    with pytest.raises(InvalidInput, match="shuffled"):
        Watch(10, 0.1, 1.0, 1.0, sampling="shuffled")
    rng = np.random.default_rng(0)
    fixed, wrong = Watch(1000, 0.1, 1.0, 1.0), Watch(1000, 0.1, 1.0, 1.0)
    for _ in range(30):
        fixed.step(rng.permutation(1000)[:100], np.ones(100))
        half = np.flatnonzero(rng.random(1000) < 0.5)
        wrong.step(half, np.ones(len(half)))
    with pytest.raises(InvalidInput, match="same size"):
        fixed.audit()
    with pytest.raises(InvalidInput, match="size that rate"):
        wrong.audit()
    full = Watch(3, 1.0, 1.0, 1.0)
    full.step([0], [1.0])
    with pytest.raises(InvalidInput, match="left people out"):
        full.audit()


@pytest.mark.parametrize(
    ("indices", "norms"),
    [
        ([0, 0], [1.0, 1.0]),
        ([6], [1.0]),
        ([-1], [1.0]),
        ([0.5], [1.0]),
        ([0], [1.0, 2.0]),
        ([0], [np.nan]),
        ([0], [-1.0]),
    ],
    ids=str,
)
def test_bad_steps_are_refused_and_change_nothing(indices, norms):
    watch = Watch(6, 0.5, 1.0, 1.0)
    with pytest.raises(InvalidInput):
        watch.step(indices, norms)
    assert watch.steps == 0
    with pytest.raises(InvalidInput, match="no step"):
        watch.audit()
