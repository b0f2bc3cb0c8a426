"""The slow road for smooth models, sharp: objectives written out once more, damped Newton at 120 digits (flint)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from flint import arb, arb_mat, ctx


@contextmanager
def many_digits() -> Iterator[None]:
    """Compute with 120 digits inside."""
    before = ctx.prec
    ctx.prec = 400
    try:
        yield
    finally:
        ctx.prec = before


def _plain(number):
    """Drop the radius: Newton's method corrects itself, and its last step is looked at."""
    return arb(number.mid())


def _dot(x, z):
    return _plain(sum((a * b for a, b in zip(x, z, strict=True)), arb(0)))


def _logistic(y, e):
    p = 1 / (1 + (-e).exp())
    return (1 + (-abs(e)).exp()).log() + (e if e > 0 else arb(0)) - y * e, p - y, p * (1 - p)


def _poisson(y, e):
    return e.exp() - y * e, e.exp() - y, e.exp()


def _gamma(y, e):
    return y * (-e).exp() + e, 1 - y * (-e).exp(), y * (-e).exp()


def _huber(y, e):
    k, r = arb(1.35), e - y
    if abs(r) <= k:
        return r * r / 2, r, arb(1)
    return k * abs(r) - k * k / 2, k if r > 0 else -k, arb(0)


LOSSES = {"logistic": _logistic, "poisson": _poisson, "gamma": _gamma, "huber": _huber}


def one_predictor(name, x, y, theta):
    """Value, gradient and Hessian of one person's loss, a function of x'theta."""
    value, slope, curvature = LOSSES[name](y, _dot(x, theta))
    return value, [slope * a for a in x], [[curvature * a * b for b in x] for a in x]


def huber_with_scale(epsilon, x, y, theta):
    """One person's term of ``HuberRegressor``, halved; sigma is last."""
    sigma, k = theta[-1], arb(epsilon)
    if not sigma > 0:
        return None
    r, p = y - _dot(x, theta[:-1]), len(x)
    if abs(r) <= k * sigma:
        z = r / sigma
        v = [*x, z]
        gradient = [-z * a for a in x] + [(1 - z * z) / 2]
        return sigma / 2 + r * z / 2, gradient, [[a * b / sigma for b in v] for a in v]
    side = arb(1) if r > 0 else arb(-1)
    gradient = [-k * side * a for a in x] + [(1 - k * k) / 2]
    return k * abs(r) + (1 - k * k) * sigma / 2, gradient, [[arb(0)] * (p + 1) for _ in range(p + 1)]


def softmax(classes, x, y, theta):
    """One person's term of multinomial logistic regression."""
    p = len(x)
    score = [_dot(x, theta[k * p : (k + 1) * p]) for k in range(classes)]
    top = max(score, key=float)
    e = [(s - top).exp() for s in score]
    total = sum(e, arb(0))
    pi = [v / total for v in e]
    off = [pi[k] - int(k == int(float(y))) for k in range(classes)]
    S = [[pi[k] * (int(k == m) - pi[m]) for m in range(classes)] for k in range(classes)]
    index = [(k, j) for k in range(classes) for j in range(p)]
    return (
        total.log() + top - score[int(float(y))],
        [off[k] * x[j] for k, j in index],
        [[S[k][m] * x[j] * x[i] for m, i in index] for k, j in index],
    )


def _slopes(term, rows, targets, weights, theta):
    p = len(theta)
    value = sum((w * t * t / 2 for w, t in zip(weights, theta, strict=True)), arb(0))
    gradient = [w * t for w, t in zip(weights, theta, strict=True)]
    hessian = [[weights[i] if i == j else arb(0) for j in range(p)] for i in range(p)]
    for x, y in zip(rows, targets, strict=True):
        found = term(x, y, theta)
        if found is None:
            return None
        value += found[0]
        gradient = [a + b for a, b in zip(gradient, found[1], strict=True)]
        hessian = [[a + b for a, b in zip(r, s, strict=True)] for r, s in zip(hessian, found[2], strict=True)]
    return _plain(value), [_plain(g) for g in gradient], [[_plain(h) for h in row] for row in hessian]


def minimum(term, rows, targets, weights, start):
    """Return the minimum of ``sum term + sum w theta^2 / 2``, or None where Newton's method does not find it."""
    theta = [arb(float(t)) for t in start]
    now = _slopes(term, rows, targets, weights, theta)
    for _ in range(150):
        value, gradient, hessian = now
        try:
            solved = arb_mat(hessian).solve(arb_mat([[g] for g in gradient]))
        except ZeroDivisionError:
            return None
        step = [_plain(solved[i, 0]) for i in range(len(theta))]
        if all(abs(s) <= arb(10) ** -80 * abs(t) + arb(10) ** -180 for s, t in zip(step, theta, strict=True)):
            return theta
        gain = abs(_dot(step, gradient))
        for halvings in range(60):
            new = [_plain(t - s / 2**halvings) for t, s in zip(theta, step, strict=True)]
            there = _slopes(term, rows, targets, weights, new)
            if there is not None and (there[0] <= value or gain < arb(10) ** -90):
                break
        else:
            return None
        theta, now = new, there
    return None


def exact(table):
    """Floats as exact numbers."""
    return [exact(row) for row in table] if np.ndim(table) else arb(float(table))
