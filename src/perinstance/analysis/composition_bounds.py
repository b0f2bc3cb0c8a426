"""Several releases on the same people: the textbook bounds, Renyi accounting and the exact total, side by side.

For releases with losses ``(eps_i, delta_i)`` of one person:

- simple:    ``(sum eps_i, sum delta_i)``;
- advanced (Dwork, Rothblum and Vadhan 2010, for unequal losses):
  ``eps = sum eps_i (e^{eps_i} - 1) + sqrt(2 log(1/delta') sum eps_i^2)`` at ``sum delta_i + delta'``, for any delta' in
  (0, 1); it is smaller than the simple sum only where the eps_i are small and many;
- Renyi:     ``min_alpha sum_i R_i(alpha) + log(1 - 1/alpha) - log(delta alpha)/(alpha - 1)`` (Canonne, Kamath and
  Steinke 2020);
- exact:     the loss random variables add (``pairs.compose``).

If the parameters of all releases were fixed in advance, the exact total is a guarantee. If later ones were chosen after
looking at earlier outputs, it is an odometer reading (``odometer``); it becomes a guarantee only through
``RenyiFilter``. Whatever is computed from the outputs alone has at most their loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perinstance.checked_numbers import got, is_number, real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ADDITION, BUDGET_DOWN
from perinstance.pairs import Pairs
from perinstance.pairs import compose as compose
from perinstance.pairs.arguments import DIRECTIONS, delta_array
from perinstance.pairs.kinds import Kind, is_bound, weakest, weakest_of_codes
from perinstance.record_tables import ShownAsTable
from perinstance.releases.promises.promise import renyi_to_epsilon as renyi_to_epsilon
from perinstance.shown_decimals import short_loss_text

#: orders of the Renyi bound: dense near 1, where people with large losses have their optimum
ORDERS = np.concatenate([1 + np.geomspace(0.01, 1, 16)[:-1], np.geomspace(2, 1024, 28)])
#: shares of delta that advanced composition spends on its own tail; the best one is taken
SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, slots=True)
class Composition(ShownAsTable):
    """The total loss of each person over all releases by four methods, all at the same delta. Confidential."""

    simple: Floats
    advanced: Floats
    renyi: Floats
    exact: Floats
    delta: float
    releases: int
    kind: Kind  #: of ``exact``
    assumptions: tuple[str, ...]

    @property
    def kind_of_bounds(self) -> Kind:
        """Of the other three: upper bounds, unless the losses that went into them are estimates."""
        return weakest("upper", self.kind)

    def __str__(self) -> str:
        lines = [f"{'composition':<12}{'mean':>12}{'median':>12}{'largest':>12}"]
        for name in ("simple", "advanced", "renyi", "exact"):
            values = getattr(self, name)
            shown = "total" if name == "exact" != self.kind else name
            cells = (values.mean(), np.median(values), values.max())
            lines.append(f"{shown:<12}" + "".join(f"{short_loss_text(cell, 4):>12}" for cell in cells))
        lines.append(f"{self.releases} releases, {len(self.exact)} people, delta = {self.delta:g}; {self.kind}")
        return "\n".join(lines)


def composition(pairs: Sequence[Pairs], delta: float = 1e-6) -> Composition:
    """Put the four totals side by side, for every person of a table.

    >>> from perinstance.pairs import GaussianShift
    >>> print(composition([GaussianShift([0.1, 0.2])] * 20, 1e-6))
    composition         mean      median     largest
    simple             14.21       14.21       19.19
    advanced           37.09       37.09       56.95
    renyi              3.379       3.379       4.606
    exact              3.151       3.151       4.306
    20 releases, 2 people, delta = 1e-06; exact
    """
    pairs, total = list(pairs), compose(pairs)
    if not len(total):
        raise InvalidInput("there is nobody to compose for: pass the pairs of at least one person")
    delta = float(delta_array(delta, 1, zero=False))
    k = len(pairs)
    simple = np.sum([p.epsilon(delta / k) for p in pairs], axis=0) * (1 + ADDITION * k)
    splits = [advanced_bound([p.epsilon((1 - s) * delta / k) for p in pairs], s * delta) for s in SHARES]
    by_order = [  # the best order of each direction
        np.min([renyi_to_epsilon(total.renyi(order, direction), order, delta) for order in ORDERS], axis=0)
        for direction in DIRECTIONS[1:]
    ]
    assumptions = ("the releases are independent given the data", "their parameters were fixed in advance")
    bounds = simple, np.min(splits, axis=0), np.maximum(*by_order)
    return Composition(*bounds, np.asarray(total.epsilon(delta)), delta, k, total.kind, assumptions)


def advanced_bound(epsilon: ArrayLike, delta_prime: float) -> Floats:
    """``sum eps_i (e^{eps_i} - 1) + sqrt(2 log(1/delta') sum eps_i^2)`` over the first axis.

    >>> float(advanced_bound([0.1] * 100, 1e-6).round(4))  # 100 * 0.1 (e^0.1 - 1) + 0.1 sqrt(200 log 1e6)
    6.3082
    """
    if not is_number(delta_prime) or not 0 < delta_prime < 1:
        raise InvalidInput(f"delta' must lie in (0, 1), got {got(delta_prime)}")
    eps = real_values("epsilon", epsilon)
    if not (eps >= 0).all():
        raise InvalidInput("losses must be numbers >= 0, got NaN or a negative one")
    with np.errstate(over="ignore"):
        drift = np.sum(eps * np.expm1(eps), axis=0)
        return drift + np.sqrt(-2 * np.log(delta_prime) * np.sum(eps**2, axis=0))


@dataclass(frozen=True, slots=True)
class Reading(ShownAsTable):
    """What each person has lost so far, and what that number is worth."""

    epsilon: Floats
    delta: float
    guarantee: bool  #: fixed in advance, and no release's loss is an estimate
    kind: Kind
    assumptions: tuple[str, ...]


def odometer(pairs: Sequence[Pairs], delta: float = 1e-6, *, fixed_in_advance: bool) -> Reading:
    """Return the exact total at the parameters actually used, labelled as what it is.

    ``fixed_in_advance``: nobody looked at an output before choosing a later release. Otherwise the number is an
    odometer reading: it describes what happened and bounds nothing on its own.
    """
    total = compose(pairs)
    if not fixed_in_advance:
        note = "later releases were chosen after earlier outputs: an odometer reading, not a guarantee"
    elif is_bound(total.kind):
        note = "the parameters of all releases were fixed in advance: a guarantee"
    else:
        note = "the parameters of all releases were fixed in advance, but some losses are estimates: not a guarantee"
    guarantee = bool(fixed_in_advance) and is_bound(total.kind)
    return Reading(np.asarray(total.epsilon(delta)), float(delta), guarantee, total.kind, (note,))


@dataclass(frozen=True, slots=True)
class RenyiFilter(ShownAsTable):
    """An individual Renyi filter: a person's row is used only while their budget at one fixed order lasts.

    Feldman and Zrnic (2021): if nobody's row is ever used beyond ``budget`` at ``order``, the whole adaptive sequence
    is (epsilon, delta) for everybody. What is charged must not depend on the *other* rows, or admission itself would
    give them away: charge ``personal`` losses (a supremum over data sets, see ``personal_dp``), not losses on this
    data. A filter that was charged with estimates is one, and limits nothing.
    """

    epsilon: float
    delta: float
    order: float
    budget: float  #: in Renyi divergence of that order
    spent: Floats
    kind: Kind = "upper"
    assumptions: tuple[str, ...] = field(default_factory=lambda: _assumed("upper"))

    @classmethod
    def of(cls, people: int, epsilon: float, delta: float, order: float | None = None) -> RenyiFilter:
        """Open an account for each person; the order is fixed now (None: the best one for Gaussian noise)."""
        delta = float(delta_array(delta, 1, zero=False))
        if people < 0:
            raise InvalidInput(f"the number of people must be >= 0, got {people}")

        def room(alpha: float) -> float:
            return float(epsilon - np.log1p(-1 / alpha) + (np.log(delta) + np.log(alpha)) / (alpha - 1))

        if order is None:
            order = float(max(ORDERS, key=lambda alpha: room(alpha) / alpha))
        if not order > 1 or not room(order) > 0:
            raise InvalidInput(
                f"no Renyi budget of order {order:g} gives epsilon={epsilon:g} at delta={delta:g}; raise the order"
            )
        return cls(float(epsilon), delta, float(order), room(order) * BUDGET_DOWN, np.zeros(people))

    def admits(self, pairs: Pairs) -> NDArray[np.bool_]:
        """Tell whose budget lasts for one more release."""
        return self.spent + self._cost(pairs) <= self.budget

    def charge(self, pairs: Pairs, used: Any = None) -> RenyiFilter:
        """Return the accounts after a release that used the rows ``used`` (None: everybody who was admitted)."""
        admitted = self.admits(pairs)
        taken = admitted if used is None else np.asarray(used, dtype=bool)
        if taken.shape != admitted.shape:
            raise InvalidInput(f"used must say of each of {len(admitted)} people, got shape {taken.shape}")
        if (taken & ~admitted).any():
            raise InvalidInput(
                f"{int((taken & ~admitted).sum())} people have no budget left for this release; leave their rows out"
            )
        cost = np.where(taken, self._cost(pairs), 0.0)
        spent = np.nextafter(self.spent + cost, np.where(cost > 0, np.inf, self.spent))
        kind = weakest(self.kind, weakest_of_codes(pairs._codes[taken]))
        return replace(self, spent=spent, kind=kind, assumptions=_assumed(kind))

    def _cost(self, pairs: Pairs) -> Floats:
        if len(pairs) != len(self.spent):
            raise InvalidInput(f"the filter has {len(self.spent)} people, the release {len(pairs)}; align them")
        return np.asarray(pairs.renyi(self.order))


def _assumed(kind: Kind) -> tuple[str, ...]:
    charged = "the losses charged hold for every data set that contains the person's row"
    return (
        charged if is_bound(kind) else "some of the losses charged are estimates: nobody's total is limited",
        "a person who is not admitted is left out of that release and all their later charges are zero",
    )
