"""The slow and dumb roads that the tests of AdaOPS and AdaSSP lean on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta

from perinstance.folds.sweep import ArraySweep
from perinstance.releases.adaops.mechanism import Request, plan, run
from perinstance.releases.promises.window import FloatWindow


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


class Watched:
    """Two worlds seen without noise: answers with noise around the first, sums ``log p/q`` (first over second)."""

    def __init__(self, worlds, rng, losses=None):
        """``worlds`` are rows and targets, or windows."""
        self.worlds = [w if hasattr(w, "gram") else FloatWindow(ArraySweep(*w)) for w in worlds]
        self.rng, self.losses, self.d = rng, [] if losses is None else losses, self.worlds[0].d

    def answer(self, mine, theirs, scale):
        answer = mine + scale * self.rng.standard_normal(np.shape(mine))
        self.losses.append(float(np.sum(((answer - theirs) ** 2 - (answer - mine) ** 2) / (2 * scale**2))))
        return answer

    def __getattr__(self, name):
        return lambda *asked: self.answer(*(getattr(w, name)(*asked) for w in self.worlds), asked[-1])

    def framed(self, frame):
        return type(self)([w.framed(frame) for w in self.worlds], self.rng, self.losses)

    def mapped(self, rows_of, d):
        return type(self)([w.mapped(rows_of, d) for w in self.worlds], self.rng, self.losses)

    def gram(self, scale, known=None):
        return self.matrix([w.gram(scale) for w in self.worlds], scale, known)

    def meat(self, *asked):
        return self.matrix([w.meat(*asked) for w in self.worlds], asked[-1])

    def matrix(self, worlds, scale, known=None):
        rows, columns = np.triu_indices(self.d)
        kept = np.arange(len(rows)) < len(rows) - (known is not None)
        rows, columns = rows[kept], columns[kept]
        full = np.full((self.d, self.d), 0.0 if known is None else known)
        mine, theirs = (w[rows, columns] for w in worlds)
        full[rows, columns] = self.answer(mine, theirs, np.where(rows == columns, scale, scale / np.sqrt(2)))
        full[columns, rows] = full[rows, columns]
        return full

    def posterior(self, ridge, gamma):
        theta = FloatWindow(self.worlds[0]._rows, self.rng).posterior(ridge, gamma)
        for window, sign in zip(self.worlds, (1, -1), strict=True):
            H = window.gram(0.0) + ridge * np.eye(self.d)
            off = theta - window.posterior(ridge, gamma)
            self.losses.append(sign * (np.linalg.slogdet(H)[1] - gamma * off @ H @ off) / 2)
        return theta


def losses_watched(mechanism, pair, draws):
    """``log p/q`` of runs in one world over the other, both ways round."""
    found = []
    for seed, worlds in enumerate((pair, pair[::-1])):
        rng = np.random.default_rng(seed)
        windows = [FloatWindow(ArraySweep(*w)) for w in worlds]
        found.append(np.empty(draws))
        for i in range(draws):
            window = Watched(windows, rng)
            mechanism(window)
            found[-1][i] = sum(window.losses)
    return found


def whole_profile(
    request: Request, G, b, x, y: float, epsilon: float | None = None, n: int = 0, nodes: int = 41, spent=None
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


def hockey_stick_lower_bound(first: np.ndarray, second: np.ndarray, epsilon: float, miss: float = 1e-3) -> float:
    """A lower bound on ``P(L > epsilon) - e^epsilon Q(L > epsilon)`` from losses drawn under P and under Q.

    Clopper and Pearson on each probability; wrong with probability at most ``miss``.
    """
    a, b = int((first > epsilon).sum()), int((second > epsilon).sum())
    low = beta.ppf(miss / 2, a, len(first) - a + 1) if a else 0.0
    high = beta.ppf(1 - miss / 2, b + 1, len(second) - b) if b < len(second) else 1.0
    return float(low - np.exp(epsilon) * high)
