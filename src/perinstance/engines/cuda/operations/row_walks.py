"""The operation ``losses_of_block`` on a device, for smooth models, objective perturbation and descents.

The device multiplies every row; a few numbers per person travel back, and threads of the processor make people of them
by the code that it uses for its own blocks. Rows that it wants to see again are few, and are copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from perinstance.engines.cuda.device_tables import copied, torch_module
from perinstance.engines.cuda.epsilons import shift_epsilons_there, shifts_on_device
from perinstance.engines.cuda.operations.descent_sums import (
    labelled,
    lengths_along_there,
    level_counts,
    longest_there,
)
from perinstance.engines.cuda.operations.objective_kernel import epsilons_of_objectives
from perinstance.engines.cuda.operations.run_sums import predictor, row_squares, rows_of_chunk, there
from perinstance.engines.cuda.row_sums import DeviceFactor, row_answers
from perinstance.engines.cuda.transfers.device_to_host import Downloads, event_now
from perinstance.engines.cuda.transfers.host_to_device import DeviceBlock
from perinstance.engines.ordered_results import Crew, ordered
from perinstance.folds.block import Block
from perinstance.folds.sweep import People
from perinstance.models.interface.problem import Movement
from perinstance.models.linear.ridge import LinearFit, movement_of, row_map, without
from perinstance.models.linear.row_statistics import HARD, Without
from perinstance.models.smooth.movement_bounds import Multipliers, RowProducts, multipliers
from perinstance.models.smooth.problem import SmoothAudit, movement_of_products
from perinstance.numerics.array_types import Floats
from perinstance.pairs import Objective, Pairs, Shift
from perinstance.pairs.bounded_shift import Dominated
from perinstance.pairs.interface.arguments import spread
from perinstance.releases.base.block_losses import AnswerPlaces, BlockLosses
from perinstance.releases.descent.clipped_steps import gradients_of
from perinstance.releases.descent.lengths_along_path import GradientLengths
from perinstance.releases.descent.step_losses import LEVELS

#: rows whose numbers are made people of at a time, and threads that do it
CHUNK_ROWS, MOST_THREADS = 1 << 18, 16


class PeopleThere(Protocol):
    """Makes people of rows on a device."""

    def people(self, X: Any, y: Any) -> People:
        """Answer for some rows; called by several threads."""


class DeviceRows:
    """Rows on a device, of which some are asked for: positions give a copy for the processor, a slice a view."""

    def __init__(self, X: Any) -> None:
        self.X = X

    def __getitem__(self, part: slice | NDArray[np.intp]) -> Any:
        if isinstance(part, slice):
            return DeviceRows(self.X[part])
        torch = torch_module()
        return _answers(self.X[torch.as_tensor(part, device=self.X.device)].to(torch.float64))


class DeviceMultipliers:
    """What rows are multiplied by, copied to a device once."""

    def __init__(self, by: Multipliers, device: Any) -> None:
        torch = torch_module()

        def sent(array: Floats | None) -> Any:
            return None if array is None else torch.tensor(array, dtype=torch.float64, device=device)

        self.intercept, self.sizes = by.intercept, by.sizes
        self.theta, self.T, self.powers = sent(by.theta), sent(by.T.T), sent(by.powers)
        self.share, self.weights = sent(by.share), sent(by.weights)

    def products(self, X: Any, y: Floats) -> RowProducts:
        """``row_products``, with the numbers of each row on the host; ``y`` are the codes there."""
        torch = torch_module()
        parts: list[list[Any]] = []
        for rows in X.split(rows_of_chunk(len(self.theta))):
            x = rows.to(torch.float64)
            t = predictor(x, self.T, self.intercept)
            cross = None if self.share is None else t @ self.share
            t *= t
            lengths = None if self.weights is None else predictor(x * x, self.weights, self.intercept)
            size = predictor(x.abs(), self.theta.abs(), self.intercept) if self.sizes else None
            parts.append([predictor(x, self.theta, self.intercept), t @ self.powers, cross, lengths, size])
        columns: list[Any] = [
            None if part[0] is None else _answers(torch.cat(part)) for part in zip(*parts, strict=True)
        ]
        return RowProducts(y, *columns)


@dataclass(frozen=True, slots=True)
class _Statistics:
    """Row statistics of a linear fit, with the processor's for rows of which the device does not know enough."""

    fit: LinearFit
    factor: DeviceFactor
    inside: bool
    floor: float

    @classmethod
    def of(cls, release: Any, fit: LinearFit, inside: bool, device: Any) -> _Statistics:
        factor = DeviceFactor(row_map(fit), fit.n_features, device)
        return cls(fit, factor, inside, float(getattr(release, "residual_floor", 0.0)))

    def without(self, X: Any, y: Any) -> Without:
        """``models.linear.ridge.without``."""
        torch = torch_module()
        parts = []
        for x, t in zip(*(one.split(rows_of_chunk(X.shape[1])) for one in (X, y)), strict=True):
            seen = row_answers(self.factor, x.to(torch.float64), t.to(torch.float64), self.inside, self.floor)
            parts.append((seen.leverage, seen.residual, seen.length, seen.share, seen.code))
        leverage, residual, length, share, code = (
            np.empty(0) if one[0] is None else _answers(torch.cat(one)) for one in zip(*parts, strict=True)
        )
        codes, open_rows = np.minimum(code, 1).astype(np.uint8), None
        left = np.flatnonzero(code == HARD if self.factor.rows_map.large else code > 0)
        if len(left):
            at = torch.as_tensor(left, device=X.device)
            rows, aims = (_answers(one[at].to(torch.float64)) for one in (X, y))
            better = without(self.fit, rows, aims, self.inside, self.floor)
            leverage[left], residual[left] = better.leverage, better.residual
            if len(length):
                length[left], share[left] = better.length, better.share
            codes[left] = better.kind_code
            if better.open is not None:
                open_rows = np.zeros(len(codes), dtype=bool)
                open_rows[left] = better.open
        return Without(leverage, residual, length, share, codes, open_rows)


@dataclass(frozen=True, slots=True)
class RowWalk:
    """A map over rows on a device: chunks of them go to threads, who make people and losses of them."""

    answers: PeopleThere
    delta: float
    device: Any

    def walk(
        self,
        blocks: Iterator[DeviceBlock],
        threads: int,
        places: AnswerPlaces | None = None,
        crew: Crew | None = None,
        downloads: Downloads | None = None,  # nothing comes back by way of them
    ) -> Iterator[BlockLosses]:
        """Answer block by block; a thread waits for the device while others work, and places what it made."""

        def runs() -> Iterator[DeviceBlock]:
            for block in blocks:
                block.wait()
                for start in range(0, len(block), CHUNK_ROWS):
                    part = slice(start, start + CHUNK_ROWS)
                    yield DeviceBlock(block.X[part], block.y[part], block.start + start, None)

        def answered(block: DeviceBlock) -> BlockLosses:
            event_now(self.device)  # binds a new thread to the device: a product does so with a warning only
            part = self._losses(block)
            if places is not None:
                places.place(part, block.start)
            return part

        return ordered(answered, runs(), min(threads, MOST_THREADS), crew=crew)

    def _losses(self, block: DeviceBlock) -> BlockLosses:
        people = self.answers.people(block.X, block.y)
        epsilon = self._epsilon(people.pairs)
        if people.open is None:
            return BlockLosses(people, epsilon, None)
        torch = torch_module()
        at = torch.as_tensor(np.flatnonzero(people.open), device=block.X.device)
        rows = Block(_answers(block.X[at].to(torch.float64)), _answers(block.y[at].to(torch.float64)), block.start)
        return BlockLosses(people, epsilon, rows)

    def _epsilon(self, pairs: Pairs) -> Floats:
        """Invert shifts, what is bounded by shifts, and objectives on the device; other pairs by the processor."""
        if isinstance(pairs, Objective) and 0.0 < self.delta <= 0.5:
            return self._of_objectives(pairs)
        if isinstance(pairs, Shift) and 0.0 < self.delta <= 0.5:
            return self._of_shifts(spread(pairs.distance, len(pairs)), self.delta)
        if isinstance(pairs, Dominated) and self.delta <= 0.5:
            D, tail = (spread(one, len(pairs)) for one in (pairs.distance, pairs.tail))
            tails = np.unique(tail)
            left = np.where(tails > 0.0, np.nextafter(self.delta - tails, -np.inf), self.delta)
            if len(left) <= 2 and (left > 0.0).all():  # people with a certificate, and those without
                inner = np.empty(len(pairs))
                for own, delta in zip(tails, left, strict=True):
                    at = tail == own
                    inner[at] = self._of_shifts(D[at], float(delta))
                return pairs.epsilon_of_shift(inner, self.delta)
        return pairs.epsilon(self.delta)

    def _of_objectives(self, pairs: Objective) -> Floats:
        """Invert pairs of objective perturbation on the device, and those that it leaves by the processor."""
        torch = torch_module()
        columns = (pairs.leverage, pairs.residual, pairs.x_squared, pairs.v_squared)
        mu, r, xx, vv = (
            torch.tensor(spread(one, len(pairs)), dtype=torch.float64, device=self.device) for one in columns
        )
        epsilon: Floats = _answers(epsilons_of_objectives(mu, r, xx, vv, self.delta))
        left = np.isnan(epsilon)
        if left.any():
            epsilon[left] = pairs[left].epsilon(self.delta)
        return epsilon

    def _of_shifts(self, D: Floats, delta: float) -> Floats:
        """Invert shifts at one delta on the device, and those that it leaves by the processor."""
        torch = torch_module()
        distances = torch.tensor(D, dtype=torch.float64, device=self.device)
        epsilon: Floats = _answers(shift_epsilons_there(distances, shifts_on_device(delta, self.device)))
        left = np.isnan(epsilon)
        if left.any():
            epsilon[left] = Shift(D[left]).epsilon(delta)
        return epsilon


def _answers(tensor: Any) -> Any:
    """Copy numbers of some rows to the host."""
    return copied(tensor, pinned=True)


def codes_of(fit: SmoothAudit, y: Any) -> Floats:
    """Return targets on the host, as the model has them."""
    target: Floats = _answers(y.to(torch_module().float64))
    return target if fit.classes is None else fit.classes.codes(target)


class SmoothPeople:
    """Releases of a smooth model: output perturbation, and objective perturbation of logistic regression."""

    def __init__(self, release: Any, fit: SmoothAudit, inside: bool, device: Any) -> None:
        self.release, self.fit, self.inside = release, fit, inside
        self.by = DeviceMultipliers(release.multipliers(fit, inside), device)

    def people(self, X: Any, y: Any) -> People:
        """Multiply, and let the release make people of the products."""
        products = self.by.products(X, codes_of(self.fit, y))
        people: People = self.release.from_row_products(self.fit, products, self.inside)
        return people


class ObjectivePeople:
    """Objective perturbation of a linear model: its row statistics, and the lengths of the rows."""

    def __init__(self, release: Any, fit: LinearFit, inside: bool, device: Any) -> None:
        self.release, self.fit = release, fit
        self.statistics = _Statistics.of(release, fit, inside, device)

    def people(self, X: Any, y: Any) -> People:
        """Take the statistics and lengths."""
        torch = torch_module()
        squares = [row_squares(part.to(torch.float64)) for part in X.split(rows_of_chunk(X.shape[1]))]
        seen = self.statistics.without(X, y)
        people: People = self.release.from_row_lengths(self.fit, seen, _answers(torch.cat(squares)))
        return people


class DescentPeople:
    """A noisy descent: how people move the minimum, and how long their gradients are or were."""

    def __init__(self, release: Any, fit: Any, inside: bool, device: Any) -> None:
        self.release, self.fit, self.inside = release, fit, inside
        self.gradients, self.steps = gradients_of(release.problem()), release.declared_steps()
        inner = fit.inner
        self.statistics, self.by = None, None
        if isinstance(inner, SmoothAudit):
            self.by = DeviceMultipliers(multipliers(inner.model, inside), device)
        else:
            self.statistics = _Statistics.of(release, inner, inside, device)

    def people(self, X: Any, y: Any) -> People:
        """Take movements and lengths."""
        people: People = self.release.from_gradient_lengths(self.fit, self._movement(X, y), self._lengths(X, y))
        return people

    def _movement(self, X: Any, y: Any) -> Movement:
        if self.by is not None:
            return movement_of_products(self.fit.inner, self.by.products(X, codes_of(self.fit.inner, y)), self.inside)
        assert self.statistics is not None
        return movement_of(self.statistics.without(X, y))

    def _lengths(self, X: Any, y: Any) -> GradientLengths:
        torch = torch_module()
        gradients, steps = self.gradients, self.steps
        if self.fit.path is None:
            parts = X.split(rows_of_chunk(X.shape[1]))
            found = [longest_there(x.to(torch.float64), gradients) for x in parts]
            return GradientLengths(longest=_answers(torch.cat(found)))
        path, found = there(self.fit.path[:-1], X), []
        rows = rows_of_chunk(max(4 * len(path), X.shape[1], LEVELS))
        for x, t in zip(X.split(rows), y.split(rows), strict=True):
            target = labelled(t.to(torch.float64), self.fit.labels)
            lengths = lengths_along_there(x.to(torch.float64), target, gradients, path, steps.clip)
            if steps.rate == 1.0:
                found.append((lengths / steps.noise).square_().sum(dim=1))
            else:
                found.append(level_counts(lengths, steps.clip, LEVELS))
        answer = _answers(torch.cat(found))
        return GradientLengths(squares=answer) if steps.rate == 1.0 else GradientLengths(counts=answer)
