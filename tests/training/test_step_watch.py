"""The watch over a training: counted lengths against the lengths themselves."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perinstance.errors import InvalidInput, InvalidTable
from perinstance.pairs import GaussianShift, SampledGaussian
from perinstance.training import Watch
from perinstance.training.step_watch import _all_steps


def told(everybody=False, steps=6, n=6, rate=0.5):
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
    watch, members, norms = told(everybody, steps=3, n=1)
    audit = watch.audit(1e-6)
    lengths = norms if everybody else np.where(members, norms, 2.0)
    exact = composed(lengths)
    assert (audit.epsilon >= exact * (1 - 1e-9)).all()
    assert (audit.epsilon <= composed(lengths + 2.0 / 128) * (1 + 1e-9)).all()
    assert set(audit.kind) == {"estimate"}
    assert "odometer reading" in "".join(str(word) for word in audit.release.mechanism().words)
    assert (audit.epsilon - watch.rounding(1e-6) <= exact * (1 + 1e-9)).all()
    upper = audit.release.promise().epsilon(1e-6)
    assert upper == pytest.approx(SampledGaussian(0.5, [1 / 1.5], 3).epsilon(1e-6)[0], rel=1e-8)
    assert (audit.epsilon <= upper).all()


def test_known_batches_cost_the_sampled_steps_alone():
    watch, members, norms = told()
    square = (np.where(members, np.minimum(norms, 2.0), 0.0) ** 2).sum(axis=0) / 9.0
    assert watch.audit(1e-6, batches="known").epsilon == pytest.approx(
        GaussianShift(np.sqrt(square)).epsilon(1e-6), rel=1e-8
    )


@given(st.lists(st.lists(st.floats(0, 3), min_size=3, max_size=3), min_size=1, max_size=25), st.integers(1, 200))
@example([[0.0, 5e-324, 4.494661372330841e-161]], 1)
@settings(max_examples=60)
def test_counts_against_the_list_of_all_lengths(lengths, levels):
    """At rate 1 everybody is told of in every step: the distance is the root of a sum of squares."""
    norms = np.array(lengths)
    watch = Watch(people=3, rate=1.0, noise_multiplier=1.5, clip=2.0, levels=levels)
    for row in norms:
        watch.step([2, 0, 1], row[[2, 0, 1]])
    exact, above = (  # no squares, which are zero for lengths next to nothing
        np.hypot.reduce(np.minimum(s, 2.0), axis=0) / 3.0 for s in (norms, np.where(norms > 0, norms + 2 / levels, 0))
    )
    found = watch.pairs().distance
    assert (found >= exact * (1 - 1e-12)).all() and (found <= above * (1 + 1e-12)).all()
    known = watch.audit(batches="known").pairs.distance
    assert (known >= exact * (1 - 1e-12)).all() and known == pytest.approx(exact, rel=1e-12, abs=1e-153)


@given(st.lists(st.integers(0, 40), min_size=4, max_size=4), st.integers(0, 60))
def test_steps_that_were_not_told_are_as_the_own_ones_or_longer(counts, more):
    told = np.array([counts], dtype=float)
    steps = int(told.sum()) + more
    whole = _all_steps(told, steps, "own")
    assert whole.sum() == steps and (whole >= 0).all()
    if told.sum():
        assert (whole[told == 0] == 0).all()
        cumulated, share = np.cumsum(whole[0]) / max(steps, 1), np.cumsum(told[0]) / told.sum()
        assert (cumulated <= share + 1e-12).all()  # never shorter than the own ones
    else:
        assert whole[0, -1] == steps


def test_it_is_an_audit_with_names_groups_tables_and_a_report(tmp_path):
    names = [f"p{i}" for i in range(6)]
    audit = told(rate=1.0)[0].audit(1e-6, ids=names)
    table = audit.by(["a", "a", "a", "b", "b", "b"])
    assert list(table["people"]) == [3, 3] and max(table["maximum"]) == audit.losses.max()
    assert list(audit.to_frame()["id"]) == names and audit.summary().maximum == audit.losses.max()
    page = audit.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "odometer reading" in page and "nan" not in page.lower().split()
    assert "not known here" in page and "leave-one-out error" not in page
    with pytest.raises(InvalidInput, match="each of 6"):
        told()[0].audit(ids=names[:5])
    with pytest.raises(InvalidTable):
        told()[0].audit(ids=[*names[:5], "p0"])


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


def test_bad_steps_are_refused_and_change_nothing():
    watch = Watch(6, 0.5, 1.0, 1.0)
    wrong_people = [([0, 0], [1, 1]), ([6], [1]), ([-1], [1]), ([0.5], [1])]
    for indices, norms in (*wrong_people, ([0], [1, 2]), ([0], [np.nan]), ([0], [-1])):
        with pytest.raises(InvalidInput):
            watch.step(indices, norms)
    assert watch.steps == 0
    with pytest.raises(InvalidInput, match="no step"):
        watch.audit()


def test_a_step_that_was_interrupted_takes_nothing_back(monkeypatch):
    """Those who were not sampled are counted first; the clip of one step less must not be counted against it."""
    watch, _, _ = told(everybody=True, steps=2, n=2)
    before = watch.audit(1e-6).epsilon

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(watch, "_count", interrupted)
        with pytest.raises(KeyboardInterrupt):
            watch.step([0], np.full(2, 0.1), everybody=True)
    assert watch.steps == 2 and (watch.audit(1e-6).epsilon >= before).all()


def test_the_share_of_clipped_gradients_of_each_step():
    watch = Watch(people=4, rate=0.5, noise_multiplier=2.0, clip=1.0)
    watch.step([0, 2], [0.5, 1.5])
    watch.step([], [])
    watch.step([1, 3], [0.2, 1.1])
    watch.step([0, 1], [9.0, 9.0, 0.1, 0.1], everybody=True)
    assert watch.clipped().tolist() == [0.5, 0.0, 0.5, 1.0]
    assert pickle.loads(pickle.dumps(watch)).clipped().tolist() == [0.5, 0.0, 0.5, 1.0]


def test_a_checkpoint_of_weights_keeps_a_watch(tmp_path):
    torch = pytest.importorskip("torch")
    watch = Watch(people=4, rate=0.5, noise_multiplier=2.0, clip=1.0)
    watch.step([0, 2], [0.5, 1.5])
    torch.save({"watch": pickle.dumps(watch)}, tmp_path / "checkpoint.pt")
    again = pickle.loads(torch.load(tmp_path / "checkpoint.pt", weights_only=True)["watch"])
    for one in (watch, again):
        one.step([1, 3], [0.2, 1.1])
    assert again.audit(1e-6).losses.tolist() == watch.audit(1e-6).losses.tolist()
