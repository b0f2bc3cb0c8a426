"""The objective around its fit to fourth order: what a second Newton correction and its remainder need.

In whitened coordinates of the Hessian (``theta + T'w``, so that the second derivative is the identity) the gradient is

    grad Phi(w) = g0 + w + Phi3[w,w]/2 + Phi4[w,w,w]/6 + rest,   |rest| <= kappa5(r) |w|^4 / 24   for |w| <= r,

``Phi3 = sum_j l'''_j t_j t_j t_j`` and so on with ``t_j = T x_j``; ``kappa5(r)`` is the largest eigenvalue of
``sum_j |t_j|^3 l5_j(r) t_j t_j'``, ``l5_j(r)`` the largest fifth derivative within ``r |t_j|`` of row j's predictor. A
penalty must be quadratic. One fold for both tensors (``n p^4`` operations), one for a few radii.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from perinstance.folds.block import Block
from perinstance.folds.cache_pieces import pieces
from perinstance.folds.sweep import Sweep
from perinstance.models.losses.penalised_objective import design
from perinstance.models.smooth.fit.objective_folds import SmoothFit
from perinstance.models.smooth.fit.whitening import Whitening
from perinstance.numerics.array_types import Floats
from perinstance.numerics.tensor_norms import cubic_top, quartic_size

#: more parameters than this: the fourth derivative is too large a table
WIDEST = 30


@dataclass(frozen=True, slots=True)
class Expansion:
    """Third and fourth derivative of the objective at the fit, in a frame, and a bound of the fifth nearby."""

    third: Floats  #: (p, p, p)
    fourth: Floats  #: (p, p, p, p)
    size3: float  #: sup |Phi3[a, b, c]| over unit vectors, at most
    size4: float  #: the same of Phi4
    radius: Floats  #: increasing
    fifth: Floats  #: kappa5 within each radius

    def low(self, r: Floats, kappa5: float) -> Floats:
        """Return lo: the mean Hessian along a step of length r is at least lo times the one at the fit."""
        return np.asarray(1 - r * (self.size3 / 2 + r * (self.size4 / 6 + r * kappa5 / 24)))


@dataclass(frozen=True, slots=True)
class DerivativeTensors:
    """``sum l''' x (x x)`` and ``sum l'''' (x x)(x x)`` over some rows, pairs (j <= k) of columns once each."""

    third: Floats
    fourth: Floats
    finite = True  # the first fold has looked at every cell

    def __add__(self, other: DerivativeTensors) -> DerivativeTensors:
        return DerivativeTensors(self.third + other.third, self.fourth + other.fourth)


@dataclass(frozen=True, slots=True)
class Fifths:
    """Sums of ``|t|^3 l5 t t'``, one for each radius."""

    sums: Floats
    finite = True  # see DerivativeTensors

    def __add__(self, other: Fifths) -> Fifths:
        return Fifths(self.sums + other.sums)


def has_expansion(fit: SmoothFit) -> bool:
    """Tell whether the loss states its fourth derivative, the penalty has none, and there are not too many."""
    nobody = np.zeros(0)
    known = fit.objective.loss.fourth(nobody, nobody) is not None
    return known and fit.objective.penalty.concordance == 0 and len(fit.theta) <= WIDEST


def derivative_tensors(block: Block, fit: SmoothFit) -> DerivativeTensors:
    """Sum both tensors over one block."""
    X, y, loss = block.X, block.y, fit.objective.loss
    p = len(fit.theta)
    first, second = np.triu_indices(p)
    third, fourth = np.zeros((p, len(first))), np.zeros((len(first), len(first)))
    for run in pieces(X, 2 * len(first)):
        x = design(X[run], fit.objective.fit_intercept)
        target, eta = np.asarray(y[run], dtype=np.float64), x @ fit.theta
        l3, l4 = loss.third(target, eta), loss.fourth(target, eta)
        assert l4 is not None  # see has_expansion
        products = x[:, first] * x[:, second]
        third += (x * l3[:, None]).T @ products
        fourth += (products * l4[:, None]).T @ products
    return DerivativeTensors(third, fourth)


def fifths(block: Block, fit: SmoothFit, T: Floats, radii: Floats) -> Fifths:
    """Sum ``|t|^3 l5 t t'`` over one block."""
    X, y, loss = block.X, block.y, fit.objective.loss
    p = len(fit.theta)
    sums = np.zeros((len(radii), p, p))
    for run in pieces(X, 2 * p):
        x = design(X[run], fit.objective.fit_intercept)
        t = x @ T.T
        root = np.sqrt(np.einsum("ij,ij->i", t, t))
        target, eta = np.asarray(y[run], dtype=np.float64), x @ fit.theta
        for total, r in zip(sums, radii, strict=True):
            with np.errstate(over="ignore", invalid="ignore"):
                total += (t * (root**3 * loss.largest_fifth(target, eta, r * root))[:, None]).T @ t
    return Fifths(sums)


def expansion(sweep: Sweep, fit: SmoothFit, around: Whitening, radii: Floats) -> Expansion:
    """Fold for the tensors and for the remainder within each radius."""
    p, T = len(fit.theta), around.T
    sums: DerivativeTensors = sweep.fold(partial(derivative_tensors, fit=fit))
    place = np.empty((p, p), dtype=np.intp)
    first, second = np.triu_indices(p)
    place[first, second] = place[second, first] = np.arange(len(first))
    third = np.einsum("ai,ijk,bj,ck->abc", T, sums.third[:, place], T, T, optimize=True)
    fourth = sums.fourth[place[:, :, None, None], place[None, None]]
    fourth = np.einsum("ai,ijkl,bj,ck,dl->abcd", T, fourth, T, T, T, optimize=True)
    slack = 1 + 64 * around.error
    radii = np.sort(radii)
    fifth = sweep.fold(partial(fifths, fit=fit, T=T, radii=radii)).sums
    kappa = [float(np.linalg.eigvalsh(S)[-1]) if np.isfinite(S).all() else np.inf for S in fifth]
    return Expansion(
        third,
        fourth,
        slack * cubic_top(third),
        slack * quartic_size(fourth),
        radii,
        slack * np.array(kappa),
    )
