"""The paper's table of definitions, on one data set: what each variant of differential privacy says about each person.

| variant      | data set | target  | functional of the pair                            |
|--------------|----------|---------|---------------------------------------------------|
| pure         | fixed    | each    | sup log p/q: epsilon at delta = 0                 |
| approximate  | fixed    | each    | epsilon at delta: per-instance DP                 |
| Renyi        | fixed    | each    | the divergence of order alpha                     |
| zCDP         | fixed    | each    | sup_alpha Renyi(alpha)/alpha                      |
| KL, TV       | fixed    | each    | Kullback-Leibler, total variation                 |
| on-average KL| fixed    | average | mean of KL over the people                        |
| random DP    | fixed    | 1 - g   | the loss that a share 1 - g does not exceed       |

The worst-case definitions of the table are suprema of these columns: over targets (``everyone``), over data sets for
one person (``one_person``, ``personal_dp``) or over both (``worst_case_dp``).

And what an attacker who knows everything but one bit, whether the person is in the data, concludes from an output.
With prior probability pi of "in", an output theta moves the odds by exactly ``q(theta)/p(theta) = e^-L``. The best
guess (the likelihood-ratio test) is right with probability ``1 - pi + pi delta_QP(log((1 - pi)/pi))``, one point of the
privacy profile. The paper's fact: where both probabilities of an event S are at least delta/eps,
``|log P(S)/Q(S)| <= 2 eps`` (because ``e^eps + eps <= e^(2 eps)``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance.analysis.loss_moments import quantile
from perinstance.checked_numbers import is_number, real_values
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.pairs.base import Pairs
from perinstance.pairs.kinds import Kind, weakest
from perinstance.record_tables import ShownAsTable
from perinstance.shown_decimals import short_loss_text


@dataclass(frozen=True, slots=True)
class Variants(ShownAsTable):
    """One number per person and definition. Confidential."""

    names: tuple[str, ...]
    values: Floats  #: (people, definitions)
    delta: float
    orders: tuple[float, ...]
    kind: Kind
    assumptions: tuple[str, ...]

    def __getitem__(self, name: str) -> Floats:
        if name not in self.names:
            raise InvalidInput(f"no such definition: {name!r}; there are {', '.join(self.names)}")
        return self.values[:, self.names.index(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    @property
    def on_average_kl(self) -> float:
        """The mean Kullback-Leibler loss over the people of this data set."""
        return float(self["kl"].mean())

    def random_dp(self, share: float) -> float:
        """Return the approximate-DP loss that all but a share of the people of this data set do not exceed."""
        return float(quantile(self["approximate"], 1 - share))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one row per person (pandas must be installed)."""
        import pandas as pd

        return pd.DataFrame(self.values, columns=list(self.names))

    def __str__(self) -> str:
        shares = (0.5, 0.95, 1.0)
        lines = [f"{'definition':<14}{'mean':>12}{'median':>12}{'95%':>12}{'largest':>12}"]
        for j, name in enumerate(self.names):
            column = self.values[:, j]
            cells = [column.mean(), *quantile(column, shares)]
            lines.append(f"{name:<14}" + "".join(f"{short_loss_text(cell, 4):>12}" for cell in cells))
        lines.append(f"approximate at delta = {self.delta:g}; {len(self.values)} people; {self.kind}")
        return "\n".join(lines)


def variants(pairs: Any, delta: float | None = None, orders: Sequence[float] = (2.0, 10.0)) -> Variants:
    """Put the definitions side by side, for pairs or for an audit.

    >>> from perinstance.pairs import GaussianShift
    >>> print(variants(GaussianShift([0.31, 0.97]), 1e-6, orders=(2.0,)))
    definition            mean      median         95%     largest
    pure                   inf         inf         inf         inf
    approximate           3.03       1.339       4.721       4.721
    renyi(2)            0.5186     0.09611       0.941       0.941
    zcdp                0.2593     0.04806      0.4705      0.4705
    kl                  0.2593     0.04806      0.4705      0.4705
    tv                  0.2478      0.1232      0.3724      0.3724
    approximate at delta = 1e-06; 2 people; exact
    """
    if isinstance(pairs, Pairs):
        vector = pairs
    else:
        vector, delta = pairs.pairs, pairs.delta if delta is None else delta
    if not len(vector):
        raise InvalidInput("there is nobody to compare definitions for: pass the pairs of at least one person")
    if delta is None:
        raise InvalidInput("delta is needed with pairs; try delta=1e-6")
    columns = {
        "pure": vector.epsilon(0.0),
        "approximate": vector.epsilon(delta),
        **{f"renyi({order:g})": vector.renyi(order) for order in orders},
        "zcdp": vector.zcdp(),
        "kl": vector.kl(),
        "tv": vector.tv(),
    }
    values, powers = np.column_stack(list(columns.values())), tuple(float(order) for order in orders)
    assumptions = ("the data set is fixed", "each target is one person; the pair is without and with that person")
    return Variants(tuple(columns), values, float(delta), powers, vector.kind, assumptions)


@dataclass(frozen=True, slots=True)
class Identification(ShownAsTable):
    """How well the best attacker guesses whether each person is in the data. Confidential."""

    prior: Floats
    accuracy: Floats  #: of the best guess, after seeing the release
    guess: Floats  #: of the best guess without the release: max(pi, 1 - pi)
    kind: Kind
    assumptions: tuple[str, ...] = ("the attacker knows everybody else's data and the person's own row",)

    @property
    def advantage(self) -> Floats:
        """By how much the release improves the best guess."""
        return np.maximum(self.accuracy - self.guess, 0.0)


def identification(pairs: Pairs, prior: ArrayLike = 0.5) -> Identification:
    """Return the probability that the best guess about each person's membership is right.

    >>> from perinstance.pairs import GaussianShift
    >>> identification(GaussianShift([0.0, 1.0]), 0.5).accuracy.round(4)
    array([0.5   , 0.6915])
    """
    pi = np.broadcast_to(real_values("prior", prior), (len(pairs),))
    if not ((pi > 0) & (pi < 1)).all():
        raise InvalidInput("prior must lie in (0, 1): the attacker's probability that the person is in the data")
    threshold = np.log1p(-pi) - np.log(pi)
    accuracy = 1 - pi + pi * np.asarray(pairs.delta(threshold, "with"))
    return Identification(pi, np.clip(accuracy, 0.0, 1.0), np.maximum(pi, 1 - pi), pairs.kind)


def posterior_odds(loss: ArrayLike, prior: ArrayLike = 0.5) -> Floats:
    """Return the odds "in : out" after an output whose loss ``L = log p/q`` is given.

    >>> posterior_odds([0.0, np.log(2.0)], 0.5)
    array([1. , 0.5])
    """
    pi, L = real_values("prior", prior), real_values("loss", loss)
    if not ((pi > 0) & (pi < 1)).all():
        raise InvalidInput("prior must lie in (0, 1): the attacker's probability that the person is in the data")
    if np.isnan(L).any():
        raise InvalidInput("the loss log p/q must be a number, got NaN")
    with np.errstate(over="ignore"):
        return np.exp(np.log(pi) - np.log1p(-pi) - L)


@dataclass(frozen=True, slots=True)
class OddsBound(ShownAsTable):
    """How far the release can move the attacker's log odds, except with small probability."""

    log_odds: Floats  #: of each person
    event_probability: Floats  #: the bound holds for events at least as likely as this under both hypotheses
    kind: Kind
    assumptions: tuple[str, ...] = ("any side information: given the data, the draw is fresh",)


def odds_bound(epsilon: ArrayLike, delta: float, kind: Kind = "upper") -> OddsBound:
    """Return the paper's identification fact: ``2 eps`` for events of probability at least ``delta/eps``.

    ``kind`` is that of the losses; numbers alone are taken for losses that hold.
    """
    eps = real_values("epsilon", epsilon)
    if not (eps >= 0).all() or not is_number(delta) or not 0 <= delta <= 1:
        raise InvalidInput("losses must be numbers >= 0 and delta must lie in [0, 1]")
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.minimum(np.where(eps > 0, delta / eps, 1.0), 1.0)
    return OddsBound(2 * eps, least, weakest("upper", kind))


def realised_loss(without: Any, with_: Any, theta: ArrayLike) -> float:
    """Return ``L = log p/q`` at one output, from the two laws of the release (``release.law(fit)`` without and with).

    Its negative is what the attacker's log odds of "in" gain. As confidential as the data.
    """
    theta = real_values("theta", theta)
    return _log_density(without, theta) - _log_density(with_, theta)


def _log_density(law: Any, theta: Floats) -> float:
    if law.noise != "gaussian":
        z = np.linalg.solve(law.root, theta - law.mean)
        return float(-np.abs(z).sum() - np.linalg.slogdet(law.root)[1] - len(z) * np.log(2))
    covariance = law.root @ law.root.T
    lower = np.linalg.cholesky(covariance)
    z = np.linalg.solve(lower, theta - law.mean)
    return float(-0.5 * (z @ z) - np.log(np.diag(lower)).sum() - 0.5 * len(z) * np.log(2 * np.pi))
