"""The people of a block some of whom have several rows: the loss is that of removing or adding all of them.

Whoever has one row is answered as ever; ``persons`` of a release answers for the others. A posterior sample and
objective perturbation move a plane for each further row, so everybody's pairs are general Gaussians there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import RefusedModel
from perinstance.folds.block import Block, weights_of
from perinstance.folds.sweep import People
from perinstance.models.smooth.problem import MinimumAudit
from perinstance.numerics.rounding import NORM_UP, UNIT
from perinstance.pairs import GeneralGaussian, ObjectivePair, Pairs, PosteriorSamplePair


@runtime_checkable
class AnswersPersons(Protocol):
    """What a release offers where people have several rows."""

    def persons(self, fit: Any, block: Block, starts: NDArray[np.int64], inside: bool = True) -> People:
        """Map: one entry per person; the rows of person i are ``starts[i]`` to ``starts[i + 1]`` of the block."""


def people_with_rows(release: Any, fit: Any, block: Block, inside: bool = True) -> People:
    """Answer for the people of a block, one entry each, whatever the number of their rows."""
    if block.starts is None:
        found: People = release.people(fit, block, inside)
        return found
    check_answers_persons(release)
    return by_number_of_rows(
        single_rows(fit, block),
        block,
        lambda singles: release.people(fit, singles, inside),
        lambda several: release.persons(fit, several, several.starts, inside),
    )


def single_rows(fit: Any, block: Block) -> NDArray[np.bool_]:
    """Tell who is answered as somebody with one row; with weights nobody is in a smooth model: shares differ."""
    assert block.starts is not None
    weighted = isinstance(fit, MinimumAudit) and weights_of(block.y) is not None
    return np.asarray((np.diff(block.starts) == 1) & (not weighted), dtype=np.bool_)


def by_number_of_rows(
    single: NDArray[np.bool_], block: Block, one: Callable[[Block], People], several: Callable[[Block], People]
) -> People:
    """Answer by ``one`` for people who are ``single`` (a block of rows) and by ``several`` for the others."""
    assert block.starts is not None
    parts = []
    if single.any():
        parts.append(one(block.picked(block.starts[:-1][single])))
    if not single.all():
        parts.append(several(block.people_picked(~single)))
    joined, order = joined_people(parts), np.empty(len(single), dtype=np.intp)
    order[np.concatenate([np.flatnonzero(single), np.flatnonzero(~single)])] = np.arange(len(single))
    opened = None if joined.open is None else joined.open[order]
    return People(joined.leverage[order], joined.residual[order], joined.pairs[order], opened)


def check_answers_persons(release: Any) -> None:
    """Refuse a release that does not know what all rows of a person cost."""
    if not isinstance(release, AnswersPersons):
        raise RefusedModel(
            f"what {type(release).__name__} costs a person with several rows is not known; make one row of each "
            "person's rows, by a rule fixed without looking at the outcome"
        )


def joined_people(parts: list[People]) -> People:
    """Put people behind each other whose pairs may be of two types."""
    pairs = [general(part.pairs) for part in parts]
    masks = [np.zeros(len(p.leverage), dtype=bool) if p.open is None else p.open for p in parts]
    opened = np.concatenate(masks)
    return People(
        np.concatenate([part.leverage for part in parts]),
        np.concatenate([part.residual for part in parts]),
        type(pairs[0]).concatenate(pairs),
        opened if opened.any() else None,
    )


def general(pairs: Pairs) -> Pairs:
    """Return the pairs of a posterior sample or of objective perturbation as general Gaussians, never less."""
    if not isinstance(pairs, PosteriorSamplePair | ObjectivePair):
        return pairs
    here = pairs.coordinates()
    nu, m = here.nu + 4 * UNIT * np.abs(here.nu), np.sqrt(here.m2) * NORM_UP
    # a variance that is raised shrinks the shift: it is raised by as much and more
    share = 4 * UNIT * (1.0 + np.abs(nu)) / np.maximum(1.0 + nu, UNIT)
    m = m * (1.0 + 16.0 * share)
    lost = here.infinite | ~(share < 0.5).all(axis=1)
    return GeneralGaussian(np.where(lost[:, None], np.inf, nu), np.where(lost[:, None], np.inf, m), pairs.codes)
