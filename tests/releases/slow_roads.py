"""The slow and dumb roads that the tests of AdaOPS and AdaSSP lean on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from perinstance.releases.adaops.mechanism import Request, plan, run
from perinstance.sampling import FixedRows


def posterior_delta(mu: float, rho: float, epsilon: float, direction: str) -> float:
    """MATH 1b word by word, for epsilon of both signs."""
    b = np.log1p(mu) + rho**2 / (1.0 + mu)
    p, q = (rho, np.sqrt(mu)), (rho / (1.0 + mu), np.sqrt(mu / (1.0 + mu)))

    def inner(law, c):  # P(|w| < c)
        return ndtr((c - law[0]) / law[1]) - ndtr((-c - law[0]) / law[1])

    def outer(law, c):
        return ndtr((law[0] - c) / law[1]) + ndtr((-c - law[0]) / law[1])

    if direction == "without":
        c = np.sqrt(np.maximum(b + 2.0 * epsilon, 0.0))
        return outer(p, c) - np.exp(epsilon) * outer(q, c)
    c = np.sqrt(np.maximum(b - 2.0 * epsilon, 0.0))
    return inner(q, c) - np.exp(epsilon) * inner(p, c)


@dataclass
class Pinned:
    """A window that answers what it is told, and remembers what it was asked."""

    d: int
    answers: dict[str, float]
    asked: dict[str, tuple] = field(default_factory=dict)

    def __getattr__(self, name):
        def ask(*question):
            self.asked[name] = question
            return np.zeros(self.d) if name == "posterior" else self.answers[name]

        return ask


class Plain:
    """A window's questions in plain numpy, answered without noise."""

    def __init__(self, rows):
        """``rows`` are fixed rows, or rows and targets; a row of zeros is an absent person."""
        self.rows = rows if isinstance(rows, FixedRows) else FixedRows(*rows, rows[0].any(axis=1))
        self.d = self.rows.X.shape[1]

    def mapped(self, rows_of, d):
        return Plain(rows_of(self.rows))

    def sums(self, of, scales):
        return of(self.rows).sum(axis=0)

    def outer(self, of, scale, known=None, twice=False):
        S = of(self.rows)
        G = S.T @ S
        if known is not None:
            G[-1, -1] = known
        return G

    def count(self, scale):
        return len(self.rows.y)

    def eigenvalue(self, scale):
        return np.linalg.eigvalsh(self.rows.X.T @ self.rows.X)[0]

    def log_size(self, ridge, x_bound, y_bound, scale):
        return np.log(y_bound + x_bound * np.linalg.norm(self.posterior(ridge, None)))

    def posterior(self, ridge, gamma):
        X, y = self.rows.X, self.rows.y
        return np.linalg.solve(X.T @ X + ridge * np.eye(self.d), X.T @ y)


class Watched:
    """Two worlds seen without noise: answers with noise around the first, sums ``log p/q`` (first over second)."""

    def __init__(self, worlds, rng, losses=None):
        self.worlds = [w if isinstance(w, Plain) else Plain(w) for w in worlds]
        self.rng, self.losses, self.d = rng, [] if losses is None else losses, self.worlds[0].d

    def answer(self, mine, theirs, scale):
        answer = mine + scale * self.rng.standard_normal(np.shape(mine))
        self.losses.append(float(np.sum(((answer - theirs) ** 2 - (answer - mine) ** 2) / (2 * scale**2))))
        return answer

    def __getattr__(self, name):
        return lambda *asked: self.answer(*(getattr(w, name)(*asked) for w in self.worlds), np.asarray(asked[-1]))

    def mapped(self, rows_of, d):
        return type(self)([w.mapped(rows_of, d) for w in self.worlds], self.rng, self.losses)

    def outer(self, of, scale, known=None, twice=False):
        full, theirs = (w.outer(of, scale, known) for w in self.worlds)
        rows, columns = (part[: None if known is None else -1] for part in np.triu_indices(len(full)))
        scales = np.where(rows == columns, scale, scale / np.sqrt(2))
        full[rows, columns] = self.answer(full[rows, columns], theirs[rows, columns], scales)
        full[columns, rows] = full[rows, columns]
        return full

    def posterior(self, ridge, gamma):
        H = [w.rows.X.T @ w.rows.X + ridge * np.eye(self.d) for w in self.worlds]
        centers = [w.posterior(ridge, gamma) for w in self.worlds]
        noise = np.linalg.solve(np.linalg.cholesky(H[0]).T, self.rng.standard_normal(self.d))
        theta = centers[0] + noise / np.sqrt(gamma)
        for matrix, center, sign in zip(H, centers, (1, -1), strict=True):
            off = theta - center
            self.losses.append(sign * (np.linalg.slogdet(matrix)[1] - gamma * off @ matrix @ off) / 2)
        return theta


def losses_watched(mechanism, pair, draws):
    """``log p/q`` of runs in one world over the other, both ways round."""
    found = []
    for seed, worlds in enumerate((pair, pair[::-1])):
        rng = np.random.default_rng(seed)
        windows = [Plain(w) for w in worlds]
        found.append(np.empty(draws))
        for i in range(draws):
            window = Watched(windows, rng)
            mechanism(window)
            found[-1][i] = sum(window.losses)
    return found


def whole_profile(
    request: Request, G, b, x, y: float, epsilon: float | None = None, n: int = 0, nodes: int = 31, spent=None
):
    """Exact delta, both directions, of the whole AdaOPS on one pair of neighbours: quadrature over its noisy numbers.

    Nothing of ``Promise`` is used: for each value of the noisy numbers the mechanism itself is asked for its ridge and
    gamma, and the pair of the posterior sample is taken at the actual leverage and residual. ``n`` counts the others.
    The person has as many rows (x, y) as a person may have: together they are one row, ``sqrt(rows) (x, y)``.
    """
    spent, d, rows = spent or plan(request), request.d, request.rows_per_person
    x, y = np.sqrt(rows) * x, np.sqrt(rows) * y
    epsilon = request.epsilon if epsilon is None else epsilon
    u = np.linspace(-8.5, 8.5, nodes)
    weights = np.exp(-(u**2) / 2) / np.sqrt(2 * np.pi) * (u[1] - u[0])
    G_with, b_with = G + np.outer(x, x), b + y * x
    eigenvalues = np.linalg.eigvalsh(G)[0], np.linalg.eigvalsh(G_with)[0]
    counts = [(0.0, 0.0, 1.0)]

    def around(here: float, there: float, scale: float):
        """Values of a noisy number, their loss and their weight, when the truth is ``here`` rather than ``there``."""
        values = here + scale * u
        return zip(values, ((values - there) ** 2 - (values - here) ** 2) / (2 * scale**2), weights, strict=True)

    totals = {}
    for direction in ("without", "with"):
        total, turn = 0.0, (lambda pair: pair) if direction == "without" else (lambda pair: pair[::-1])
        if request.n_public is None:
            counts = list(around(*turn((n, n + rows)), spent.count.scale))[::2]
            counts = [(value, loss, 2 * weight) for value, loss, weight in counts]
        for count, loss0, w0 in counts:
            for value, loss1, w1 in around(*turn(eigenvalues), spent.eigenvalue.scale):
                window = Pinned(d, {"count": count, "eigenvalue": value, "log_size": 0.0})
                run(spent, window)
                ridge = window.asked["posterior"][0]
                H = G + ridge * np.eye(d)
                theta, theta_with = np.linalg.solve(H, b), np.linalg.solve(H + np.outer(x, x), b_with)
                mu, r = x @ np.linalg.solve(H, x), abs(y - x @ theta)
                sizes = [(0.0, 0.0, 1.0)]
                if "log_size" in window.asked:
                    ends = [np.log(request.y_bound + request.x_bound * np.linalg.norm(t)) for t in (theta, theta_with)]
                    sizes = around(*turn(ends), window.asked["log_size"][-1])
                for size, loss2, w2 in sizes:
                    window.answers["log_size"] = size
                    run(spent, window)
                    rho = np.sqrt(window.asked["posterior"][1]) * r
                    left = epsilon - loss0 - loss1 - loss2
                    total += w0 * w1 * w2 * posterior_delta(mu, rho, left, direction)
        totals[direction] = total
    return totals
