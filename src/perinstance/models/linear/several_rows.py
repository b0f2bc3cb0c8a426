"""People with several rows in a linear model: what holds without all of a person's rows (MATH 12).

Rows I of one person, k of them: ``Q = [X_I 1] W`` with ``H^-1 = W W'``, ``S = Q Q'``, ``e = y_I - X_I theta``. Without
them the residuals are ``r = (I - S)^-1 e`` and

    theta_with - theta_without = W Q'r,        [X_I 1] H_without^-1 [X_I 1]' = S (I - S)^-1;

for somebody outside, whose rows would join, S takes the place of ``S (I - S)^-1`` and e that of r. Where k exceeds the
rank, ``Q'Q`` is diagonalised instead of S. People with equally many rows are answered together.

Rounding: with a and b what a row loses of q and of e per ``sqrt(m)`` (``RowRounding``), and t the trace of S, S is
known to ``2 a t``, e to ``b sqrt(t)`` and Q to ``a sqrt(t)``, in norm; an inverse of ``I - S`` multiplies that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.models.linear.ridge import LARGE_TABLE, DualFit, LinearFit, by_columns
from perinstance.models.linear.row_statistics import HARD_LEVERAGE
from perinstance.numerics.array_types import Floats
from perinstance.numerics.charged_rounding import UPPER, charge, parameters_too_rough
from perinstance.numerics.rounding import LARGEST_SQUARE, NORM_UP, TINY, UNDERFLOWN, UNIT

#: numbers in the largest temporary. Changes only speed.
ROOM = 1 << 20
#: a share of ``I - S`` that rounding may have taken so that first order says what its inverse loses, times 1.2
FIRST_ORDER = 0.01


@dataclass(frozen=True, slots=True)
class PersonMovements:
    """How far each person moves the coefficients, rounded away from zero."""

    leverage: Floats  #: the trace of ``S (I - S)^-1``
    residual: Floats  #: the length of r
    distance: Floats
    code: NDArray[np.uint8]
    open: NDArray[np.bool_]  #: rounding left too little to say


@dataclass(frozen=True, slots=True)
class PersonSpectra:
    """A posterior sample around the coefficients, with gamma one: its pair's coordinates, rounded away from zero."""

    leverage: Floats
    residual: Floats
    excess: Floats  #: (people, width) the eigenvalues of ``S (I - S)^-1``
    shift: Floats  #: (people, width)
    lost: Floats  #: what was added to the length of ``shift``
    rough: NDArray[np.bool_]  #: the excess is an upper bound
    open: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Batch:
    """People with k rows each, and what is known of the numbers."""

    who: NDArray[np.intp]
    Q: Floats  #: (people, k, rank)
    e: Floats  #: (people, k)
    G: Floats  #: S, or Q'Q where that is smaller
    trace: Floats
    lost: Floats  #: of G, in norm
    lost_e: Floats

    @property
    def by_rows(self) -> bool:
        """Whether G is S."""
        return self.Q.shape[1] <= self.Q.shape[2]


def _batches(fit: LinearFit, X: NDArray, y: NDArray, starts: NDArray[np.int64]) -> Iterator[_Batch]:
    sizes, rounding, d, q = np.diff(starts), fit.rounding, X.shape[1], fit.basis.shape[1]
    a, b = rounding.leverage + rounding.leverage_row, rounding.residual + rounding.residual_row
    for k in np.unique(sizes).tolist():
        everybody, run = np.flatnonzero(sizes == k), max(1, ROOM // (k * (max(q, d) + k)))
        for at in range(0, len(everybody), run):
            who = everybody[at : at + run]
            rows = (starts[who][:, None] + np.arange(k)).ravel()
            Z = np.asarray(X[rows], dtype=np.float64) @ fit.basis[:d]
            Z += fit.basis[d] if fit.fit_intercept else 0.0
            aim = np.asarray(y[rows], dtype=np.float64)
            e = (aim - Z @ fit.image).reshape(len(who), k)
            Q = Z.reshape(len(who), k, q)
            trace = np.einsum("nkq,nkq->n", Q, Q)
            turned = Q.transpose(0, 2, 1)
            G = Q @ turned if k <= q else turned @ Q
            lost = (2.1 * a + 16 * (k + q) * UNIT) * trace
            yield _Batch(who, Q, e, G, trace, lost, b * np.sqrt(trace) + 2 * UNIT * np.linalg.norm(e, axis=1))


def _hard(fit: LinearFit, trace: Floats, top: Floats, lost: Floats, inside: bool) -> tuple[NDArray[np.bool_], Floats]:
    """Tell whose numbers floats do not give, and by how much an inverse of ``I - S`` multiplies at most."""
    hard = ~((trace > UNDERFLOWN) & (trace < LARGEST_SQUARE))
    if inside:
        hard |= ~(top <= HARD_LEVERAGE)
    elif fit.span is not None:  # they may open a direction
        hard[:] = True
    grow = 1.0 / (1.0 - np.where(hard, 0.0, top)) if inside else np.ones(len(trace))
    return hard | ~(lost * grow <= FIRST_ORDER), grow


def person_movements(
    fit: LinearFit | DualFit, X: NDArray, y: NDArray, starts: NDArray[np.int64], inside: bool
) -> PersonMovements:
    """Answer for the people of one block; the fit has a norm."""
    fit = by_columns(fit)
    n, norm, rounding = len(starts) - 1, fit.norm, fit.rounding
    assert norm is not None
    leverage, residual, distance = np.zeros((3, n))
    out = PersonMovements(leverage, residual, distance, np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=bool))
    sign = -1.0 if inside else 1.0
    for one in _batches(fit, X, y, starts):
        k, q = one.Q.shape[1:]
        top = one.trace + one.lost
        near = np.flatnonzero(~(top <= HARD_LEVERAGE)) if inside else np.empty(0, dtype=np.intp)
        if len(near):
            with np.errstate(invalid="ignore"):
                top[near] = np.linalg.eigvalsh(np.nan_to_num(one.G[near]))[:, -1] + one.lost[near]
        hard, grow = _hard(fit, one.trace, top, one.lost, inside)
        G = np.where(hard[:, None, None], 0.0, one.G)
        inverse = np.linalg.inv(np.eye(G.shape[1]) + sign * G)
        if one.by_rows:
            r = np.einsum("nij,nj->ni", inverse, one.e)
            u = np.einsum("nkq,nk->nq", one.Q, r)
        else:
            u = np.einsum("nij,nkj,nk->ni", inverse, one.Q, one.e, optimize=True)
            r = one.e - sign * np.einsum("nkq,nq->nk", one.Q, u)
        root, miss = np.sqrt(one.trace), np.linalg.norm(r, axis=1)
        b = np.sqrt(np.square(u) @ norm.weights) if norm.lift is None else np.linalg.norm(u @ norm.lift, axis=1)
        off = 1.2 * grow * (one.lost_e + miss * (one.lost + 16 * (k + q) * UNIT * (1 + one.trace)))
        lost = root * (miss * (rounding.length + rounding.length_row) + norm.largest * 1.01 * off)
        lost += root * miss * norm.largest * 2 * (k + q) * UNIT + b * (rounding.share + 2 * q * UNIT)
        found = charge(b, lost)
        mu = sign * (G.shape[1] - np.trace(inverse, axis1=1, axis2=2)) if inside else one.trace
        nothing = one.trace == 0.0
        out.leverage[one.who] = np.where(hard, np.inf, np.maximum(mu, 0.0))
        out.residual[one.who] = miss if inside else np.linalg.norm(one.e, axis=1)
        out.distance[one.who] = np.where(nothing, 0.0, np.where(hard, np.inf, found.value))
        out.code[one.who] = np.where(nothing, 0, np.where(hard, UPPER, found.kind_code))
        out.open[one.who] = _left(fit, ~nothing & hard, ~nothing & (found.kind_code > 0))
    return out


def person_spectra(
    fit: LinearFit | DualFit, X: NDArray, y: NDArray, starts: NDArray[np.int64], inside: bool, floor: float
) -> PersonSpectra:
    """Answer for the people of one block; a shift is known where it is to a share of itself or of ``floor``'s."""
    fit = by_columns(fit)
    n, most = len(starts) - 1, int(np.diff(starts).max(initial=1))
    width = min(most, fit.basis.shape[1]) if fit.basis.size else 1
    leverage, residual, added = np.zeros((3, n))
    excess, shift = np.zeros((2, n, width))
    rough, left_open = np.zeros((2, n), dtype=bool)
    out = PersonSpectra(leverage, residual, excess, shift, added, rough, left_open)
    for one in _batches(fit, X, y, starts):
        k, q = one.Q.shape[1:]
        usable = one.trace < LARGEST_SQUARE
        values, V = np.linalg.eigh(np.where(usable[:, None, None], one.G, 0.0))
        hard, grow = _hard(fit, one.trace, values[:, -1] + one.lost, one.lost, inside)
        left = np.where(hard[:, None], 1.0, 1.0 - values) if inside else np.ones_like(values)
        s2, lost = np.maximum(values, 0.0) / left, 1.2 * one.lost * grow**2
        rounded = 16 * (k + q) * UNIT
        if one.by_rows:
            along = np.einsum("nij,ni->nj", V, one.e) / left
            miss = np.linalg.norm(along, axis=1)
            off = np.repeat((1.2 * grow * (one.lost_e + miss * (one.lost + rounded)))[:, None], k, axis=1)
        else:
            g = np.einsum("nij,nkj,nk->ni", V.transpose(0, 2, 1), one.Q, one.e, optimize=True)
            g /= left
            # residuals without them; outside they are as they stand
            r = one.e + np.einsum("nkq,nqj,nj->nk", one.Q, V, g, optimize=True) if inside else one.e
            miss, s = np.linalg.norm(r, axis=1), np.sqrt(np.maximum(values, TINY))
            shaken = 1.2 * grow * (one.lost_e + miss * (one.lost + rounded)) * np.sqrt(one.trace)
            shaken += (one.lost + rounded * one.trace) / np.sqrt(np.maximum(one.trace, TINY)) * miss * grow
            along, off = g / s, shaken[:, None] / s
        miss = miss * NORM_UP + 1.2 * grow * (one.lost_e + miss * (one.lost + rounded))
        turned = np.minimum(1.0, 4 * lost[:, None] / np.maximum(s2, TINY)) + np.minimum(1.0, 4 * lost)[:, None]
        wide, size = s2 * NORM_UP + lost[:, None], np.sqrt(1.0 + s2)
        rho = np.minimum(np.abs(along) + off + turned * miss[:, None], miss[:, None]) / size
        m = np.sqrt(s2) * np.minimum(np.abs(along), miss[:, None]) / size
        shift = np.sqrt(wide) * rho * NORM_UP
        nothing = one.trace == 0.0
        blank = (nothing | hard)[:, None]
        columns = slice(0, s2.shape[1])
        out.leverage[one.who], out.residual[one.who] = np.where(hard, np.inf, s2.sum(axis=1)), miss
        out.excess[one.who, columns] = np.where(blank, 0.0, wide)
        out.shift[one.who, columns] = np.where(blank, 0.0, shift)
        length = np.linalg.norm(m, axis=1)
        out.lost[one.who] = np.where(blank[:, 0], 0.0, np.linalg.norm(shift, axis=1) - length)
        total = s2.sum(axis=1)
        rough = parameters_too_rough(total, wide.sum(axis=1) - total)
        least = np.maximum(length, floor * np.minimum(np.sqrt(total), 1.0))
        rough = ~nothing & (hard | rough | parameters_too_rough(least, out.lost[one.who]))
        open_ = ~nothing & hard
        out.excess[one.who[open_], 0] = np.inf
        out.rough[one.who], out.open[one.who] = rough, _left(fit, open_, rough)
    return out


def _left(fit: LinearFit, hard: NDArray[np.bool_], rough: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Tell who is left open: of a large table nobody who has a bound, to sum again takes longer than the audit."""
    large = fit.n_people * len(fit.theta) ** 2 > LARGE_TABLE
    return np.asarray(hard if large else hard | rough, dtype=np.bool_)
