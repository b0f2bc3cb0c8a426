"""An empirical audit of whole mechanisms: the best attack on chosen neighbours, with confidence bounds on its success.

The attacker sees everything that is released and uses the exact likelihood ratio: as sharp as draws allow.
"""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.releases.adaops import mechanism as adaops_mechanism
from perinstance.releases.adassp import mechanism as adassp_mechanism
from perinstance.releases.promises.noisy_queries import SimulatedWindow

from .slow_roads import hockey_stick_lower_bound

NOBODY = np.zeros((0, 1)), np.zeros(0)
ONE = np.array([[1.0]]), np.array([1.0])


class Watched(SimulatedWindow):
    """A simulated window that sums the log-likelihood ratio (here over there) of everything it answers."""

    def __init__(self, here, there, rng):
        super().__init__(*here, rng)
        self.other = SimulatedWindow(*there, rng)
        self.loss = 0.0

    def _shift(self, answer, mine, theirs, scale):
        self.loss += float(((answer - theirs) ** 2 - (answer - mine) ** 2) / (2 * scale**2))
        return answer

    def eigenvalue(self, scale):
        return self._shift(super().eigenvalue(scale), self._G[0, 0], self.other._G[0, 0], scale)

    def posterior(self, ridge, gamma):
        theta = super().posterior(ridge, gamma)
        for window, sign in ((self, 1), (self.other, -1)):
            H = window._G[0, 0] + ridge
            self.loss += sign * (np.log(H) - gamma * H * (theta[0] - window._b[0] / H) ** 2) / 2
        return theta

    def gram(self, scale):
        answer = super().gram(scale)
        self._shift(answer[0, 0], self._G[0, 0], self.other._G[0, 0], scale)
        return answer

    def moment(self, theta, clip, scale):
        answer = super().moment(theta, clip, scale)
        mine, theirs = (w._X[:, 0] @ np.clip(w._y - w._X @ theta, -clip, clip) for w in (self, self.other))
        self._shift(answer[0], mine, theirs, scale)
        return answer


def ada_ops(epsilon, delta):
    """n_public = 1 and a high floor make the bounds tight for this pair: nothing is hidden behind slack."""
    spent = adaops_mechanism.plan(adaops_mechanism.Request(epsilon, delta, 1.0, 1.0, 1, 1, 1e-3))
    return lambda window: adaops_mechanism.run(spent, window)


def ada_ssp(epsilon, delta):
    spent = adassp_mechanism.spend(epsilon, delta, 1.0, 1.0, 0.25, 2)
    return lambda window: adassp_mechanism.run(spent, window)


def found(mechanism, epsilon, draws):
    """Lower bounds on the hockey-stick divergence at epsilon, P without the person over Q with them and Q over P."""
    losses = []
    for seed, (here, there) in enumerate(((NOBODY, ONE), (ONE, NOBODY))):
        rng = np.random.default_rng(seed)
        losses.append(np.empty(draws))
        for i in range(draws):
            window = Watched(here, there, rng)
            mechanism(window)
            losses[-1][i] = window.loss  # log p/q under P, then log q/p under Q
    p, q = losses
    return hockey_stick_lower_bound(p, -q, epsilon), hockey_stick_lower_bound(q, -p, epsilon)


@pytest.mark.parametrize("mechanism", [ada_ops, ada_ssp])
@pytest.mark.parametrize(
    ("epsilon", "delta", "draws"), [(0.3, 0.3, 1_500), pytest.param(1.0, 0.05, 100_000, marks=pytest.mark.slow)]
)
def test_no_violation_is_found_and_half_of_delta_is_refuted(mechanism, epsilon, delta, draws):
    worst = max(found(mechanism(epsilon, delta), epsilon, draws))
    assert worst <= delta
    assert worst > delta / 2


def test_the_attack_does_find_a_broken_promise():
    """A control: the same audit of a release that spent three times the epsilon it claims must fail."""
    assert max(found(ada_ops(3.0, 0.05), 1.0, 1_000)) > 0.05
