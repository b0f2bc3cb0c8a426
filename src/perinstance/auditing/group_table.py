"""Losses by group: people, mean, median, 95% and maximum of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.quantiles import attained_quantile


def group_columns(losses: Floats, groups: Any) -> dict[str, Any]:
    """Return one entry per group as plain columns; ``groups`` has one label per person.

    >>> group_columns(np.array([1.0, 2.0, 4.0]), ["a", "b", "a"])["maximum"]
    array([4., 2.])
    """
    labels = np.asarray(groups)
    if labels.shape != (len(losses),):
        raise InvalidInput(f"groups must have one label per person ({len(losses)}), got shape {labels.shape}")
    names, member = np.unique(labels, return_inverse=True)
    order = np.argsort(member, kind="stable")
    cuts = np.searchsorted(member[order], np.arange(len(names) + 1))
    rows = []
    for start, stop in zip(cuts[:-1], cuts[1:], strict=True):
        of = losses[order[start:stop]]
        rows.append((len(of), of.mean(), *attained_quantile(of, [0.5, 0.95, 1.0])))
    people, mean, median, p95, maximum = (np.array(column) for column in zip(*rows, strict=True))
    return {"group": names, "people": people, "mean": mean, "median": median, "p95": p95, "maximum": maximum}
