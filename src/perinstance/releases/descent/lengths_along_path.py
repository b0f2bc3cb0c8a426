"""What an audit of a descent needs besides the minimum: lengths of gradients along iterates, composed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.models.interface import FitHealth, Problem, ShowsNoValue
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import STEP_UP
from perinstance.pairs.base import Pairs
from perinstance.releases.descent.clipped_steps import OwnClips, PersonGradients, Steps, clipped_lengths, coded_targets
from perinstance.releases.descent.ridge_iterates import RidgeMoments
from perinstance.releases.descent.step_losses import LEVELS, counted, counted_steps, equal_steps
from perinstance.releases.promises.class_labels import numbers_of_classes


@dataclass(frozen=True, slots=True, repr=False)
class DescentFit(ShowsNoValue):
    """The minimum with everyone, for leverages and residuals, and what the losses need besides. Confidential."""

    model: Problem  #: of which the minimum is
    inner: Any  #: the model's own confidential fit
    path: Floats | None = None  #: iterates along which lengths are read
    moments: RidgeMoments | None = None  #: of ridge regression without clipping
    classes: tuple[Any, Any] | None = None  #: of a classifier, as they were declared

    @property
    def theta(self) -> Floats:
        """The minimum without noise."""
        return self.inner.theta

    @property
    def health(self) -> FitHealth:
        """That of the minimum."""
        return self.inner.health

    @property
    def gram(self) -> None:
        """None: the iterates have no Gaussian law around the minimum."""
        return None

    @property
    def labels(self) -> tuple[float, float] | None:
        """The declared classes as an audit has them: numbers; of texts, their places in alphabetical order."""
        return None if self.classes is None else numbers_of_classes(self.classes)

    def codes(self, y: NDArray) -> Floats:
        """Return targets as ``fit`` takes them: of a classifier the declared classes are 0 and 1, others missing."""
        return coded_targets(y, self.labels)


@dataclass(frozen=True, slots=True)
class GradientLengths:
    """What the losses of some people follow from; one of the three is known."""

    longest: Floats | None = None  #: bounds from their own rows, whatever the path
    squares: Floats | None = None  #: along a path: sums of squared lengths over the noise
    counts: Floats | None = None  #: along a path: (people, levels), how often a length was at each level


def reading(gradients: PersonGradients, fit: DescentFit, block: Block, steps: Steps) -> Pairs:
    """Compose the lengths that these people's gradients had along the path: an odometer reading."""
    assert fit.path is not None  # asked by the caller
    y, people = fit.codes(block.y), np.arange(len(block.X))
    counts = np.zeros((len(people), LEVELS + 1))
    squares = np.zeros(len(people))
    clips = OwnClips(gradients, block.X, y, steps)
    for t, theta in enumerate(fit.path[:-1]):
        lengths = clipped_lengths(gradients.of(block.X, y, theta), steps.clip)
        lengths = np.minimum(lengths, clips.at(t, theta))
        squares += (lengths / steps.noise) ** 2
        counts[people, counted(lengths, steps.clip)] += 1
    return pairs_read(GradientLengths(squares=squares, counts=counts), steps)


def pairs_read(lengths: GradientLengths, steps: Steps) -> Pairs:
    """Return the pairs of people whose lengths along a path are known."""
    if steps.rate == 1.0:
        assert lengths.squares is not None
        return equal_steps(1.0, np.sqrt(lengths.squares / steps.count) * (STEP_UP * STEP_UP), steps.count, "estimate")
    assert lengths.counts is not None
    return counted_steps(steps.rate, steps.noise, steps.clip, lengths.counts)
