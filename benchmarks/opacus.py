"""What watching costs a training step with Opacus: a small convolutional network, watched against unwatched.

Steps of two trainings alternate, so that both see the same machine; the median of the ratios of pairs of blocks is
taken. On a GPU when there is one, by the clock; else on one core, by processor time. Where PyTorch or Opacus is not
installed, nothing is measured.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from typing import Any

import numpy as np

from benchmarks.ratio import Ratio

PEOPLE, BATCH = 20_000, 256
#: pairs of blocks, and steps in each, by device
BLOCKS = {"cpu": (9, 4), "cuda": (21, 30)}


class Training:
    """A network of two convolutions on images of 28 x 28, made private."""

    def __init__(self, watched: bool, device: Any, mode: str) -> None:
        import torch
        from opacus import PrivacyEngine

        torch.manual_seed(0)
        self.torch, self.device = torch, device
        images = torch.randn(PEOPLE, 1, 28, 28)
        data = torch.utils.data.TensorDataset(images, torch.randint(0, 10, (PEOPLE,)))
        net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 16, 8, 2, padding=3), torch.nn.ReLU(), torch.nn.MaxPool2d(2, 1),
            torch.nn.Conv2d(16, 32, 4, 2), torch.nn.ReLU(), torch.nn.MaxPool2d(2, 1),
            torch.nn.Flatten(), torch.nn.Linear(32 * 4 * 4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10),
        ).to(device)  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.engine = PrivacyEngine(accountant="rdp")
            made = self.engine.make_private(
                module=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), noise_multiplier=1.0,
                max_grad_norm=1.0, grad_sample_mode=mode, criterion=torch.nn.CrossEntropyLoss(),
                data_loader=torch.utils.data.DataLoader(data, batch_size=BATCH),
            )  # fmt: skip
        self.model, self.optimizer, self.loader = made[0], made[1], made[-1]
        self.criterion = made[2] if mode == "ghost" else torch.nn.CrossEntropyLoss()
        if watched:
            from perinstance.training.opacus import watch

            self.watch = watch(self.engine, self.optimizer, self.loader)
        self.batches = iter(self.loader)

    def steps(self, count: int) -> float:
        """Return the seconds of some steps, batches fetched and all."""
        clock = time.perf_counter if self.device.type == "cuda" else time.process_time
        start = clock()
        for _ in range(count):
            batch = next(self.batches, None)
            if batch is None:
                self.batches = iter(self.loader)
                batch = next(self.batches)
            x, y = (part.to(self.device) for part in batch)
            self.optimizer.zero_grad()
            self.criterion(self.model(x), y).backward()
            self.optimizer.step()
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()
        return clock() - start


def overhead(device: Any, mode: str) -> float:
    """Return how many times longer a watched step takes."""
    blocks, steps = BLOCKS[device.type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, watched = Training(False, device, mode), Training(True, device, mode)
        for training in (plain, watched):
            training.steps(3)
        ratios = []
        for block in range(blocks):
            order = (plain, watched) if block % 2 else (watched, plain)
            taken = {id(training): training.steps(steps) for training in order}
            ratios.append(taken[id(watched)] / taken[id(plain)])
    return float(np.median(ratios))


def run() -> list[Ratio]:
    """Measure, in one process."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("opacus") is None:
        return []
    import torch

    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return [
        Ratio(f"a watched step, {words}", f"one without a watch, {device.type}", overhead(device, mode), 1.05)
        for mode, words in (("hooks", "gradients of each sample"), ("ghost", "ghost clipping"))
    ]
