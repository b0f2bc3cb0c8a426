"""``watch(privacy_engine, optimizer, loader)``: a ``Watch`` over a training with Opacus, beside its own accountant.

How it looks on (tested with Opacus 1.6; what it relies on is the same in 1.5). Who was sampled: the loader's Poisson
sampler is replaced by one that yields the same and writes it down; a collate function of the user's own is called a
second time, with the rows reversed, to see that it keeps their order. How long gradients were: Opacus divides
``max_grad_norm`` by everybody's length (plus 1e-6) to clip them, and the clip is replaced by a number that keeps what
it was divided by; ghost clipping leaves the lengths in ``_norm_sample`` of the parameters. When a step was taken: the
optimizer's step hook, after the accountant's; physical batches of a ``BatchMemoryManager`` belong to one step.

A watch never stops a training: what it cannot see is remembered, and ``audit`` refuses with the reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.numerics.rounding import GRADIENT_UP, SHORTEST_GRADIENT
from perinstance.training.step_watch import Watch

#: What Opacus adds to a length before it divides by it, in the units of the clip.
OPACUS_ADDS = 1.0e-6
RESUME = (
    "To resume a training, pickle the watch beside each checkpoint, and pass it on: "
    "watch(engine, optimizer, loader, resume=pickle.load(file)), with engine.load_checkpoint before or after"
)
NOT_POISSON = (
    "the loader does not sample people independently (shuffled batches, or a distributed sampler): the losses of such "
    "batches may be larger than those of Poisson samples, and no formula here holds for them; use make_private(..., "
    "poisson_sampling=True) on one machine, and pass the loader it returns"
)
OUT_OF_ORDER = (
    "the collate function does not keep the order of the rows in a batch, so lengths would be those of other people"
)
NO_STEP = (
    "batches were drawn that no watched step followed; take one step for each, empty ones too, and measure accuracy "
    "on another loader"
)


class _Attached(NamedTuple):
    """Where a watch looks on: what must still be in its place when losses are asked for."""

    optimizer: Any
    accountant: Any
    hook: Any
    rate: float  #: as the accountant is told it
    out_of_order: Any  #: one number in shared memory, which workers of the loader set


class OpacusWatch(Watch):
    """A ``Watch`` that is told of every step by Opacus itself. Its answers are ``audit``, ``pairs``, ``rounding``."""

    def __init__(self, people: int, rate: float, noise_multiplier: float, clip: float, added: float = 0.0) -> None:
        super().__init__(people, rate, noise_multiplier, clip)
        self._batches: deque[list[int]] = deque()
        self._lengths: list[Any] = []  # of the physical batches of the step under way
        self._trouble: str | None = None
        self._added = added
        self._attached: _Attached | None = None

    def _catch_up(self) -> None:
        self._look()
        at = self._attached
        if self._trouble is None and at is not None:  # the accountant is told of every step, in whatever process
            history = at.accountant.history
            told = sum(taken for _, _, taken in history)
            known = sum(taken for *declared, taken in history if declared == [self.noise_multiplier, at.rate])
            if not known == told == self._steps:
                seen = f"{known:,} of them with this noise and rate, and {self._steps:,} were seen"
                self._trouble = f"the accountant's history has {told:,} steps, {seen}. {RESUME}"
        if self._trouble is not None:
            raise InvalidInput(f"this training could not be watched to its end: {self._trouble}")
        if self._lengths:
            raise InvalidInput("gradients were clipped for a step that was not taken yet; ask between two steps")

    def _look(self) -> None:
        """Find out whether this watch is still where it was attached."""
        at = self._attached
        if at is not None and at.optimizer.step_hook is not at.hook:
            self._trouble = "another step hook took its place; attach yours before the watch, which calls it"
        elif at is not None and at.out_of_order[0]:
            self._trouble = self._trouble or OUT_OF_ORDER

    def _drawn(self, sampler: Iterator[list[int]], ahead: int) -> Iterator[list[int]]:
        """Write down who is sampled; ``ahead`` batches may be fetched before the one that is trained on."""
        self._batches.clear()  # fetched ahead by a pass over the data that ended early
        for batch in sampler:
            self._batches.append(batch)
            if len(self._batches) > ahead + 1:
                self._trouble = self._trouble or NO_STEP
            yield batch
        if not ahead and self._batches:
            self._trouble = self._trouble or NO_STEP

    def _told(self, lengths: Any, tensors: list[Any]) -> None:
        """Keep the lengths of a physical batch, which follow from ``tensors``."""
        self._lengths.append(lengths.detach())
        if any(tensor.dtype.itemsize < 4 for tensor in tensors):
            self._trouble = self._trouble or "gradients in half precision are clipped to more; train in float32"

    def _stepped(self, noise_multiplier: float, clip: float) -> None:
        """Match the lengths of a step with the batch that was sampled for it, and count them."""
        parts, self._lengths = [part.reshape(-1).double().cpu().numpy() for part in self._lengths], []
        if self._trouble is not None:
            return
        read = np.concatenate([np.zeros(0), *parts])
        if float(noise_multiplier) != self.noise_multiplier or float(clip) != self.clip:
            self._trouble = "noise or clip changed on the way (a scheduler?); one Watch is for one of each"
        elif not self._batches:
            self._trouble = "a step was taken without a batch of the watched loader"
        elif len(read) != len(batch := self._batches.popleft()):
            sampled = f"a step had {len(read)} gradients where {len(batch)} people were sampled"
            self._trouble = f"{sampled}; take one step for each batch, empty ones too"
        elif np.isnan(read).any():
            self._trouble = "a gradient was not a number: the training has diverged"
        else:
            lengths = np.maximum(read * GRADIENT_UP - self._added, SHORTEST_GRADIENT)
            self._count(np.asarray(batch, dtype=np.intp), lengths)

    def __getstate__(self) -> dict[str, Any]:
        """Keep what was counted; batches and lengths of a step under way belong to the process they are in."""
        self._look()
        return {**self.__dict__, "_batches": deque(), "_lengths": [], "_attached": None}


def watch(privacy_engine: Any, optimizer: Any, loader: Any, resume: OpacusWatch | None = None) -> OpacusWatch:
    """Watch a training that ``privacy_engine.make_private`` made ready: call this next, before the first step.

    ``optimizer`` and ``loader`` are as they came from ``make_private`` (or ``make_private_with_epsilon``), with Poisson
    sampling, flat clipping or ghost clipping, on one machine. Rows must reach the model in the order in which the
    loader gives them. ``resume`` is the watch over the first part of this training, pickled when its checkpoint was
    saved. The answer's ``audit(delta)`` may be asked for at any time between two steps.
    """
    import torch
    from opacus.optimizers import DPOptimizer
    from torch.utils.data import default_collate

    _refuse_unknown(privacy_engine, optimizer, loader)
    sampler = loader.batch_sampler
    # the probability with which torch.rand() < rate: 24 bits decide, so it may be a little larger
    rate = float(min(np.ceil(float(np.float32(sampler.sample_rate)) * 2.0**24) / 2.0**24, 1.0))
    plain = type(optimizer) is DPOptimizer
    noise, clip = float(optimizer.noise_multiplier), float(optimizer.max_grad_norm)
    watched = OpacusWatch(len(loader.dataset), rate, noise, clip, OPACUS_ADDS if plain else 0.0)
    if resume is not None:
        _refuse_other(resume, watched)
        watched = resume
    taken = sum(steps for _, _, steps in privacy_engine.accountant.history)
    if taken and taken != watched.steps:  # a checkpoint may also be loaded after this
        raise InvalidInput(
            f"the accountant's history has {taken:,} steps that were not watched, and they cost as much as others. "
            f"{RESUME}; or make_private with a new PrivacyEngine, if the model begins anew"
        )

    class RecordingSampler(type(sampler)):  # type: ignore[misc]  # Opacus asks for its class
        def __iter__(self) -> Iterator[list[int]]:
            return watched._drawn(super().__iter__(), loader.num_workers * (loader.prefetch_factor or 0))

    recording = RecordingSampler.__new__(RecordingSampler)
    recording.__dict__.update(sampler.__dict__)
    loader.__dict__["batch_sampler"] = recording  # DataLoader forbids setting it otherwise
    out_of_order = torch.zeros(1, dtype=torch.uint8).share_memory_()
    collate = loader.collate_fn  # Opacus wraps the function that puts rows together; the user may have written it
    inner = getattr(collate, "wrapped_collator_fn", None) or getattr(collate, "keywords", {}).get("collate_fn")
    if inner is not default_collate:
        loader.collate_fn = _OrderChecked(collate, out_of_order)
    account: Any = optimizer.step_hook
    accumulate: Any = getattr(optimizer, "accumulate", None)

    def told() -> None:
        """Read the lengths that ghost clipping left in the parameters, once for each physical batch."""
        params = [p for p in optimizer.params if p.requires_grad]
        parts = [p._norm_sample for p in params]
        lengths = torch.stack([part.reshape(-1).to(parts[0].device) for part in parts]).norm(2, dim=0)
        watched._told(lengths, [*params, *parts])
        accumulate()

    if plain:
        optimizer.max_grad_norm = divided = _DividedClip(clip)
        divided.watched, divided.optimizer = watched, optimizer
    else:
        optimizer.accumulate = told

    def hook(stepped: Any) -> None:
        if account is not None:
            account(stepped)
        noise = getattr(stepped, "_adjusted_noise_multiplier", stepped.noise_multiplier)  # set by adaptive clipping
        watched._stepped(noise, stepped.max_grad_norm)

    optimizer.attach_step_hook(hook)
    watched._attached = _Attached(optimizer, privacy_engine.accountant, hook, float(sampler.sample_rate), out_of_order)
    return watched


def _refuse_other(resume: Any, watched: OpacusWatch) -> None:
    if not isinstance(resume, OpacusWatch):
        raise InvalidInput(f"resume must be the watch that was pickled, got {type(resume).__name__}")
    if resume._attached is not None:
        raise InvalidInput("resume must be a watch from pickle, this one looks on still")
    for name in ("people", "rate", "noise_multiplier", "clip", "_added"):
        if getattr(resume, name) != getattr(watched, name):
            raise InvalidInput(f"resume was watched with another {name.strip('_')}; one Watch is for one of each")


def _refuse_unknown(privacy_engine: Any, optimizer: Any, loader: Any) -> None:
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    sampler = getattr(loader, "batch_sampler", None)
    if not isinstance(sampler, UniformWithReplacementSampler):
        raise InvalidInput(NOT_POISSON)
    if type(sampler) is not UniformWithReplacementSampler:
        raise InvalidInput("this loader is watched already, or its sampler is somebody's own; watch each training once")
    if getattr(loader.collate_fn, "rand_on_empty", False):
        raise InvalidInput("rand_on_empty=True puts random rows into empty batches; pass rand_on_empty=False")
    if type(optimizer) not in (DPOptimizer, DPOptimizerFastGradientClipping):
        known = "flat clipping on one machine is watched (grad_sample_mode 'hooks', 'functorch' or 'ghost')"
        raise InvalidInput(f"an optimizer of class {type(optimizer).__name__} is refused: {known}")
    if privacy_engine.dataset is not loader.dataset:
        raise InvalidInput("the loader is not this engine's; pass what make_private returned")
    if not isinstance(optimizer.max_grad_norm, int | float):
        raise InvalidInput("one clip for the whole gradient is watched, got several; pass max_grad_norm as a number")


class _DividedClip(float):
    """The clip, which tells by what it is divided: the lengths of the gradients."""

    watched: OpacusWatch
    optimizer: Any

    def __truediv__(self, lengths: Any) -> Any:
        params = self.optimizer.params
        samples = [p.grad_sample for p in params]
        parts = [tensor for of in samples for tensor in (of if isinstance(of, list) else [of])]
        self.watched._told(lengths, [*params, *parts])
        return float(self) / lengths

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)


class _OrderChecked:
    """A collate function that is asked once more, with the rows reversed: its tensors must be reversed too."""

    def __init__(self, collate: Any, out_of_order: Any) -> None:
        self._collate, self._out_of_order = collate, out_of_order
        self._dim = 0 if getattr(collate, "batch_first", True) else 1

    def __call__(self, rows: list[Any]) -> Any:
        import torch

        batch = self._collate(rows)
        if len(rows) > 1 and not self._out_of_order[0]:
            with torch.random.fork_rng(devices=[]):
                reversed_batch = self._collate(rows[::-1])
            same = [
                torch.equal(one, other.flip(self._dim))
                for one, other in zip(_tensors(batch), _tensors(reversed_batch), strict=False)
                if one.dim() > self._dim and one.shape == other.shape and one.shape[self._dim] == len(rows)
            ]
            if not same or not all(same):
                self._out_of_order[0] = 1
        return batch


def _tensors(batch: Any) -> list[Any]:
    """Return the tensors of a batch, in their order."""
    import torch

    if isinstance(batch, Mapping | list | tuple):
        parts = batch.values() if isinstance(batch, Mapping) else batch
        return [tensor for part in parts for tensor in _tensors(part)]
    return [batch] if torch.is_tensor(batch) else []
