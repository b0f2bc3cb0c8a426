"""What a training with sampled noisy steps costs everybody: exact, beside accountants of one loss for all.

People share 200 distances (a histogram of gradient norms); one delta. The rivals are asked for one person with one
distance, which is all that they can do: ratios are per person. Opacus is asked where it is installed.
"""

from __future__ import annotations

import importlib.util

import numpy as np

from benchmarks.ratio import Ratio, seconds
from perinstance.pairs import SampledGaussian

PEOPLE, KINDS, STEPS, RATE, DELTA = 100_000, 200, 20_000, 0.01, 1e-6


def histogram(people: int) -> SampledGaussian:
    """People whose norms are spread over the clipping range, each in their own way."""
    random = np.random.default_rng(0)
    edges = np.linspace(1.0 / KINDS, 1.0, KINDS)
    shape = random.uniform(1.0, 6.0, (people, 1))
    share = edges**shape * np.exp(-shape * edges)
    steps = np.floor(STEPS * share / share.sum(axis=1, keepdims=True))
    return SampledGaussian(RATE, edges[None], steps)


def google(interval: float) -> float:
    """Return the seconds that dp_accounting's privacy loss distributions take for one person."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    def one() -> float:
        step = pld.from_gaussian_mechanism(1.0, sampling_prob=RATE, value_discretization_interval=interval)
        return step.self_compose(STEPS).get_epsilon_for_delta(DELTA)

    return seconds(one, repeats=1)


def opacus() -> float:
    """Return the seconds that Opacus's accountant of privacy random variables takes for one person."""
    from opacus.accountants import PRVAccountant

    def one() -> float:
        accountant = PRVAccountant()
        accountant.history = [(1.0, RATE, STEPS)]
        return accountant.get_epsilon(DELTA)

    return seconds(one, repeats=1)


def run() -> list[Ratio]:
    """Measure, in one process."""
    many = histogram(PEOPLE)
    half = many[: PEOPLE // 2]
    half[:600].epsilon(DELTA)
    some, everybody = (seconds(lambda who=who: who.epsilon(DELTA), repeats=3) for who in (half, many))
    each = (everybody - some) / (PEOPLE - len(half))  # what one more costs; what is left when nobody is there: tables
    tables = everybody - PEOPLE * each
    what = f"a person of {PEOPLE:,}, {KINDS} distances ({each * 1e6:.1f} us)"
    found = [Ratio(what, f"10 us; shared tables take {tables:.1f} s", each / 10e-6, limit=1.0)]
    if importlib.util.find_spec("dp_accounting"):
        found.append(Ratio("dp_accounting's PLD, one person", "ours", google(1e-4) / each, at_least=10_000))
    if importlib.util.find_spec("opacus"):
        found.append(Ratio("Opacus's PRV accountant, one person", "ours", opacus() / each))
    return found
