"""A training that happened elsewhere, as an ``Audit`` sees a release: declared numbers, and no model of its own."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from perinstance.errors import RefusedModel
from perinstance.models.interface.fit_health import FitHealth, ShowsNoValue
from perinstance.releases.base.release import Mechanism
from perinstance.releases.descent.step_losses import DescentPromise

#: What a reading takes for granted, by how batches are looked at and what unknown lengths are taken to be.
ASSUMED = {
    "clip": "odometer reading along this training; a length that was not told counts as the clip",
    "own": (
        "odometer reading along this training; lengths that were not told are taken to be distributed as the person's "
        "own that were"
    ),
    "known": "odometer reading along this training, as if it were known who was in which batch",
}


@dataclass(frozen=True, slots=True)
class WatchedTraining:
    """What was declared of a training, and how it was read. All of it is public."""

    steps: int
    rate: float
    noise_multiplier: float
    clip: float
    reading: str  #: a key of ``ASSUMED``
    epsilon: None = None  #: nothing was asked for: the promise follows from the noise
    delta: None = None

    def promise(self, n_features: int | None = None) -> DescentPromise:
        """Return what holds for everybody, in every data set: as if all gradients were as long as the clip."""
        return DescentPromise(self.rate, 1.0 / self.noise_multiplier, self.steps)

    def mechanism(self) -> Mechanism:
        """Describe the training; a reading of it is no guarantee."""
        return Mechanism(
            name="WatchedTraining",
            moved="sum",
            family="adaptive",
            noise="gaussian",
            scale=self.noise_multiplier * self.clip,
            words=(
                f"a training of {self.steps:,} noisy steps, clipped at ",
                self.clip,
                ", sampled at rate ",
                self.rate,
                ", noise multiplier ",
                self.noise_multiplier,
                f" ({ASSUMED[self.reading]})",
            ),
            promises=True,
            needs_target=False,
        )

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return what was declared."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def law(self, fit: Any) -> Any:
        """Refuse: the model is elsewhere."""
        raise RefusedModel("what was trained elsewhere has no law here")


@dataclass(frozen=True, slots=True, repr=False)
class NoFit(ShowsNoValue):
    """What stands for the confidential fit: how many people there are."""

    people: int

    @property
    def health(self) -> FitHealth:
        """Nothing was fitted here."""
        return FitHealth(self.people)

    @property
    def gram(self) -> None:
        """None: predictions are made elsewhere."""
        return None
