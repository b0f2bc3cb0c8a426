"""What the floors above ask of a release, and its answers for people with several rows: all are removed or added.

A posterior sample and objective perturbation move a plane for each further row, so that where somebody has several
everybody's pairs are general Gaussians.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from perinstance.errors import RefusedModel
from perinstance.folds.block import Block, weights_of
from perinstance.folds.sweep import People, Sweep
from perinstance.models.interface import MovedByPerson
from perinstance.models.smooth.problem import MinimumAudit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP, UNIT
from perinstance.pairs import GeneralGaussian, ObjectivePair, Pairs, PosteriorSamplePair
from perinstance.pairs.kinds import Method
from perinstance.record_tables import ShownAsTable


@runtime_checkable
class Release(Protocol):
    """A randomized estimator that knows the pair of every person."""

    def mechanism(self) -> Mechanism:
        """Describe the release in public terms."""

    def confidential_fit(self, sweep: Sweep, method: Method = "auto") -> Any:
        """Fit without noise, with everyone, by as many folds as it takes. The answer is confidential."""

    def people(self, fit: Any, block: Block, inside: bool = True) -> People:
        """Map: the pairs of the people of one block, who are in the data (``inside``) or are not."""

    def refine(self, fit: Any, sweep: Sweep, block: Block, inside: bool = True) -> People:
        """Answer for the few people that ``people`` left open; may fold again. Linear releases leave nobody open."""


def is_release(release: Any) -> bool:
    """Tell whether something is a release; its class has the methods too, and is none."""
    return isinstance(release, Release) and not isinstance(release, type)


def instead_of_a_release(release: Any) -> str:
    """Say what was got where a release is asked for, and what to do where it is the class of one."""
    if isinstance(release, type):
        return f"the class {release.__name__}; make one: {release.__name__}()"
    return type(release).__name__


def mechanism_of(release: Any) -> Mechanism:
    """Return the public description of a release; what is not a release is refused."""
    if not is_release(release):
        raise RefusedModel(
            f"a release is analysed (PosteriorSample, OutputPerturbation, ...), got {instead_of_a_release(release)}"
        )
    described: Mechanism = release.mechanism()
    return described


Moved = MovedByPerson | Literal["mean", "sum", "transformed sum"]
#: Where the noise's covariance comes from. ``output``: fixed in advance, ``scale^2 A^-1``. ``posterior``:
#: ``scale^2 H^-1`` with ``scale = gamma^-1/2``. ``objective``: ``scale^2 H^-2``. ``adaptive``: from noisy numbers that
#: were paid for.
Family = Literal["output", "posterior", "objective", "adaptive"]


@dataclass(frozen=True, slots=True, eq=False)
class Mechanism(ShownAsTable):
    """The public part of a release."""

    name: str  #: of the release's class, for messages and files
    moved: Moved
    family: Family
    noise: str  #: the law's name: "gaussian", "laplace", ...
    scale: float  #: of the noise, in the units of ``family``
    words: tuple[str | float, ...]  #: what is published; whoever shows it formats the numbers
    alpha: float = 0.0  #: the ridge penalty, of ``moved == "ridge"``
    fit_intercept: bool = False
    precision: Floats | None = None  #: A; None is the identity
    noise_parameters: tuple[tuple[str, float], ...] = ()  #: further public numbers of the law, by name
    promises: bool = False  #: whether an (epsilon, delta) promise holds for everybody
    needs_target: bool = True
    own_row: bool = False  #: whether what it costs a person is a function of their own row and of what was published

    @property
    def gamma(self) -> float:
        """The inverse temperature of a posterior sample."""
        return self.scale**-2


def estimator_words(estimator: Any) -> tuple[str | float, ...]:
    """Name an estimator and its penalty; None is ridge regression with alpha = 1."""
    if estimator is None:
        return ("ridge regression, alpha = ", 1.0)
    kind: Any = type(estimator)
    parameters = _parameters_of(kind) if hasattr(estimator, "get_params") else frozenset()
    told: list[str | float] = [kind.__name__]
    for name in ("alpha", "C"):
        value = getattr(estimator, name, None) if name in parameters else None
        if isinstance(value, int | float):
            told += [f", {name} = ", float(value)]
    return tuple(told)


@functools.cache
def _parameters_of(kind: type) -> frozenset[str]:
    """Return the names of an estimator's parameters, as scikit-learn finds them, which looks anew each time."""
    return frozenset(inspect.signature(kind).parameters)


@dataclass(frozen=True, slots=True)
class BlockLosses:
    """One entry per person of a block, and the rows of those who want ``Release.refine``."""

    people: People
    epsilon: Floats
    open: Block | None


def losses_of_block(block: Block, release: Release, fit: Any, inside: bool, delta: float) -> BlockLosses:
    """Map: each person's pair and its epsilon at delta; an engine may have its own way (``engines.cuda.catalogue``)."""
    people = people_with_rows(release, fit, block, inside)
    if people.open is None:
        return BlockLosses(people, people.pairs.epsilon(delta), None)
    known, epsilon = ~people.open, np.full(len(people.open), np.inf)
    epsilon[known] = people.pairs[known].epsilon(delta)  # the others are answered elsewhere
    return BlockLosses(people, epsilon, block.people_picked(people.open))


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
    order = np.argsort(~single, kind="stable").argsort()
    pairs = [general(part.pairs) for part in parts]
    opened = np.concatenate([np.zeros(len(p.leverage), dtype=bool) if p.open is None else p.open for p in parts])
    return People(
        np.concatenate([part.leverage for part in parts])[order],
        np.concatenate([part.residual for part in parts])[order],
        type(pairs[0]).concatenate(pairs)[order],
        opened[order] if opened.any() else None,
    )


def check_answers_persons(release: Any) -> None:
    """Refuse a release that does not know what all rows of a person cost."""
    if not isinstance(release, AnswersPersons):
        raise RefusedModel(
            f"what {type(release).__name__} costs a person with several rows is not known; make one row of each "
            "person's rows, by a rule fixed without looking at the outcome"
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
