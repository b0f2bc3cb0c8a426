"""``watch(privacy_engine, optimizer, loader)``: a ``Watch`` over a training with Opacus, beside its own accountant.

How it looks on (tested with Opacus 1.6; what it relies on is the same in 1.5):

- **who was sampled**: the loader's Poisson sampler is replaced by one that yields the same and writes it down;
- **how long gradients were**: Opacus divides ``max_grad_norm`` by everybody's length (plus 1e-6) to clip them; the clip
  is replaced by the same number that keeps what it was divided by. With ghost clipping the lengths are in
  ``_norm_sample`` of the parameters. Nothing is computed twice;
- **when a step was taken**: the optimizer's step hook, called after the accountant's, which stays where it is. Physical
  batches of a ``BatchMemoryManager`` belong to one step.

Lengths stay on their device and are counted every ``EVERY`` steps. A watch never stops a training: what it cannot see
is remembered, and ``audit`` refuses with the reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.training.step_watch import Watch

#: Steps whose lengths wait on their device to be counted together.
EVERY = 32
#: What Opacus adds to a length before it divides by it.
OPACUS_ADDS = 1.0e-6


class OpacusWatch(Watch):
    """A ``Watch`` that is told of every step by Opacus itself. Its answers are ``audit``, ``pairs``, ``rounding``."""

    def __init__(self, people: int, rate: float, noise_multiplier: float, clip: float, added: float = 0.0) -> None:
        super().__init__(people, rate, noise_multiplier, clip)
        self._batches: deque[list[int]] = deque()
        self._lengths: list[Any] = []  # of the physical batches of the step under way
        self._waiting: list[tuple[list[int], Any]] = []
        self._trouble: str | None = None
        self._added = added

    @property
    def steps(self) -> int:
        """How many steps were seen."""
        return self._steps + len(self._waiting)

    def _catch_up(self) -> None:
        self._count_waiting()
        if self._trouble is not None:
            raise InvalidInput(f"this training could not be watched to its end: {self._trouble}")

    def _note_batch(self, batch: list[int]) -> None:
        self._batches.append(batch)

    def _new_pass(self) -> None:
        """Forget batches that were fetched ahead by a pass over the data that ended early."""
        self._batches.clear()

    def _told(self, lengths: Any) -> None:
        self._lengths.append(lengths.detach())

    def _stepped(self, noise_multiplier: float, clip: float) -> None:
        """Match the lengths of a step with the batch that was sampled for it."""
        lengths, self._lengths = self._lengths, []
        if self._trouble is not None:
            return
        if float(noise_multiplier) != self.noise_multiplier or float(clip) != self.clip:
            self._trouble = "noise or clip changed on the way (a scheduler?); one Watch is for one of each"
        elif not self._batches:
            self._trouble = "a step was taken without a batch of the watched loader"
        else:
            batch = self._batches.popleft()
            found = sum(len(part) for part in lengths)
            if found != len(batch):
                self._trouble = (
                    f"a step had {found} gradients where {len(batch)} people were sampled; "
                    "take one step for each batch, empty ones too"
                )
            else:
                self._waiting.append((batch, lengths))
        if len(self._waiting) >= EVERY:
            self._count_waiting()

    def _count_waiting(self) -> None:
        """Fetch the lengths of all waiting steps at once, and count them."""
        import torch

        waiting, self._waiting = self._waiting, []
        parts = [part.reshape(-1) for _, lengths in waiting for part in lengths if len(part)]
        norms = np.zeros(0)
        if parts:
            norms = torch.cat([part.to(parts[0].device) for part in parts]).double().cpu().numpy() - self._added
        if np.isnan(norms).any():
            self._trouble = "a gradient was not a number: the training has diverged"
        elif waiting:
            batches = [np.asarray(batch, dtype=np.intp) for batch, _ in waiting]
            self._count(batches, np.maximum(norms, 0.0))

    def __getstate__(self) -> dict[str, Any]:
        """Keep what was counted; batches and lengths of a step under way belong to the process they are in."""
        self._count_waiting()
        return {**self.__dict__, "_batches": deque(), "_lengths": []}


def watch(privacy_engine: Any, optimizer: Any, loader: Any) -> OpacusWatch:
    """Watch a training that ``privacy_engine.make_private`` made ready: call this next, before the first step.

    Parameters
    ----------
    privacy_engine
        Whose accountant goes on as before.
    optimizer, loader
        As they came from ``make_private`` (or ``make_private_with_epsilon``), with Poisson sampling, flat clipping or
        ghost clipping, on one machine.

    Returns
    -------
    OpacusWatch
        Whose ``audit(delta)`` may be asked for at any time.
    """
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping

    sampler = _poisson_sampler(loader)
    if type(optimizer) not in (DPOptimizer, DPOptimizerFastGradientClipping):
        raise InvalidInput(
            f"an optimizer of class {type(optimizer).__name__} is refused: flat clipping on one machine is watched "
            "(clipping='flat', grad_sample_mode 'hooks', 'functorch' or 'ghost')"
        )
    if privacy_engine.dataset is not loader.dataset:
        raise InvalidInput("the loader is not this engine's; pass what make_private returned")
    if not isinstance(optimizer.max_grad_norm, int | float):
        raise InvalidInput("one clip for the whole gradient is watched, got several; pass max_grad_norm as a number")
    rate = _probability_of_sampling(float(sampler.sample_rate))
    plain = type(optimizer) is DPOptimizer
    noise_multiplier, clip = float(optimizer.noise_multiplier), float(optimizer.max_grad_norm)
    watched = OpacusWatch(len(loader.dataset), rate, noise_multiplier, clip, OPACUS_ADDS if plain else 0.0)
    loader.__dict__["batch_sampler"] = _recording(sampler, watched)  # DataLoader forbids setting it the usual way
    if plain:
        optimizer.max_grad_norm = _DividedClip(clip).told_to(watched)
    else:
        _tell_before_steps(optimizer, watched)
    account = optimizer.step_hook

    def hook(stepped: Any) -> None:
        if account is not None:
            account(stepped)
        watched._stepped(stepped.noise_multiplier, stepped.max_grad_norm)

    optimizer.attach_step_hook(hook)
    return watched


class _DividedClip(float):
    """The clip, which tells by what it is divided: the lengths of the gradients."""

    _watched: OpacusWatch

    def told_to(self, watched: OpacusWatch) -> _DividedClip:
        self._watched = watched
        return self

    def __truediv__(self, lengths: Any) -> Any:
        self._watched._told(lengths)
        return float(self) / lengths

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (float(self),)


def _tell_before_steps(optimizer: Any, watched: OpacusWatch) -> None:
    """Read the lengths that ghost clipping left in the parameters, once for each physical batch."""
    import torch

    accumulate = optimizer.accumulate

    def told() -> None:
        parts = [p._norm_sample for p in optimizer.params if p.requires_grad]
        device = parts[0].device
        watched._told(torch.stack([part.reshape(-1).to(device) for part in parts]).norm(2, dim=0))
        accumulate()

    optimizer.accumulate = told


def _recording(sampler: Any, watched: OpacusWatch) -> Any:
    """Return the same sampler, which writes its batches down."""

    class RecordingSampler(type(sampler)):  # type: ignore[misc]  # Opacus asks for its class
        def __iter__(self) -> Iterator[list[int]]:
            watched._new_pass()
            for batch in super().__iter__():
                watched._note_batch(batch)
                yield batch

    recording = RecordingSampler.__new__(RecordingSampler)
    recording.__dict__.update(sampler.__dict__)
    return recording


def _poisson_sampler(loader: Any) -> Any:
    from opacus.utils.uniform_sampler import UniformWithReplacementSampler

    sampler = getattr(loader, "batch_sampler", None)
    if not isinstance(sampler, UniformWithReplacementSampler):
        raise InvalidInput(
            "the loader does not sample people independently (shuffled batches, or one part of a distributed sampler): "
            "the losses of such batches are not those of Poisson samples and may be larger, and no formula here holds "
            "for them; use make_private(..., poisson_sampling=True) on one machine, and pass the loader it returns"
        )
    if type(sampler) is not UniformWithReplacementSampler:
        raise InvalidInput("this loader is watched already, or its sampler is somebody's own; watch each training once")
    if getattr(loader.collate_fn, "rand_on_empty", False):
        raise InvalidInput("rand_on_empty=True puts random rows into empty batches; pass rand_on_empty=False")
    return sampler


def _probability_of_sampling(rate: float) -> float:
    """Return the probability with which ``torch.rand() < rate``: 24 bits decide, so it may be a little larger."""
    bits = 2.0**24
    return float(min(np.ceil(float(np.float32(rate)) * bits) / bits, 1.0))
