"""The folds of a fit on a device, by products: ``models/linear/gram_matrix`` and ``models/smooth/objective_folds``.

Rows are taken in chunks, a chunk in runs. A term goes through at most as many additions as its run has rows in the
product of the run, whatever order the library takes; products of runs are added in pairs, pairs of pairs and so on, as
are chunks. Each addition, fused with a product or not, loses at most half a unit of what it gives, so a sum is off by
at most ``chain u/2`` times the sum of the absolute values (to first order, which is where chains of a thousand are).
Products of float64 on NVIDIA's matrix units are fused multiply-adds of float64.

The Hessian states its chain (``Slopes.chain``), and is charged for it where it is whitened; the gradient is charged
here, by a bound for the worst case, where the processor's has one for rounding errors that are independent. Targets
that are none are the processor's to refuse: None.

Losses of one predictor are the formulas of ``models/losses`` in torch. exp, expm1, log1p and tanh of float64 are good
to one or two units in the last place there (CUDA's programming guide) and on a processor; quotients and roots are
rounded correctly. What is charged for a loss's formula leaves room for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from perinstance.engines.cuda.device_tables import torch_module
from perinstance.folds.class_labels import MOST_CLASSES, Classes
from perinstance.models.linear.gram_matrix import Gram
from perinstance.models.losses.base import Loss
from perinstance.models.losses.catalogue import Gamma, Logistic, Poisson, PseudoHuber, Squared
from perinstance.models.losses.penalised_objective import SmoothObjective
from perinstance.models.smooth.newton import LENGTHS, Slopes
from perinstance.models.smooth.objective_folds import GradientRounding, Highest, Outsider, Targets, Values
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import HALF_UNIT, TABLE_SUM_UP, TERM_ROUNDINGS

#: rows of one product for sums of matrices, and for sums of vectors: those are charged to people, and take little room
RUN, SHORT_RUN = 1024, 128
RUNS = 512  #: products of matrices of one chunk at most
CHUNK_BYTES = 1 << 28  #: of one temporary of a chunk


def gram_there(X: Any, y: Any, intercept: bool, W: Floats | None = None) -> Gram:
    """``gram``: X'X, X'y and y'y, of ``[X 1]`` with an intercept, or of ``[X 1] W``; every sum has the chain it states.

    Products of float64 on NVIDIA's matrix units are fused multiply-adds, each rounded to nearest (PTX ISA, ``mma`` with
    ``.f64``). Where ``cholesky_qr`` charges what was measured, sums like these (by torch on a processor) were off by
    less than those that it was measured on: 1.3 ``u cond`` for the factor and .9 ``u sqrt(cond) ||y||`` for the image.
    """
    torch, p = torch_module(), X.shape[1] + int(intercept)
    lift = None if W is None else there(W, X)
    width = p if lift is None else max(p, lift.shape[1])
    products, moment, square = PairedSum(), PairedSum(), PairedSum()
    for x, t in chunks(X, y, width):
        Z = torch.cat([x, torch.ones_like(t)[:, None]], dim=1) if intercept else x
        Z = Z if lift is None else Z @ lift
        products.add(cross(Z, Z, RUN))
        moment.add(cross(Z, t[:, None], RUN)[:, 0])
        square.add(total(t * t, RUN))
    counted = chain(len(y), width, RUN) + 1  # the square of a target is rounded before it is added
    return Gram(len(y), products.on_host(), moment.on_host(), float(square.total), counted)


def classes_there(X: Any, y: Any) -> Classes | None:
    """``classes_of``: the distinct targets and how often each occurs."""
    torch = torch_module()
    labels, counts = torch.unique(y.to(torch.float64), return_counts=True)
    if len(labels) > MOST_CLASSES or not torch.isfinite(labels).all():
        return None
    return Classes(tuple(labels.tolist()), tuple(counts.tolist()))


def codes_there(y: Any, classes: Classes) -> Any | None:
    """Return the codes of targets; None where one of them is no class."""
    torch = torch_module()
    labels = there(np.array(classes.labels), y)
    target = y.to(torch.float64)
    codes = torch.searchsorted(labels, target.contiguous()).clamp(max=len(labels) - 1)
    return codes.to(torch.float64) if bool((labels[codes] == target).all()) else None


def targets_there(X: Any, y: Any, objective: SmoothObjective) -> Targets | None:
    """``check_targets``: count the people, and add up targets that are in the domain of the loss."""
    torch = torch_module()
    t, domain = y.to(torch.float64), objective.loss.targets
    if domain.binary:
        good = (t == 0) | (t == 1)
    else:
        good = torch.isfinite(t) & (t > domain.lowest if domain.open else t >= domain.lowest)
    return Targets(len(t), float(t.sum())) if bool(good.all()) else None


def slopes_there(X: Any, y: Any, objective: SmoothObjective, theta: Floats, out: Outsider | None = None) -> Slopes:
    """``slopes``: value, gradient and Hessian of the loss."""
    loss = _terms(objective)
    at, intercept, p = there(theta, X), objective.fit_intercept, len(theta)
    value, gradient, hessian, left_out = PairedSum(), PairedSum(), PairedSum(), 0
    for x, t in chunks(X, y, p):
        eta = predictor(x, at, intercept)
        lost, l1, l2 = loss(t, eta)
        if out is not None:
            same = _same(x, t, out)
            left_out += int(same.sum())
            l1, l2, lost = (one.masked_fill(same, 0.0) for one in (l1, l2, lost))
        value.add(total(lost, SHORT_RUN))
        gradient.add(weighted_total(x, l1, intercept))
        z = weighted(x, l2.sqrt(), intercept)
        hessian.add(cross(z, z, RUN))
    counted = chain(len(y), p, RUN)
    return Slopes(len(y), float(value.total), gradient.on_host(), hessian.on_host(), left_out, counted)


def gradient_rounding_there(
    X: Any, y: Any, objective: SmoothObjective, theta: Floats, out: Outsider | None = None
) -> GradientRounding:
    """``gradient_rounding``, for the chain of ``slopes_there``.

    A term ``l' x`` loses half a unit in its product and one in each addition of its chain; ``l'`` itself is off by
    what its formula loses, and by l'' times what x'theta loses: at most ``p + 1`` half units of ``|x|'|theta|``.
    """
    loss = _terms(objective)
    at, intercept, p = there(theta, X), objective.fit_intercept, len(theta)
    in_sum, in_predictor = chain(len(y), p, SHORT_RUN) + 2, max(8 * np.sqrt(p), p + 2)
    vector, absolute, left_out = PairedSum(), PairedSum(), 0
    for x, t in chunks(X, y, p):
        _, l1, l2 = loss(t, predictor(x, at, intercept))
        same = None if out is None else _same(x, t, out)
        x = x.abs()
        size, steep = predictor(x, at.abs(), intercept), l1.abs()
        off = in_sum * steep + l2 * (in_predictor * size + TERM_ROUNDINGS) + TERM_ROUNDINGS * steep
        if same is not None:
            left_out += int(same.sum())
            off, steep = off.masked_fill(same, 0.0), steep.masked_fill(same, 0.0)
        vector.add(weighted_total(x, off, intercept))
        absolute.add(weighted_total(x, steep, intercept))
    up = HALF_UNIT * TABLE_SUM_UP
    return GradientRounding(up * vector.on_host(), left_out, up * absolute.on_host())


def values_there(X: Any, y: Any, objective: SmoothObjective, theta: Floats, step: Floats) -> Values:
    """``values_along``: the loss at several places on a line."""
    loss = _terms(objective)
    line = there(np.stack([theta, step], axis=1), X)
    values = np.zeros(len(LENGTHS))
    for x, t in chunks(X, y, len(theta)):
        at, by = predictor(x, line, objective.fit_intercept).T
        values += np.array([float(total(loss(t, at + float(s) * by)[0], RUN)) for s in LENGTHS])
    return Values(values)


def farthest_there(X: Any, y: Any, step: Floats, intercept: bool) -> Highest:
    """``farthest``: the largest ``|x'step|``."""
    by = there(step, X)
    found = [float(predictor(x, by, intercept).abs().max()) for x, _ in chunks(X, y, max(X.shape[1], by.numel()))]
    return Highest(float(np.max(found)))  # NaN stays NaN


def _terms(objective: SmoothObjective) -> LossTerms:
    loss = device_loss(objective.loss)
    assert loss is not None  # which the caller knows
    return loss


def _same(x: Any, t: Any, out: Outsider) -> Any:
    """Tell which rows are the person's who is taken out."""
    return (t == out.y) & (x == there(out.x[: x.shape[1]], x)).all(dim=1)


def rows_of_chunk(width: int) -> int:
    """Return how many rows are worked on at a time when the widest temporary has so many columns."""
    return RUN * max(1, min(RUNS, CHUNK_BYTES // (8 * RUN * max(width, 1))))


def chain(n: int, width: int, run: int) -> float:
    """Return how many additions a term of a sum over n rows goes through at most, in runs of so many rows."""
    rows = rows_of_chunk(width)
    runs, parts = -(-min(n, rows) // run), -(-n // rows)
    return float(min(n, run + runs.bit_length() + 1 + 2 * parts.bit_length()))


class PairedSum:
    """A sum of tensors that come one by one, in pairs of equal numbers of them: few additions for each."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Any]] = []

    def add(self, part: Any) -> None:
        """Take the next one; k of them go through ``log2 k`` additions each."""
        rank = 0
        while self._parts and self._parts[-1][0] == rank:
            part = self._parts.pop()[1] + part
            rank += 1
        self._parts.append((rank, part))

    @property
    def total(self) -> Any:
        """The sum; what is left are less than ``log2 k + 1`` parts."""
        found = self._parts[-1][1]
        for _, part in reversed(self._parts[:-1]):
            found = part + found
        return found

    def on_host(self) -> Floats:
        """Return the sum as an array of the host."""
        return np.array(self.total.cpu().numpy(), dtype=np.float64)


def chunks(X: Any, y: Any, width: int) -> Iterator[tuple[Any, Any]]:
    """Hand out rows and targets in float64, some rows at a time."""
    torch = torch_module()
    step = rows_of_chunk(width)
    for start in range(0, len(y), step):
        part = slice(start, start + step)
        yield X[part].to(torch.float64), y[part].to(torch.float64)


def all_finite(*tensors: Any) -> bool:
    """Tell whether all numbers are finite, without a temporary as large as a table."""
    torch = torch_module()
    rows = (part for one in tensors for part in one.split(rows_of_chunk(one[:1].numel())))
    return all(bool(torch.isfinite(part).all()) for part in rows)


def cross(A: Any, B: Any, run: int) -> Any:
    """Return ``A'B``, a sum over the rows of one chunk."""
    whole = len(A) // run * run
    total = A[whole:].T @ B[whole:]
    if whole:
        left, right = (M[:whole].reshape(-1, run, M.shape[1]) for M in (A, B))
        total = _in_pairs(left.transpose(1, 2) @ right) + total
    return total


def total(v: Any, run: int) -> Any:
    """Return the sum of the entries of a vector of one chunk."""
    whole = len(v) // run * run
    rest = v[whole:].sum()
    return _in_pairs(v[:whole].reshape(-1, run).sum(dim=1)) + rest if whole else rest


def _in_pairs(parts: Any) -> Any:
    """Add tensors that lie behind each other: the first half to the second, until one is left."""
    torch = torch_module()
    while (half := len(parts) // 2) > 0:
        rest = parts[2 * half :]
        parts = parts[:half] + parts[half : 2 * half]
        parts = torch.cat([parts, rest]) if len(rest) else parts
    return parts[0]


def there(array: Any, like: Any) -> Any:
    """Copy numbers of the host to where a tensor is, in float64."""
    torch = torch_module()
    return torch.tensor(array, dtype=torch.float64, device=like.device)


def predictor(x: Any, theta: Any, intercept: bool) -> Any:
    """``x theta``, of ``[x 1]`` with an intercept; theta may be several columns."""
    return x @ theta[:-1] + theta[-1] if intercept else x @ theta


def weighted(x: Any, w: Any, intercept: bool) -> Any:
    """Return the rows, of ``[x 1]`` with an intercept, each times a number."""
    torch = torch_module()
    if not intercept:
        return x * w[:, None]
    out = torch.empty((x.shape[0], x.shape[1] + 1), dtype=torch.float64, device=x.device)
    torch.mul(x, w[:, None], out=out[:, :-1])
    out[:, -1] = w
    return out


def weighted_total(x: Any, w: Any, intercept: bool) -> Any:
    """Return ``sum_i w_i x_i`` of one chunk, of ``[x 1]`` with an intercept, in short runs."""
    torch = torch_module()
    sums = cross(x, w[:, None], SHORT_RUN)[:, 0]
    return torch.cat([sums, total(w, SHORT_RUN)[None]]) if intercept else sums


#: ``terms(y, eta)``, tensors of float64: the loss l, its slope l' and l''
LossTerms = Callable[[Any, Any], tuple[Any, Any, Any]]


def _squared(y: Any, eta: Any) -> tuple[Any, Any, Any]:
    return (y - eta) ** 2 / 2, eta - y, torch_module().ones_like(eta)


def _logistic(y: Any, eta: Any) -> tuple[Any, Any, Any]:
    torch = torch_module()
    e = torch.exp(-eta.abs())
    q = 1.0 / (1.0 + e)
    first = y > 0.5
    away = torch.where(torch.where(first, eta, -eta) >= 0.0, e * q, q)
    return eta.clamp(min=0.0) + torch.log1p(e) - y * eta, torch.where(first, -away, away), e * q * q


def _poisson(y: Any, eta: Any) -> tuple[Any, Any, Any]:
    e = torch_module().exp(eta)
    return e - y * eta, e - y, e


def _gamma(y: Any, eta: Any) -> tuple[Any, Any, Any]:
    e = y * torch_module().exp(-eta)
    return e + eta, 1.0 - e, e


def _pseudo_huber(y: Any, eta: Any, width: float) -> tuple[Any, Any, Any]:
    torch = torch_module()
    u = (eta - y) / width
    s = torch.hypot(torch.ones_like(u), u)
    return width**2 * u * u / (s + 1.0), (eta - y) / s, s**-3


def device_loss(loss: Loss) -> LossTerms | None:
    """Return a loss in torch; None for one that the processor has alone."""
    if isinstance(loss, PseudoHuber):
        return partial(_pseudo_huber, width=loss.width)
    return {Squared: _squared, Logistic: _logistic, Poisson: _poisson, Gamma: _gamma}.get(type(loss))
