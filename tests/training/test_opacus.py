"""Beside Opacus itself, where it is installed: what is told is what Opacus computed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from perinstance.errors import InvalidInput
from perinstance.releases.descent.step_losses import counted
from perinstance.training.opacus import watch

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install perinstance[opacus]")
pytest.importorskip("opacus", reason="Opacus is not installed: pip install perinstance[opacus]")

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus and PyTorch warn of themselves
PEOPLE, CLIP, NOISE = 120, 0.7, 1.1


class Training:
    """A small network, its engine, and the lengths of all gradients as the naive list of them."""

    def __init__(self, mode="hooks", workers=0, batch=30, watched=True, collate=None, dtype=torch.float32, **options):
        from opacus import PrivacyEngine

        torch.manual_seed(0)
        X = torch.randn(PEOPLE, 6, dtype=dtype)
        data = torch.utils.data.TensorDataset(X, (X[:, 0] > 0).long())
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2)).to(dtype)
        optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.engine, self.criterion = PrivacyEngine(accountant="rdp"), torch.nn.CrossEntropyLoss()
        made = self.engine.make_private(
            module=self.net, optimizer=optimizer, noise_multiplier=NOISE, max_grad_norm=CLIP, grad_sample_mode=mode,
            data_loader=torch.utils.data.DataLoader(data, batch_size=batch, num_workers=workers, collate_fn=collate),
            criterion=self.criterion, **options,
        )  # fmt: skip
        self.model, self.optimizer, self.loader = made[0], made[1], made[-1]
        if mode == "ghost":
            self.criterion = made[2]
        self.X, self.y = data.tensors
        self.lengths: list[np.ndarray] = []
        self.watch = watch(self.engine, self.optimizer, self.loader) if watched else None

    def naive(self, x, y):
        """Everybody's gradient by itself, by a copy of the network that Opacus knows nothing of."""
        net = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
        net.load_state_dict(self.net.state_dict())
        found = []
        for one, label in zip(x, y, strict=True):
            net.zero_grad()
            torch.nn.functional.cross_entropy(net(one[None]), label[None]).backward()
            found.append(float(torch.sqrt(sum((p.grad**2).sum() for p in net.parameters()))))
        return np.array(found)

    def step(self, x, y):
        self.lengths.append(self.naive(x, y) if x.dtype == torch.float32 else np.zeros(len(x)))
        self.optimizer.zero_grad()
        self.criterion(self.model(x), y).backward()
        self.optimizer.step()

    def run(self, epochs=1, loader=None):
        for _ in range(epochs):
            for x, y in self.loader if loader is None else loader:
                self.step(x, y)
        return self


def counts_of(training):
    training.watch._catch_up()
    return training.watch._counts


def sums_agree(training, before=0):
    return counts_of(training).sum() == before + sum(map(len, training.lengths)) > 0


@pytest.mark.parametrize(("mode", "workers"), [("hooks", 0), ("functorch", 0), ("ghost", 0), ("hooks", 1)])
def test_the_lengths_are_those_of_each_persons_own_gradient(mode, workers):
    training = Training(mode, workers).run(epochs=2)
    told = counts_of(training).sum(axis=0)
    slow = np.bincount(counted(np.concatenate(training.lengths), CLIP), minlength=129)
    assert told.sum() == slow.sum() > 0 and training.watch.steps == len(training.lengths) == 8
    # single precision may move somebody next to an edge by one level
    assert np.abs(np.cumsum(told.astype(int)) - np.cumsum(slow)).max() <= 2
    [(noise, rate, steps)] = training.engine.accountant.history  # the accountant goes on as before
    assert (noise, rate, steps) == (NOISE, 0.25, 8)


def test_indices_are_those_of_the_people_in_the_batch():
    training = Training()
    seen = np.zeros(PEOPLE)
    for x, y in training.loader:
        for row in x:
            seen[int((row == training.X).all(dim=1).nonzero()[0])] += 1
        training.step(x, y)
    assert (counts_of(training).sum(axis=1) == seen).all()


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_physical_batches_belong_to_one_step(mode):
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    training = Training(mode)
    with BatchMemoryManager(
        data_loader=training.loader, max_physical_batch_size=7, optimizer=training.optimizer
    ) as loader:
        training.run(loader=loader)
    assert sums_agree(training) and training.watch.steps == 4 < len(training.lengths)


def test_noise_and_weights_are_those_of_an_unwatched_training():
    one, other = Training(), Training(watched=False)
    for training in (one, other):
        torch.manual_seed(3)
        training.run(epochs=2)
    for p, q in zip(one.net.parameters(), other.net.parameters(), strict=True):
        assert torch.equal(p, q)


def test_an_audit_at_any_time_and_after_a_pickle():
    training = Training().run()
    audit = training.watch.audit(1e-5, unknown="own")
    assert set(audit.kind) == {"estimate"} and len(audit) == PEOPLE
    assert (audit.losses <= audit.release.promise().epsilon(1e-5)).all()
    again = pickle.loads(pickle.dumps(training.watch))
    assert (again._counts == training.watch._counts).all() and again.steps == 4
    training.run()
    assert training.watch.steps == 8


def test_empty_batches_count_and_a_pass_may_end_early():
    training = Training(batch=1, workers=1)
    for number, (x, y) in enumerate(training.loader):
        training.step(x, y)
        if number == 20:
            break
    for x, y in training.loader:
        training.step(x, y)
        break
    assert sums_agree(training) and training.watch.steps == 22


def test_what_cannot_be_seen_never_stops_a_training_but_is_not_audited():
    unseen, fewer, changed = Training(), Training(), Training().run()
    unseen.step(unseen.X[:5], unseen.y[:5])  # not from the loader
    unseen.run()
    for x, y in fewer.loader:
        fewer.step(x[1:], y[1:])
    changed.optimizer.noise_multiplier = 2.0
    changed.run()
    for training, why in ((unseen, "without a batch"), (fewer, "people were sampled"), (changed, "changed on the way")):
        with pytest.raises(InvalidInput, match=why):
            training.watch.audit()


def sorted_rows(rows):
    return torch.utils.data.default_collate(sorted(rows, key=lambda row: float(row[0][0])))


def padded_rows(rows):
    """A function of the user's own that keeps the order of rows."""
    return torch.nn.utils.rnn.pad_sequence([x for x, _ in rows], batch_first=True), torch.stack([y for _, y in rows])


@pytest.mark.parametrize("workers", [0, 1])
def test_rows_in_another_order_than_the_sample_are_refused(workers):
    assert workers or sums_agree(Training(collate=padded_rows).run())
    with pytest.raises(InvalidInput, match="does not keep the order"):
        Training(collate=sorted_rows, workers=workers).run().watch.audit()


def test_a_step_hook_that_takes_the_place_of_the_watch_is_told():
    training = Training().run()
    training.optimizer.attach_step_hook(lambda _: None)
    training.run()
    with pytest.raises(InvalidInput, match="took its place"):
        training.watch.audit()
    with pytest.raises(InvalidInput, match="took its place"):
        pickle.loads(pickle.dumps(training.watch)).audit()
    other = Training().run()
    hook = other.optimizer.step_hook
    other.optimizer.attach_step_hook(lambda _: None)
    other.run()
    other.optimizer.attach_step_hook(hook)  # again in its place: the batches in between are left over
    other.run()
    with pytest.raises(InvalidInput, match="no watched step followed"):
        other.watch.audit()


def test_steps_and_batches_that_are_left_over_are_told():
    training = Training()
    for x, y in training.loader:
        training.criterion(training.model(x), y).backward()
        training.optimizer.clip_and_accumulate()
        with pytest.raises(InvalidInput, match="between two steps"):
            training.watch.audit()
        break
    looked = Training()
    for _ in looked.loader:  # an unwatched training, or a measurement
        pass
    looked.run()
    with pytest.raises(InvalidInput, match="no watched step followed"):
        looked.watch.audit()


def test_a_resumed_training_keeps_its_first_half(tmp_path):
    first = Training().run()
    before = counts_of(first).copy()
    saved = pickle.dumps(first.watch)
    first.engine.save_checkpoint(path=tmp_path / "state.pt", module=first.model, optimizer=first.optimizer)

    def loaded(training):
        training.engine.load_checkpoint(path=tmp_path / "state.pt", module=training.model, optimizer=training.optimizer)
        return training

    forgetful = loaded(Training()).run()  # promised 5.15 where both halves cost 7.05
    with pytest.raises(InvalidInput, match="resume=pickle"):
        forgetful.watch.audit()
    late = loaded(Training(watched=False))
    with pytest.raises(InvalidInput, match="4 steps that were not watched"):
        watch(late.engine, late.optimizer, late.loader)
    for after in (False, True):  # the checkpoint is loaded before, or after
        second = Training(watched=False) if after else loaded(Training(watched=False))
        second.watch = watch(second.engine, second.optimizer, second.loader, resume=pickle.loads(saved))
        (loaded(second) if after else second).run()
        assert second.watch.steps == 8 and (counts_of(second) >= before).all()
        assert sums_agree(second, before.sum())
    with pytest.raises(InvalidInput, match="from pickle"):
        watch(late.engine, late.optimizer, late.loader, resume=first.watch)
    with pytest.raises(InvalidInput, match="another rate"):
        other = Training(batch=60, watched=False)
        watch(other.engine, other.optimizer, other.loader, resume=pickle.loads(saved))


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_half_precision_is_refused_and_double_is_not(mode):
    assert Training(mode, dtype=torch.float64).run().watch.pairs("own") is not None
    with pytest.raises(InvalidInput, match="half precision"):
        Training(mode, dtype=torch.bfloat16).run().watch.audit()


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_lengths_next_to_nothing_are_not_zero(mode):
    """A length of 1e-15 vanishes beside what Opacus adds to it, and one of 1e-30 in its square."""
    training = Training(mode)
    for x, y in training.loader:
        training.optimizer.zero_grad()
        (training.model(x).sum() * (1e-30 if mode == "ghost" else 1e-15) + 0.0 * y.sum()).backward()
        training.optimizer.step()
    counts = counts_of(training)
    assert counts[:, 0].sum() == 0 and counts[:, 1].sum() > 0 and (training.watch._squares[counts[:, 1] > 0] > 0).all()


def test_shuffling_and_other_ways_of_clipping_are_refused():
    from opacus.optimizers import DPPerLayerOptimizer

    twice, other, layers = Training(), Training(watched=False), Training(watched=False)
    layers.optimizer.__class__ = DPPerLayerOptimizer
    for ask, why in (
        (lambda: Training(poisson_sampling=False), "shuffled"),
        (lambda: Training(rand_on_empty=True), "random rows"),
        (lambda: watch(layers.engine, layers.optimizer, layers.loader), "DPPerLayerOptimizer"),
        (lambda: watch(twice.engine, twice.optimizer, twice.loader), "watched already"),
        (lambda: watch(twice.engine, other.optimizer, other.loader), "not this engine's"),
    ):
        with pytest.raises(InvalidInput, match=why):
            ask()


def test_the_rate_is_what_24_bits_make_of_it():
    for rate, drawn in ((0.25, 0.25), (1.0, 1.0), (1e-5, np.ceil(float(np.float32(1e-5)) * 2**24) / 2**24)):
        again = Training(watched=False)
        again.loader.batch_sampler.sample_rate = rate
        assert watch(again.engine, again.optimizer, again.loader).rate == drawn >= rate
