"""Several people at once: a household, a school, a hospital; exactly, and by the chain of single losses.

In coordinates where H without the group is the identity its rows are ``V = X_g W'``, ``H_without^-1 = W'W``, with
eigenvalues s^2 of ``V'V``; r are the residuals without them, and a = V'r in the eigenvectors. In direction j

    posterior sample:  variance ratio 1 + s^2,  mean sqrt(gamma) a/sqrt(1 + s^2)  in deviations of Q,
    output:            theta_with - theta_without = H_with^-1 X_g'r,
    objective:         Q: N(0, I),  P: N(X_g'r / scale, M M'),  M = I + X_g'X_g H_without^-1:

at most min(k, d) directions for a posterior sample. Everything is enclosed (``enclosed_groups``), and what rounding may
have taken is charged. Charging a Gaussian pair: ``x -> A x + noise`` that keeps N(0, I) takes (m, N) to (A m, A N A'),
so that a pair with N larger, and ``N^-1/2 m`` not smaller, loses no less; a loss never falls with a ``|m_j|``.

The chain goes person by person, ``Z, [Z, z_1], .., [Z, z_1:k]``: ``eps = sum eps_i``, and because the weights run
forward in one direction and backward in the other, delta is the larger of ``sum_i delta_i e^{eps_1 + .. + eps_{i-1}}``
and ``sum_i delta_i e^{eps_{i+1} + .. + eps_k}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb_mat
from numpy.typing import ArrayLike

from perinstance.analysis.declared_bounds import ridge_mechanism
from perinstance.analysis.enclosed_groups import (
    GroupNeighbours,
    GroupRows,
    balls,
    enclosed,
    has_limit,
    spectrum,
)
from perinstance.checked_numbers import real_values
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.folds.sweep import ArraySweep, Sweep
from perinstance.models.linear.ridge import DualFit, LinearFit, without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import charge
from perinstance.numerics.rounding import ADDITION, NORM_UP, TINY, UNIT
from perinstance.pairs import GaussianShift, GeneralGaussian, ObjectivePair, Pairs, PosteriorSamplePair
from perinstance.pairs.arguments import delta_array
from perinstance.pairs.kinds import Kind, weakest, weakest_codes
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.release import Mechanism
from perinstance.sampling import ExactGram
from perinstance.sampling.ball_arithmetic import Undecided, exact, inverse_factor

#: The data of a fit: a sweep, (X, y), or their exact sums.
GroupData = Sweep | tuple[ArrayLike, ArrayLike] | ExactGram | None
#: Beyond, exponentials are infinite.
EXPONENT = 1e3


@dataclass(frozen=True, slots=True)
class Chain(ShownAsTable):
    """The chain bound of group privacy: both directions hold at (epsilon, delta)."""

    epsilon: float
    delta: float  #: the larger of the two below
    delta_without: float  #: P over Q: weights of those who come before
    delta_with: float  #: Q over P: weights of those who come after
    kind: Kind = "upper"
    assumptions: tuple[str, ...] = ("the losses are those of each person joining all who come before",)


def chain_bound(epsilon: ArrayLike, delta: ArrayLike, kind: Kind = "upper") -> Chain:
    """Add up single losses ``(eps_i, delta_i)`` of some kind in the order in which the people join.

    >>> c = chain_bound([1.0, 2.0], [1e-6, 1e-6])
    >>> round(c.epsilon, 9), round(c.delta_without * 1e6, 3), round(c.delta_with * 1e6, 3)
    (3.0, 3.718, 8.389)
    """
    eps, deltas = real_values("epsilon", epsilon), real_values("delta", delta)
    if deltas.shape not in ((), eps.shape):
        raise InvalidInput(f"pass one delta, or one per person ({eps.size}), got shape {deltas.shape}")
    deltas = np.broadcast_to(deltas, eps.shape)
    if eps.ndim != 1 or not (eps >= 0).all() or not (deltas >= 0).all():
        raise InvalidInput("epsilon and delta must be one number >= 0 per person, in the order in which they join")
    before = np.concatenate([[0.0], np.cumsum(eps)[:-1]])
    after = np.concatenate([np.cumsum(eps[::-1])[::-1][1:], [0.0]])
    ends = []
    for weights in (before, after):  # sum delta_i e^{w_i}, rounded up
        with np.errstate(over="ignore", invalid="ignore"):
            sum_ = float(np.sum(np.where(deltas > 0, deltas * np.exp(weights), 0.0)))
        # adding n losses up to w loses n u of w, which the exponential loses w times
        up = 1 + ADDITION * (len(deltas) + 1) * (1 + min(float(weights.max(initial=0.0)), EXPONENT))
        ends.append(min(sum_ * up, 1.0))
    # one addition each: the sum of the losses is rounded up
    total = float(eps.sum()) * (1 + ADDITION * len(eps))
    return Chain(total, max(ends), ends[0], ends[1], weakest("upper", kind))


def chain(pairs: Pairs, delta: float) -> Chain:
    """Return the chain bound at a total delta: everybody gets the same share, as large as both directions allow."""
    delta = float(delta_array(delta, 1, zero=False))
    if not len(pairs):
        raise InvalidInput("a chain needs at least one person")
    kind = weakest("upper", pairs.kind)
    answer = Chain(np.inf, delta, delta, delta, kind)
    if np.isinf(pairs.epsilon(0.5)).any():
        return answer
    low, high = np.log(delta) - 700.0, np.log(delta / len(pairs))
    share = high
    while high - low >= 1e-6:
        trial = chain_bound(pairs.epsilon(np.exp(share)), np.exp(share), kind)
        if trial.delta <= delta:
            low, answer = share, trial
        else:
            high = share
        share = 0.5 * (low + high)
    return answer


@dataclass(frozen=True, slots=True)
class Group(ShownAsTable):
    """What is lost when all these people join (or leave) together. Confidential."""

    epsilon: float  #: of ``kind``
    chain: float  #: the chain bound, for comparison: an upper bound
    delta: float
    people: int
    pairs: Pairs  #: one pair: without and with the whole group
    kind: Kind
    assumptions: tuple[str, ...]


def group(
    release: Any,
    fit: Any,
    X: ArrayLike,
    y: ArrayLike,
    delta: float = 1e-6,
    *,
    inside: bool = True,
    sweep: GroupData = None,
) -> Group:
    """Return the exact loss of a group, and the chain bound.

    ``inside``: the group is part of the data that ``fit`` was made with; otherwise it would join. ``sweep`` is the data
    of ``fit``, ``(X, y)`` or a sweep: it is summed once more without rounding, and the answer has all its digits
    however ill-conditioned the table is. Without it the answer is as good as the fit, and labelled so.
    """
    delta = float(delta_array(delta, 1, zero=False))
    pairs = group_pairs(release, fit, X, y, inside=inside, sweep=sweep)
    chained = chain(chain_pairs(release, fit, X, y, inside=inside, sweep=sweep), delta)
    assumptions = ("the group is fixed", "P is without all of them, Q with all of them")
    epsilon = float(pairs.epsilon(delta)[0])
    return Group(epsilon, chained.epsilon, delta, len(np.asarray(y)), pairs, pairs.kind, assumptions)


def group_pairs(
    release: Any, fit: Any, X: ArrayLike, y: ArrayLike, *, inside: bool = True, sweep: GroupData = None
) -> Pairs:
    """Return the one pair of the whole group."""
    mechanism, people, data = _asked(release, fit, X, y, inside, sweep)
    if people is None:
        return GaussianShift([np.inf])
    ask = {"posterior": _posterior, "output": _output, "objective": _objective}[mechanism.family]
    return enclosed(fit, people, data, lambda here: ask(mechanism, here))


def chain_pairs(
    release: Any, fit: Any, X: ArrayLike, y: ArrayLike, *, inside: bool = True, sweep: GroupData = None
) -> Pairs:
    """Return the single pairs ``(Z, z_1), ([Z, z_1], z_2), ..``: each person joins those before."""
    mechanism, people, data = _asked(release, fit, X, y, inside, sweep)
    if people is None:
        return GaussianShift(np.full(len(np.asarray(y)), np.inf))
    return enclosed(fit, people, data, lambda here: _single(mechanism, people, here))


def _posterior(mechanism: Mechanism, here: GroupNeighbours) -> tuple[Pairs, bool]:
    if here.rows.nrows() <= here.rows.ncols():
        V = here.rows * here.root.transpose()
        r = arb_mat(len(here.aim), 1, here.aim) - here.rows * here.z
        found = spectrum(V * V.transpose(), r)
        s2 = np.maximum(found.values, 0.0)
        along, off = np.abs(found.along), np.full(len(s2), found.vector_lost)
    else:
        found = spectrum(here.root * here.added * here.root.transpose(), here.root * here.toward)
        s2 = np.maximum(found.values, 0.0)
        s = np.sqrt(np.maximum(s2, TINY))
        along, off = np.abs(found.along) / s, found.vector_lost / s
    miss = float(here.miss.upper())
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        # what the rows may be wrong by turns their directions: the residual along one may come from another
        turned = np.minimum(1.0, 4 * found.lost / np.maximum(s2, TINY)) + min(1.0, 4 * found.lost)
        wide = s2 * NORM_UP + found.lost
        rho = np.minimum(along + off + turned * miss, miss) / mechanism.scale / np.sqrt(1 + s2)
        m, raised = np.sqrt(s2) * np.minimum(along, miss) / mechanism.scale / np.sqrt(1 + s2), np.sqrt(wide) * rho
    return _gaussian(s2, m, wide, raised * NORM_UP)


def _output(mechanism: Mechanism, here: GroupNeighbours) -> tuple[Pairs, bool]:
    inside = here.root * here.added * here.root.transpose()
    inside = inside + arb_mat(inside.nrows(), inside.nrows(), 1)
    W = arb_mat(inverse_factor(inside.tolist()).tolist()) * here.root  # H_with^-1 = W'W
    move = here.lift * (W.transpose() * (W * here.toward))
    if mechanism.precision is not None:
        A = balls(np.asarray(mechanism.precision))
        square = (move.transpose() * A * move)[0, 0]
    else:
        square = (move.transpose() * move)[0, 0]
    distance = square.nonnegative_part().sqrt() / exact(mechanism.scale)
    # the root of a ball around zero has no middle to speak of
    middle, top = float(square.mid().nonnegative_part().sqrt()) / mechanism.scale, float(distance.upper())
    found = charge(middle * NORM_UP, max(top - middle, 0.0))
    sharp = top - middle <= 4 * UNIT * middle
    return GaussianShift(np.atleast_1d(found.value), np.atleast_1d(found.kind_code)), sharp


def _objective(mechanism: Mechanism, here: GroupNeighbours) -> tuple[Pairs, bool]:
    W = here.root * here.lift.transpose()
    M = here.raw * (W.transpose() * W)
    M = M + arb_mat(M.nrows(), M.nrows(), 1)
    N = M * M.transpose() - arb_mat(M.nrows(), M.nrows(), 1)
    found = spectrum(N, here.raw_toward / exact(mechanism.scale))
    nu, m = found.values, np.abs(found.along)
    least = float(found.above.min(initial=1.0))
    if not least > 16 * UNIT:  # the excess of such a variance over one is minus one, to all digits
        raise NumericalTrouble(
            "without this group the noise of objective perturbation has a shape that float64 cannot hold beside the "
            "one with it; use a larger alpha"
        )
    lost = found.lost + 4 * UNIT * np.abs(nu)
    share = (found.lost + 4 * UNIT) / least
    if not share < 0.5:
        raise Undecided
    wide = np.where(nu < 0, np.maximum(nu - lost, 0.5 * found.above - 1), nu + lost)
    raised = m * (1 + 16 * share) + 16 * share * min(1.0, float(np.abs(nu).max(initial=0.0))) + found.vector_lost
    return _gaussian(nu, m, wide, raised * NORM_UP)


def _gaussian(nu: Floats, m: Floats, wide: Floats, raised: Floats) -> tuple[Pairs, bool]:
    """Return the raised pair with its label, and whether nothing but the last digits was charged."""
    lengths = np.array([np.linalg.norm(nu), np.linalg.norm(m)])
    lost = np.array([np.linalg.norm(wide - nu), np.linalg.norm(raised - m)])
    if not (np.isfinite(wide).all() and np.isfinite(raised).all()):
        return GaussianShift([np.inf], "upper"), False
    code = weakest_codes(*charge(lengths, lost).kind_code[:, None])
    return GeneralGaussian(wide[None, :], raised[None, :], code), bool((lost <= 4 * (NORM_UP - 1) * lengths).all())


def _single(mechanism: Mechanism, people: GroupRows, here: GroupNeighbours) -> tuple[Pairs, bool]:
    """Join one person after the other; each number is the upper end of its ball."""
    K, z = here.root.transpose() * here.root, here.z
    A = np.eye(here.lift.nrows()) if mechanism.precision is None else np.asarray(mechanism.precision)
    A = here.lift.transpose() * balls(A) * here.lift
    ends: list[list[tuple[float, float]]] = []
    for i, row in enumerate(here.rows.tolist()):
        x = arb_mat(len(row), 1, row)
        Kx = K * x
        mu = (x.transpose() * Kx)[0, 0].nonnegative_part()
        r = here.aim[i] - (x.transpose() * z)[0, 0]
        length = (Kx.transpose() * A * Kx)[0, 0].nonnegative_part().sqrt()
        ends.append([(float(value.mid()), float(value.upper())) for value in (mu, abs(r), length)])
        step = Kx * (1 / (1 + mu))
        K, z = K - step * Kx.transpose(), z + step * r
    if not np.isfinite(ends).all():
        raise Undecided
    (mu, r, v), (top_mu, top_r, top_v) = np.moveaxis(np.array(ends), 2, 0).swapaxes(1, 2)
    # a pair of larger leverage loses no less if the residual keeps up with it: see the module's docstring
    top_r = top_r * np.sqrt((1 + top_mu) / (1 + np.maximum(2 * mu - top_mu, 0.0))) * NORM_UP
    mu, top_mu, r = mu * NORM_UP, top_mu * NORM_UP, r * NORM_UP
    found = [charge(value, np.maximum(top - value, 0.0)) for value, top in ((mu, top_mu), (r, top_r), (v, top_v))]
    code = weakest_codes(*(part.kind_code for part in found))
    mu, r, v = (part.value for part in found)
    sharp = bool((code == 0).all())
    if mechanism.family == "posterior":
        return PosteriorSamplePair(mu, r / mechanism.scale, code), sharp
    if mechanism.family == "output":
        return GaussianShift(r * v / (1 + mu) * NORM_UP / mechanism.scale, code), sharp
    full = np.column_stack([people.X, np.ones((len(people.X), here.lift.nrows() - people.X.shape[1]))])
    rows = np.einsum("ij,ij->i", full, full) * NORM_UP
    return ObjectivePair(mu, r / mechanism.scale, rows, v**2 * NORM_UP, code), sharp


def _asked(
    release: Any, fit: Any, X: ArrayLike, y: ArrayLike, inside: bool, sweep: Any
) -> tuple[Mechanism, GroupRows | None, Sweep | ExactGram | None]:
    """Return the mechanism, the group and the data; no group where it moves a direction that nothing else determines.

    No data where they leave a direction open, group or not: that is for the fit, which takes the shortest estimate.
    """
    mechanism = ridge_mechanism(release)
    if not isinstance(fit, (LinearFit, DualFit)):
        raise RefusedModel(f"group losses need the fit of a linear model, got {type(fit).__name__}")
    X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if X.ndim != 2 or y.ndim != 1 or X.shape != (len(y), fit.n_features) or not len(y):
        raise InvalidInput(f"the group must have rows of {fit.n_features} features and one y each, got {X.shape}")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise InvalidInput("the group's rows and targets must be finite, got NaN or infinity in them")
    people = GroupRows(X, y, bool(inside))
    if isinstance(sweep, tuple):
        sweep = ArraySweep(np.asarray(sweep[0]), np.asarray(sweep[1]))
    if sweep is not None:
        exists = has_limit(fit, sweep, people)
        return mechanism, None if exists is False else people, None if exists is None else sweep
    open_ = not inside and bool(np.isinf(without(fit, X, np.zeros(len(X)), False).leverage).any())
    if open_ and fit.penalty.any():  # a penalty that float64 lost beside the data holds the direction all the same
        raise NumericalTrouble(
            "the group moves a direction that only the penalty holds, too weakly to be had from the fit; pass the data "
            "as sweep=(X, y)"
        )
    return mechanism, None if open_ else people, None
