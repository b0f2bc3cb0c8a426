r"""The noise of one sampled step in balls: ``A(c + i y) = sum_x a_x e^{i y lambda_x}`` to any number of digits.

The rule is that of ``log_moments.py``, with as many nodes as the digits ask for: ``a = d W phi e^{c lambda}``, and
lambda, are those of the noise ``x + i theta``, where ``|e^{i y lambda}| <= 1`` for all y >= 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perinstance.pairs.loss_sums.sampled.noise_cells import StepKind, noise_window

MOST_NOISE = 8192  # nodes of the noise
LARGEST = 600.0  # exponents of terms, which are not scaled


class NotPreciseError(ArithmeticError):
    """Moments that are not had to many digits: beyond the noise, too large, or by too many nodes."""


@dataclass(frozen=True, slots=True)
class NoiseBalls:
    """``a_x`` and ``lambda_x``, and how far off the sum over them is, absolutely, for every y."""

    weights: list[Any]
    losses: list[Any]
    missed: float


def noise_nodes(q: float, m: float, over: bool, c: float, depth: float) -> int:
    """Return over how many nodes of the noise a moment of order c is summed up."""
    return _count(noise_window(StepKind(q, m, over, 0.0), c, depth), depth)


def _count(window: Any, depth: float) -> int:
    return int((window.high - window.low) * depth / (2.0 * math.pi * window.theta)) + 1


def precise_window(step: StepKind, c: float, depth: float) -> tuple[Any, int, float]:
    """Return the window of a moment of order c, to ``e^-depth``, its nodes, and how far off their sum is."""
    window = noise_window(step, c, depth)
    noise = _count(window, depth)
    if not (window.whole and window.scale < LARGEST and noise <= MOST_NOISE):
        raise NotPreciseError(f"a step of rate {step.q} and distance {step.m} along the line through {c}")
    actual = 2.0 * math.pi * window.theta * noise / (window.high - window.low)
    missed = math.exp(window.scale) * (2.1 * math.exp(-actual) * window.strip + window.out)
    return window, noise, 1.001 * missed


def enclosed_terms(q: float, m: float, over: bool, c: float, depth: float) -> NoiseBalls:
    """Return the terms of a moment of order c, to ``e^-depth``, in balls of the current precision."""
    step = StepKind(q, m, over, 0.0)
    window, noise, missed = precise_window(step, c, depth)
    terms = list(noise_terms(step, c, (window.low, window.high), window.theta, noise))
    return NoiseBalls([weight for _, weight, _ in terms], [loss for _, _, loss in terms], missed)


def noise_terms(
    step: StepKind, c: float, window: tuple[float, float], height: float, nodes: int
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the noise x, ``a_x`` and ``lambda_x`` of the nodes of a window, off the real line."""
    from flint import acb, arb

    low, theta = arb(window[0]), arb(height if step.over else -height)
    width = (arb(window[1]) - low) / nodes
    rate, apart = arb(step.q), arb(step.m)
    unit = width / (2 * arb.pi()).sqrt()
    for i in range(nodes):
        x = acb(low + (2 * i + 1) * width / 2, theta)
        w = 1 - rate + rate * (apart * x - apart * apart / 2).exp()
        loss = w.log() if step.over else -w.log()
        log = c * loss - x * x / 2
        yield x, (log + loss if step.over else log).exp() * unit, loss
