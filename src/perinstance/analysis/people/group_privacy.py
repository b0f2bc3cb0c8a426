"""Several people at once: a household, a school, a hospital; exactly, and by the chain of single losses.

In coordinates where H (with everyone) is the identity the group's rows are ``V = X_g B``, ``H^-1 = B B'``,
``V = U diag(c) W'``. Without the group H becomes ``I - V'V``; with e the residuals at the fit with everyone, in
direction j

    posterior sample:  variance ratio 1/(1 - c^2),  mean sqrt(gamma) c (u'e)/(1 - c^2)  in deviations of Q,
    output:            theta_with - theta_without = B sum_j w_j c_j (u_j'e)/(1 - c_j^2),
    objective:         Q: N(0, I),  P: N(X_g' r_without / s, M M'),  M = I + X_g'X_g H_without^-1:

at most min(k, d) directions (2k for objective perturbation) for any k. A group that is outside and would join has
variance ratio ``1 + c^2``, and so on.

The chain bound goes person by person, ``Z, [Z, z_1], .., [Z, z_1:k]``: ``eps = sum eps_i``, and because the weights run
forward in one direction and backward in the other, delta is the larger of ``sum_i delta_i e^{eps_1 + .. + eps_{i-1}}``
and ``sum_i delta_i e^{eps_{i+1} + .. + eps_k}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from perinstance.analysis.bounds.mechanism import ridge_mechanism
from perinstance.errors import InvalidInput, NumericalTrouble, RefusedModel
from perinstance.models.linear.ridge import LinearFit, without
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import NORM_UP
from perinstance.pairs import Gaussian, Objective, Pairs, Posterior, Shift
from perinstance.pairs.interface.arguments import delta_array
from perinstance.pairs.interface.kinds import Kind
from perinstance.record_tables import ShownAsTable
from perinstance.releases.base.mechanism import Mechanism

#: the loss of a group is refused when its leverage 1 - c^2 would be known to fewer digits than this
LEAST_PRECISION = 1e-6


@dataclass(frozen=True, slots=True)
class Group(ShownAsTable):
    """What is lost when all these people join (or leave) together. Confidential."""

    epsilon: float  #: exact
    chain: float  #: the chain bound, for comparison
    delta: float
    people: int
    pairs: Pairs  #: one pair: without and with the whole group
    kind: Kind
    assumptions: tuple[str, ...]


def group(release: Any, fit: Any, X: ArrayLike, y: ArrayLike, delta: float = 1e-6, *, inside: bool = True) -> Group:
    """Return the exact loss of a group, and the chain bound.

    ``inside``: the group is part of the data that ``fit`` was made with. Otherwise it would join.
    """
    delta = float(delta_array(delta, 1, zero=False))
    exact = group_pairs(release, fit, X, y, inside=inside)
    chained = chain(chain_pairs(release, fit, X, y, inside=inside), delta)
    return Group(
        float(exact.epsilon(delta)[0]),
        chained.epsilon,
        delta,
        len(np.asarray(y)),
        exact,
        exact.kind,
        ("the group is fixed", "P is without all of them, Q with all of them"),
    )


def group_pairs(release: Any, fit: Any, X: ArrayLike, y: ArrayLike, *, inside: bool = True) -> Pairs:
    """Return the one pair of the whole group."""
    mechanism, X, e, V = _rows(release, fit, X, y)
    if _open(fit, X, inside):
        return Shift([np.inf])
    U, c, Wt = np.linalg.svd(V, full_matrices=False)
    left = 1.0 - c**2 if inside else np.ones(len(c))  # of H without them; the fit of outsiders is that already
    _check_left(fit, left)
    ue = U.T @ e
    without_to_with = c * ue / (left if inside else 1 + c**2)  # theta_with - theta_without in coordinates Wt
    if mechanism.family == "posterior":
        nu = c**2 / left
        m = without_to_with / mechanism.scale * (1.0 if inside else np.sqrt(1 + c**2))
        return Gaussian(nu[None, :], m[None, :])
    if mechanism.family == "output":
        move = fit.basis @ (Wt.T @ without_to_with)
        square = move @ move if mechanism.precision is None else move @ mechanism.precision @ move
        return Shift([np.sqrt(square) / mechanism.scale * NORM_UP])
    # objective: residuals and H^-1 without the group
    r = e + U @ (c**2 / left * ue) if inside else e
    K_Xt = fit.basis @ (Wt.T @ ((c / left)[:, None] * U.T))  # H_without^-1 X_g'
    full = np.column_stack([X, np.ones((len(X), int(fit.fit_intercept)))])
    M = np.eye(len(fit.theta)) + full.T @ K_Xt.T
    mean = full.T @ r / mechanism.scale
    p = len(mean)
    return Gaussian.from_moments(mean[None, :], (M @ M.T)[None], np.zeros((1, p)), np.eye(p)[None])


def chain_pairs(release: Any, fit: Any, X: ArrayLike, y: ArrayLike, *, inside: bool = True) -> Pairs:
    """Return the single pairs ``(Z, z_1), ([Z, z_1], z_2), ..``: each person joins those before."""
    mechanism, X, e, V = _rows(release, fit, X, y)
    k = len(V)
    if _open(fit, X, inside):
        return Shift(np.full(k, np.inf))
    if inside:
        _check_left(fit, 1.0 - np.asarray(np.linalg.svd(V, compute_uv=False), dtype=np.float64) ** 2)
    rank = V.shape[1]
    S: Floats = np.eye(rank)
    shift: Floats = np.zeros(rank)  # H_i^-1 and theta_i - theta, in coordinates where H of the fit is I
    if inside:
        S = np.asarray(np.linalg.inv(np.eye(rank) - V.T @ V), dtype=np.float64)
        shift = -S @ (V.T @ e)
    A = fit.basis.T @ (np.eye(len(fit.theta)) if mechanism.precision is None else mechanism.precision) @ fit.basis
    full = np.column_stack([X, np.ones((k, int(fit.fit_intercept)))])
    mu, r, norm2 = np.empty(k), np.empty(k), np.empty(k)
    for i, v in enumerate(V):
        Sv = S @ v
        mu[i], r[i], norm2[i] = v @ Sv, e[i] - v @ shift, Sv @ A @ Sv
        S = S - np.outer(Sv, Sv) / (1 + mu[i])
        shift = shift + Sv * r[i] / (1 + mu[i])
    if mechanism.family == "posterior":
        return Posterior(mu, np.abs(r) / mechanism.scale)
    if mechanism.family == "output":
        return Shift(np.abs(r) * np.sqrt(norm2) / (1 + mu) / mechanism.scale)
    return Objective(mu, np.abs(r) / mechanism.scale, np.einsum("ij,ij->i", full, full), norm2)


@dataclass(frozen=True, slots=True)
class Chain(ShownAsTable):
    """The chain bound of group privacy: both directions hold at (epsilon, delta)."""

    epsilon: float
    delta: float  #: the larger of the two below
    delta_without: float  #: P over Q: weights of those who come before
    delta_with: float  #: Q over P: weights of those who come after
    kind: Kind = "upper"
    assumptions: tuple[str, ...] = ("the losses are those of each person joining all who come before",)


def chain_bound(epsilon: ArrayLike, delta: ArrayLike) -> Chain:
    """Add up single losses ``(eps_i, delta_i)`` in the order in which the people join.

    >>> c = chain_bound([1.0, 2.0], [1e-6, 1e-6])
    >>> c.epsilon, round(c.delta_without * 1e6, 3), round(c.delta_with * 1e6, 3)
    (3.0, 3.718, 8.389)
    """
    eps, deltas = np.asarray(epsilon, dtype=np.float64), np.asarray(delta, dtype=np.float64)
    if deltas.shape not in ((), eps.shape):
        raise InvalidInput(f"pass one delta, or one per person ({eps.size}), got shape {deltas.shape}")
    deltas = np.broadcast_to(deltas, eps.shape)
    if eps.ndim != 1 or not (eps >= 0).all() or not (deltas >= 0).all():
        raise InvalidInput("epsilon and delta must be one number >= 0 per person, in the order in which they join")
    before = np.concatenate([[0.0], np.cumsum(eps)[:-1]])
    after = np.concatenate([np.cumsum(eps[::-1])[::-1][1:], [0.0]])
    with np.errstate(over="ignore", invalid="ignore"):
        forward, backward = (
            min(float(np.sum(np.where(deltas > 0, deltas * np.exp(w), 0.0))), 1.0) for w in (before, after)
        )
    return Chain(float(eps.sum()), max(forward, backward), forward, backward)


def chain(pairs: Pairs, delta: float) -> Chain:
    """Return the chain bound at a total delta: everybody gets the same share, as large as both directions allow."""
    delta = float(delta_array(delta, 1, zero=False))
    if not len(pairs):
        raise InvalidInput("a chain needs at least one person")
    if np.isinf(pairs.epsilon(0.5)).any():
        return Chain(np.inf, delta, delta, delta)
    low, high = np.log(delta) - 700.0, np.log(delta / len(pairs))
    best = chain_bound(pairs.epsilon(np.exp(high)), np.exp(high))
    if best.delta <= delta:
        return best
    answer = None
    for _ in range(60):
        middle = 0.5 * (low + high)
        share = float(np.exp(middle))
        trial = chain_bound(pairs.epsilon(share), share)
        if trial.delta <= delta:
            low, answer = middle, trial
        else:
            high = middle
        if high - low < 1e-6:
            break
    return answer if answer is not None else Chain(np.inf, delta, delta, delta)


def _rows(release: Any, fit: Any, X: ArrayLike, y: ArrayLike) -> tuple[Mechanism, Floats, Floats, Floats]:
    """Return the mechanism, the group's rows, residuals at the fit and the rows in coordinates where H is I."""
    mechanism = ridge_mechanism(release)
    if not isinstance(fit, LinearFit):
        raise RefusedModel(f"group losses need the fit of a linear model, got {type(fit).__name__}")
    X = np.asarray(X, dtype=np.float64)
    y = np.asarray(y, dtype=np.float64)
    if X.ndim != 2 or y.ndim != 1 or X.shape != (len(y), fit.n_features) or not len(y):
        raise InvalidInput(f"the group must have rows of {fit.n_features} features and one y each, got {X.shape}")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise InvalidInput("the group's rows and targets must be finite, got NaN or infinity in them")
    full = np.column_stack([X, np.ones((len(X), int(fit.fit_intercept)))])
    return mechanism, X, y - full @ fit.theta, full @ fit.basis


def _check_left(fit: LinearFit, left: Floats) -> None:
    """Refuse a group without which (almost) nothing determines some direction: its 1 - c^2 would be rounding."""
    if fit.error > LEAST_PRECISION * left.min(initial=1.0):
        raise NumericalTrouble(
            "without this group the fit is too close to singular to be had from the fit with everyone; "
            "fit the data without them and pass that fit with inside=False"
        )


def _open(fit: LinearFit, X: Floats, inside: bool) -> bool:
    """Tell whether the group moves a direction that nothing else determines."""
    return not inside and bool(np.isinf(without(fit, X, np.zeros(len(X)), False).leverage).any())
