"""Which rows of a person are used: every choice equally likely, whatever stands where, and nobody else matters."""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.stats import chisquare

from perinstance.sampling import random_bits as module
from perinstance.sampling.random_bits import chosen_rows


def replayed(monkeypatch, *words):
    """Let the operating system give these 64 bits for the rows, in order; then the next ones."""
    left = [np.array(one, dtype=np.uint64).tobytes() for one in words]
    monkeypatch.setattr(module.secrets, "token_bytes", lambda size: left.pop(0))
    return left


def test_at_most_k_rows_of_everybody_are_used():
    rng = np.random.default_rng(0)
    people = rng.integers(0, 40, 500)
    for k in (1, 3, 100):
        used = chosen_rows(people, k)
        counts = np.bincount(people, minlength=40)
        np.testing.assert_array_equal(np.bincount(people[used], minlength=40), np.minimum(counts, k))
    assert chosen_rows(np.zeros(0, dtype=np.int64), 2).shape == (0,)


def test_every_choice_is_equally_likely():
    people = np.array([7, 3, 7, 7, 3, 7])
    drawn = Counter(tuple(np.flatnonzero(chosen_rows(people, 2)).tolist()) for _ in range(6000))
    assert all({1, 4} <= set(one) for one in drawn)  # who has no more than two is always whole
    assert len(drawn) == 6 and chisquare(list(drawn.values())).pvalue > 1e-6


def test_rows_in_another_order_are_chosen_alike(monkeypatch):
    rng = np.random.default_rng(1)
    people, bits = rng.integers(0, 9, 60), rng.integers(0, 2**63, 60, dtype=np.uint64)
    order = rng.permutation(60)
    replayed(monkeypatch, bits, bits[order])
    assert (chosen_rows(people, 2)[order] == chosen_rows(people[order], 2)).all()


def test_others_change_nothing_for_a_person(monkeypatch):
    bits = np.arange(6, dtype=np.uint64)[::-1].copy()
    replayed(monkeypatch, bits, np.append(bits, [9, 8, 7]))
    alone = chosen_rows(np.array([0, 0, 0, 1, 1, 1]), 1)
    assert (chosen_rows(np.array([0, 0, 0, 1, 1, 1, 2, 2, 2]), 1)[:6] == alone).all()


def test_equal_bits_of_one_person_are_drawn_again(monkeypatch):
    left = replayed(monkeypatch, [5, 5, 1], [1, 2, 2])
    assert chosen_rows(np.array([0, 0, 1]), 1).tolist() == [True, False, True] and not left
