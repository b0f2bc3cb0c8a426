"""The minimum of a perturbed logistic regression as an exact function of exact noise.

    theta = argmin sum_j [log(1 + e^eta_j) - y_j eta_j] + sum_k w_k theta_k^2/2 + scale z'theta,   eta_j = x_j'theta

has no closed form, but it can be enclosed. Newton's method in float64 and then at the working precision ends at some
point t, an exact number, however it was found. There the gradient g and the Hessian ``H = L L'`` are enclosed in balls.
The loss satisfies ``|l'''| <= l''``, so with ``a = |L^-1 g|`` and ``c = max_j |L^-1 x_j|`` (MATH 2, with -g for q)

    c a <= 1/2   implies   |theta - t| <= 1.4 a in the H norm,   |theta_k - t_k| <= 1.4 a |L^-1 e_k|.

All weights w must be positive: then there is a minimum whatever the noise is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat
from scipy.special import expit

from perinstance.checked_numbers import positive
from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import SHORTEST_STEP
from perinstance.sampling.ball_arithmetic import Ball, Matrix, Undecided, exact, inverse_factor, product
from perinstance.sampling.random_bits import BitString, variate

#: steps with the Hessian of the float64 minimum: each gains its thirteen or so digits
CHORDS = 40
FLOAT_STEPS = 200
#: two or three times what enclosing takes for each cell of X, in the units in which ``timing`` counts
PER_CELL = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class PerturbedLogistic:
    """``argmin F(theta) + scale z'theta``; floats are taken as the exact numbers they are."""

    X: Floats  #: an intercept is a column of ones
    y: Floats  #: 0 or 1
    weights: Floats  #: of the ridge penalty, one per column
    scale: float

    def __post_init__(self) -> None:
        positive("scale", self.scale)
        if not (np.isfinite(self.weights) & (self.weights > 0)).all():
            raise InvalidInput("every coefficient must have a penalty > 0: without it noise can leave no minimum")
        if not ((self.y == 0) | (self.y == 1)).all():
            raise InvalidInput("targets must be 0 or 1")

    @property
    def d(self) -> int:
        """Number of coefficients."""
        return self.X.shape[1]

    @property
    def work(self) -> int:
        """What ``timing`` takes to the power 5/6: a pass over the cells, and more for a Hessian of many columns."""
        return int((PER_CELL * self.X.size * (1 + self.d / 100)) ** (6 / 5)) + self.d**3

    def enclose(self, strings: Sequence[BitString], n: int) -> list[Ball]:
        """Enclose the minimum."""
        s = exact(self.scale)
        b = [s * variate("gaussian", bits, n) for bits in strings]
        rows = arb_mat([[arb(v) for v in row] for row in self.X.tolist()])
        theta = [arb(v) for v in self._near([float(v.mid()) for v in b]).tolist()]
        W = inverse_factor(self._hessian(rows, theta))
        before = None
        for _ in range(CHORDS):
            step = product(W.transpose(), product(W, self._gradient(rows, theta, b)))
            size = float(_length(step))
            if before is not None and not size < before / 4:  # only the width of the noise and of the balls is left
                break
            theta, before = [(t - v).mid() for t, v in zip(theta, step, strict=True)], size
        W = inverse_factor(self._hessian(rows, theta))
        a = _length(product(W, self._gradient(rows, theta, b)))
        images = (W * rows.transpose()).tolist()
        c = arb(0)
        for j in range(len(self.y)):
            c = c.max(_length([row[j] for row in images]))
        if not c * a <= arb(0.5):
            raise Undecided
        r = a * arb(1.4)
        columns = W.transpose().tolist()
        return [t + arb(0, (r * _length(column)).abs_upper()) for t, column in zip(theta, columns, strict=True)]

    def _gradient(self, rows: Matrix, theta: list[Ball], b: list[Ball]) -> list[Ball]:
        eta = product(rows, theta)
        off = [1 / (1 + (-e).exp()) - arb(v) for e, v in zip(eta, self.y.tolist(), strict=True)]
        of_loss = product(rows.transpose(), off)
        return [g + arb(w) * t + v for g, w, t, v in zip(of_loss, self.weights.tolist(), theta, b, strict=True)]

    def _hessian(self, rows: Matrix, theta: list[Ball]) -> list[list[Ball]]:
        eta = product(rows, theta)
        curvature = []
        for e in eta:
            p = 1 / (1 + (-e).exp())
            curvature.append(p * (1 - p))
        weighted = arb_mat([[v * w for v in row] for row, w in zip(rows.tolist(), curvature, strict=True)])
        H = (rows.transpose() * weighted).tolist()
        for k, w in enumerate(self.weights.tolist()):
            H[k][k] = H[k][k] + arb(w)
        return H

    def _near(self, b: Sequence[float]) -> Floats:
        """Return the float64 minimum: nothing depends on how good it is but the number of steps that follow."""
        linear, theta = np.asarray(b), np.zeros(self.d)
        with np.errstate(over="ignore", invalid="ignore"):
            value = self._value(theta, linear)
            for _ in range(FLOAT_STEPS):
                p = expit(self.X @ theta)
                g = self.X.T @ (p - self.y) + self.weights * theta + linear
                H = (self.X.T * (p * (1 - p))) @ self.X + np.diag(self.weights)
                step, length = np.linalg.solve(H, -g), 1.0
                while length > SHORTEST_STEP and not (new := self._value(theta + length * step, linear)) < value:
                    length /= 2
                if length <= SHORTEST_STEP:
                    break
                theta, value = theta + length * step, new
        return theta

    def _value(self, theta: Floats, linear: Floats) -> float:
        eta = self.X @ theta
        loss = np.logaddexp(0.0, eta) - self.y * eta
        return float(loss.sum() + (self.weights * theta) @ theta / 2 + linear @ theta)


def _length(v: Sequence[Ball]) -> Ball:
    """Bound the Euclidean norm from above, as an exact number."""
    total = arb(0)
    for x in v:
        total = total + x.abs_upper() ** 2
    return total.sqrt().abs_upper()
