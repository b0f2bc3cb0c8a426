"""What an audit of a descent needs besides the minimum: lengths of gradients along iterates, composed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perinstance.folds.block import Block
from perinstance.models.interface.fit_health import FitHealth
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import STEP_UP
from perinstance.pairs.interface.base import Pairs
from perinstance.releases.descent.clipped_steps import OwnClips, Steps, clipped_lengths
from perinstance.releases.descent.person_gradients import PersonGradients
from perinstance.releases.descent.ridge_iterates import RidgeMoments
from perinstance.releases.descent.step_losses import LEVELS, counted, counted_steps, equal_steps
from perinstance.releases.promises.class_labels import signs_of_numbers


@dataclass(frozen=True, slots=True)
class DescentFit:
    """The minimum with everyone, for leverages and residuals, and what the losses need besides. Confidential."""

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

    def codes(self, y: NDArray) -> Floats:
        """Return targets as ``fit`` takes them: of a classifier the declared classes are 0 and 1, others missing."""
        if self.classes is None:
            return np.asarray(y, dtype=np.float64)
        return (signs_of_numbers(y, self.classes) + 1.0) / 2.0


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
    if steps.rate == 1.0:
        return equal_steps(1.0, np.sqrt(squares / steps.count) * (STEP_UP * STEP_UP), steps.count, "estimate")
    return counted_steps(steps.rate, steps.noise, steps.clip, counts)
