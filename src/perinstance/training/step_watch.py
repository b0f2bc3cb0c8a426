"""``Watch``: told each step's gradient lengths while a model is trained elsewhere (Opacus, PyTorch, numpy), MATH 7.

A step adds noise of standard deviation ``noise_multiplier * clip`` to the sum of clipped gradients of a Poisson sample.
The pair of a person at a step depends on how long their gradient is at the model of that step, *whether they are
sampled or not*: being sampled is the secret. What is not known is charged with the clip. Lengths are counted at levels
between 0 and the clip, each at the level above it, so memory does not grow with the number of steps.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from perinstance.auditing.result import Audit
from perinstance.checked_numbers import is_number, one_of, positive, probability, real_values, whole_number
from perinstance.data.source import Flavour
from perinstance.errors import InvalidInput
from perinstance.folds.ids import read_ids, refuse_duplicates
from perinstance.models.interface import ConfidentialFit
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP, TINY, UNIT
from perinstance.pairs import GaussianShift
from perinstance.pairs.base import Pairs
from perinstance.releases.base.release import Mechanism
from perinstance.releases.descent.step_losses import LEVELS, DescentPromise, counted, counted_steps

#: What a reading takes for granted, by how batches are looked at and what unknown lengths are taken to be.
ASSUMED = {
    "clip": "a length that was not told counts as the clip",
    "own": "lengths that were not told are taken to be distributed as the person's own that were",
    "known": "as if it were known who was in which batch",
}
#: Batches whose sizes have a probability below this under Poisson sampling are refused.
UNBELIEVABLE = 2.0**-40


@dataclass(frozen=True, slots=True)
class WatchedTraining:
    """A training as an ``Audit`` sees a release: what was declared of it, and how it was read. All of it is public."""

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
        declared = (self.clip, ", sampled at rate ", self.rate, ", noise multiplier ", self.noise_multiplier)
        reading = f" (odometer reading along this training; {ASSUMED[self.reading]})"
        return Mechanism(
            name="WatchedTraining",
            moved="sum",
            family="adaptive",
            noise="gaussian",
            scale=self.noise_multiplier * self.clip,
            words=(f"a training of {self.steps:,} noisy steps, clipped at ", *declared, reading),
            promises=True,
            needs_target=False,
        )

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """Return what was declared."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True, repr=False)
class NoFit(ConfidentialFit):
    """What stands for the confidential fit: how many people there are. Predictions are made elsewhere."""

    n_people: int


class Watch:
    """Count everybody's gradient lengths along a training with Poisson-sampled, clipped, noisy steps.

    Of ``people`` training examples each is in a step's sample with probability ``rate``. The noise on the sum of
    gradients has standard deviation ``noise_multiplier * clip``, ``clip`` the longest gradient of a person. A length is
    rounded up by less than ``clip / levels``. Batches from a shuffled list, or of a fixed size, are not Poisson samples
    and are refused: no formula here holds for them, and accounting them as Poisson can state too small a loss.

    Examples
    --------
    >>> import numpy as np
    >>> from perinstance.training import Watch
    >>> watch = Watch(people=4, rate=0.5, noise_multiplier=2.0, clip=1.0)
    >>> for batch in ([0, 2], [1], [0, 1, 3]):
    ...     watch.step(batch, np.full(len(batch), 0.5))
    >>> audit = watch.audit(delta=1e-5)
    >>> audit
    Audit(4 people in the data, WatchedTraining, delta=1e-05)
    >>> bool((audit.epsilon <= audit.release.promise().epsilon(1e-5)).all())
    True
    """

    def __init__(
        self,
        people: int,
        rate: float,
        noise_multiplier: float,
        clip: float,
        sampling: str = "poisson",
        levels: int = LEVELS,
    ) -> None:
        self.people = whole_number("people", people, 1, 2**40, 1000)
        if not is_number(rate) or not 0 < rate <= 1:
            raise InvalidInput("rate must lie in (0, 1]: the probability of being sampled; try rate=0.01")
        if sampling != "poisson":
            raise InvalidInput(
                f"sampling={sampling!r} is refused: losses of shuffled batches, or of batches of a fixed size, may be "
                "larger than those of Poisson samples; sample each person independently (Opacus: poisson_sampling=True)"
            )
        self.rate = float(rate)
        self.noise_multiplier = positive("noise_multiplier", noise_multiplier)
        self.clip = positive("clip", clip)
        levels = whole_number("levels", levels, 1, 10_000, LEVELS)
        self._counts: NDArray[np.uint32] = np.zeros((self.people, levels + 1), dtype=np.uint32)
        self._squares: Floats = np.zeros(self.people)
        self._steps = 0
        self._sampled = 0
        self._sizes: tuple[int, int] | None = None  # the smallest and the largest batch
        self._clipped: list[float] = []

    @property
    def steps(self) -> int:
        """How many steps were told."""
        return self._steps

    def clipped(self) -> Floats:
        """Return, for each step, the share of the sampled gradients that were longer than the clip. Confidential.

        A training that clips nearly everything to its end learns directions alone, and its readings are near the
        promise; one that clips nearly nothing adds more noise than it needs.
        """
        self._catch_up()
        return np.array(self._clipped)

    def step(self, indices: ArrayLike, norms: ArrayLike, everybody: bool = False) -> None:
        """Tell one step: who was sampled, and how long their gradients were before clipping.

        ``norms`` has one entry per index. With ``everybody=True`` it has one entry per person instead, all at the
        model of this step, and nobody needs to be charged with the clip. A step that sampled nobody counts too.
        """
        who: Any = np.asarray(indices)
        if who.size and (who.ndim != 1 or who.dtype.kind not in "iu"):
            raise InvalidInput("indices must be whole numbers, one per person sampled; pass positions, not a mask")
        who = np.ravel(who).astype(np.intp)
        if who.min(initial=0) < 0 or who.max(initial=0) >= self.people:
            raise InvalidInput(f"indices must lie in 0 .. {self.people - 1}; number the people as in the data set")
        if len(np.unique(who)) != len(who):
            raise InvalidInput("somebody is twice in one batch: that is no Poisson sample; tell each person once")
        lengths = real_values("norms", norms)
        wanted = (self.people,) if everybody else who.shape
        if lengths.shape != wanted:
            raise InvalidInput(f"norms must have shape {wanted}, got {lengths.shape}; pass one length per person told")
        if not (lengths >= 0).all():
            raise InvalidInput("norms must be numbers >= 0, got something else; has the training diverged?")
        if everybody:
            others = np.delete(np.arange(self.people), who)
            self._counts[others, self._level(lengths[others])] += 1
            lengths = lengths[who]
        self._count(who, lengths)

    def _count(self, who: NDArray[np.intp], lengths: Floats) -> None:
        """Count a step; ``lengths`` are those of the people in its batch."""
        np.add.at(self._counts, (who, self._level(lengths)), 1)
        squares = (np.minimum(lengths, self.clip) / self.clip) ** 2
        # a square next to underflow loses digits, or is zero: whoever has a length has a normal one
        np.add.at(self._squares, who, np.where(lengths > 0, np.maximum(squares, TINY), 0.0))
        smallest, largest = self._sizes or (len(who), len(who))
        self._sizes = min(smallest, len(who)), max(largest, len(who))
        self._steps += 1
        self._sampled += len(who)
        self._clipped.append(float(np.mean(lengths > self.clip)) if len(lengths) else 0.0)

    def _level(self, lengths: Floats) -> NDArray[np.intp]:
        return counted(lengths, self.clip, self._counts.shape[1] - 1)

    def audit(self, delta: float = 1e-6, ids: Any = None, unknown: str = "clip", batches: str = "secret") -> Audit:
        """Return everybody's reading at ``delta`` so far: an ``Audit``, all of whose losses are estimates.

        They may be above what ``pairs(...).epsilon(delta)`` takes minutes to find by a thousandth, never below it.
        What holds for everybody, in every data set, is ``audit.release.promise()``. Nobody has a leverage or a residual
        here: they are NaN. ``ids`` has one name per person, for the table and for a ledger.

        ``unknown`` says what counts for the steps in which somebody's length was not told. ``"clip"``: the clip.
        ``"own"``: lengths as often as they were told of this person, the remainder the longest of them; who was never
        told of is charged with the clip. That is sharper, and assumes more.

        ``batches="secret"``: nobody knows who was sampled when, as is usual. ``"known"``: as if everybody did; each
        person pays in the steps that sampled them only, but without the protection of sampling.
        """
        self._catch_up()
        delta = probability("delta", delta)
        reading = one_of("unknown", unknown, ("clip", "own"))
        reading = "known" if one_of("batches", batches, ("secret", "known")) == "known" else reading
        if not self._steps:
            raise InvalidInput("no step was told yet; call step(indices, norms) in the training loop")
        names = None
        if ids is not None:
            names = pa.chunked_array([read_ids(ids)])
            if len(names) != self.people:
                raise InvalidInput(f"ids must name each of {self.people} people, got {len(names)}; pass one id each")
            refuse_duplicates(names)
        self._check_batches()
        release = WatchedTraining(self._steps, self.rate, self.noise_multiplier, self.clip, reading)
        pairs = self.pairs(unknown, batches)
        losses = pairs.epsilon(delta)
        if batches == "secret":  # whoever knows the batches is not what the promise is about
            losses = np.minimum(losses, release.promise().epsilon(delta))
        return Audit(
            release=release,  # type: ignore[arg-type]  # it is trained elsewhere: nothing can be fitted or refined
            fit=NoFit(self.people),
            delta=delta,
            pairs=pairs,
            ids=names,
            flavour=Flavour("numpy"),
            losses=losses,
            leverages=np.full(self.people, np.nan),
            residuals=np.full(self.people, np.nan),
            inside=True,
            n_features=0,
        )

    def pairs(self, unknown: str = "clip", batches: str = "secret") -> Pairs:
        """Return the pairs of the reading, one per person."""
        self._catch_up()
        if batches == "known":
            squares = self._squares * (1.0 + self._steps * UNIT)
            return GaussianShift(np.sqrt(squares) / self.noise_multiplier * NORM_UP, "estimate")
        return self._composed(self._counts.astype(np.float64), unknown)

    def rounding(self, delta: float = 1e-6, unknown: str = "clip") -> Floats:
        """Return by how much counting lengths at levels may have raised each loss, at most. It is included in them.

        A reading may be up to a thousandth of itself above that, too (``audit``).
        """
        self._catch_up()
        counts = self._counts.astype(np.float64)
        lower = np.concatenate([counts[:, :1] + counts[:, 1:2], counts[:, 2:], np.zeros((self.people, 1))], axis=1)
        raised, least = (self._composed(of, unknown).epsilon(delta) for of in (counts, lower))
        return np.maximum(raised - least, 0.0)

    def _catch_up(self) -> None:
        """Find out whether something was missed: nothing here."""

    def _composed(self, counts: Floats, unknown: str) -> Pairs:
        return counted_steps(self.rate, self.noise_multiplier, 1.0, _all_steps(counts, self._steps, unknown))

    def _check_batches(self) -> None:
        """Refuse batches that cannot be Poisson samples of this rate."""
        smallest, largest = self._sizes or (0, 0)
        q, n = self.rate, float(self.people)
        if q == 1.0:
            if smallest < self.people:
                raise InvalidInput("rate is 1, but a step left people out; pass the rate with which they are sampled")
            return
        # no probability of a sum of independent bits exceeds 0.4688 over its standard deviation (Baillon et al. 2016)
        variance = n * q * (1.0 - q)
        same = -0.5 * math.log(max(4.0 * variance, 1.0)) * (self._steps - 1)
        if smallest == largest and same < math.log(UNBELIEVABLE):
            why = "no Poisson samples, whose sizes differ, and may cost more; sample each person independently"
            raise InvalidInput(f"all {self._steps:,} batches have the same size: they are {why}")
        # Bernstein: the number of all samples together
        off, total = abs(self._sampled - n * q * self._steps), variance * self._steps
        if -(off**2) / (2.0 * (total + off / 3.0)) < math.log(UNBELIEVABLE / 2.0):
            found = f"{self._sampled / self._steps:,.1f} on average instead of {n * q:,.1f}; pass the rate in use"
            raise InvalidInput(f"the batches do not have the size that rate={q:g} gives: {found}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.people:,} people, {self.steps:,} steps, rate={self.rate:g})"


def _all_steps(counts: Floats, steps: int, unknown: str) -> Floats:
    """Add the steps of which nothing was told."""
    told, top = counts.sum(axis=1), counts.shape[1] - 1
    if unknown == "clip":
        counts[:, top] += np.maximum(steps - told, 0.0)  # more were told if a step was interrupted
        return counts
    some = told > 0
    whole = np.zeros_like(counts)
    whole[some] = counts[some].astype(np.int64) * steps // told[some].astype(np.int64)[:, None]
    longest = np.where(some, top - np.argmax(counts[:, ::-1] > 0, axis=1), top)
    whole[np.arange(len(counts)), longest] += steps - whole.sum(axis=1)
    return whole
