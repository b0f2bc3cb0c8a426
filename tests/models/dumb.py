"""The slow and dumb road for smooth models: objectives written out once more, refits by plain damped Newton."""

from __future__ import annotations

import numpy as np
from scipy.special import expit


def _logistic(y, eta):
    return np.logaddexp(0, eta) - y * eta, expit(eta) - y, expit(eta) * expit(-eta)


def _poisson(y, eta):
    return np.exp(eta) - y * eta, np.exp(eta) - y, np.exp(eta)


def _gamma(y, eta):
    return y * np.exp(-eta) + eta, 1 - y * np.exp(-eta), y * np.exp(-eta)


def _negative_binomial(y, eta, a=0.6):
    mu = np.exp(eta)
    return (y + 1 / a) * np.log1p(a * mu) - y * eta, (mu - y) / (1 + a * mu), mu * (1 + a * y) / (1 + a * mu) ** 2


def _squared(y, eta):
    return (eta - y) ** 2 / 2, eta - y, np.ones_like(eta)


def _huber(y, eta, k=1.35):
    r = eta - y
    inner = abs(r) <= k
    return np.where(inner, r * r / 2, k * abs(r) - k * k / 2), np.where(inner, r, k * np.sign(r)), inner * 1.0


def _pseudo_huber(y, eta, k=1.35):
    s = np.sqrt(1 + ((eta - y) / k) ** 2)
    return k * k * (s - 1), (eta - y) / s, s**-3.0


def _squared_hinge(y, eta):
    s = 2 * y - 1
    short = np.maximum(0, 1 - s * eta)
    return short**2 / 2, -s * short, (short > 0) * 1.0


def _smooth_hinge(y, eta, k=0.1):
    from scipy.special import spence

    s = 2 * y - 1
    u = (1 - s * eta) / k
    value = np.where(u < 30, -spence(1 + np.exp(np.minimum(u, 30))), np.pi**2 / 6 + u * u / 2)
    return k * k * value, -s * k * np.logaddexp(0, u), expit(u)


FORMULAS = {
    "squared": _squared,
    "logistic": _logistic,
    "poisson": _poisson,
    "gamma": _gamma,
    "negative-binomial": _negative_binomial,
    "huber": _huber,
    "pseudo-huber": _pseudo_huber,
    "squared-hinge": _squared_hinge,
    "smooth-hinge": _smooth_hinge,
}


def refit(name, X, y, weights, *, intercept=False, mean=False, start=None):
    """Minimise ``sum l + (n or 1) sum w theta^2 / 2`` by damped Newton; the intercept is last and free."""
    formula = FORMULAS[name]
    n = len(X)
    A = np.column_stack([X, np.ones(n)]) if intercept else np.asarray(X, dtype=float)
    w = np.broadcast_to(np.asarray(weights, dtype=float), (X.shape[1],))
    L = np.append(w, 0.0) if intercept else w
    L = L * (n if mean else 1)
    theta = np.zeros(A.shape[1]) if start is None else np.array(start, dtype=float)

    def at(theta):
        with np.errstate(over="ignore", invalid="ignore"):
            value, slope, curvature = formula(y, A @ theta)
        return value.sum() + (L * theta**2).sum() / 2, A.T @ slope + L * theta, (A.T * curvature) @ A + np.diag(L)

    value, gradient, hessian = at(theta)
    for _ in range(500):
        tiny = 1e-9 * np.trace(hessian) * np.eye(len(theta)) if np.linalg.cond(hessian) > 1e14 else 0.0
        step = np.linalg.solve(hessian + tiny, -gradient)
        length = 1.0
        while True:
            new = at(theta + length * step)
            small = np.linalg.norm(step) <= 1e-7 * (1 + np.linalg.norm(theta))
            if new[0] <= value or (small and np.linalg.norm(new[1]) < np.linalg.norm(gradient)) or length < 1e-12:
                break
            length /= 2
        if length < 1e-12 or np.linalg.norm(length * step) <= 1e-15 * (1 + np.linalg.norm(theta)):
            break
        theta = theta + length * step
        value, gradient, hessian = new
    scale = np.sqrt(np.diag(hessian)) + 1e-300
    assert np.linalg.norm(gradient / scale) < 1e-8, "the dumb refit did not converge"
    return theta


def problem(name, rng, n, d, *, spread=1.0, signal=0.7):
    """Random rows and targets that suit a loss."""
    X = rng.normal(size=(n, d)) * np.exp(spread * rng.normal(size=d))
    eta = X @ (rng.normal(size=d) / np.maximum(np.abs(X).std(axis=0), 1e-3)) * signal / np.sqrt(d) + 0.3
    if name in ("logistic", "squared-hinge", "smooth-hinge"):
        y = (rng.random(n) < expit(eta)).astype(float)
        y[0], y[-1] = 0.0, 1.0
    elif name in ("poisson", "negative-binomial"):
        y = rng.poisson(np.exp(np.clip(eta, -4, 4))).astype(float)
    elif name == "gamma":
        y = rng.gamma(2.0, np.exp(np.clip(eta, -4, 4)) / 2) + 1e-6
    else:
        y = eta + rng.standard_t(3, size=n)
    return X, y


def softmax_refit(X, y, alpha, classes, *, intercept=True):
    """Minimise the multinomial objective by plain Newton, the classes' parameters summing to zero."""
    A = np.column_stack([X, np.ones(len(X))]) if intercept else np.asarray(X, dtype=float)
    p = A.shape[1]
    w = np.append(np.full(X.shape[1], alpha), 0.0) if intercept else np.full(p, alpha)
    theta = np.zeros((classes, p))
    onehot = np.eye(classes)[y.astype(int)]
    for _ in range(60):
        eta = A @ theta.T
        pi = np.exp(eta - eta.max(axis=1, keepdims=True))
        pi /= pi.sum(axis=1, keepdims=True)
        gradient = ((pi - onehot).T @ A + theta * w).ravel()
        S = np.einsum("nk,km->nkm", pi, np.eye(classes)) - pi[:, :, None] * pi[:, None, :]
        H = np.einsum("nkm,np,nq->kpmq", S, A, A, optimize=True).reshape(classes * p, -1)
        H += np.kron(np.eye(classes), np.diag(w)) + np.kron(np.ones((classes, classes)), 1e-3 * np.diag(w == 0))
        step = np.linalg.solve(H, -gradient)
        theta = theta + step.reshape(classes, p)
        if np.linalg.norm(step) < 1e-13 * (1 + np.linalg.norm(theta)):
            break
    assert np.linalg.norm(gradient) < 1e-8
    return theta
