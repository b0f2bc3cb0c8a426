"""Formulas as the paper prints them. They are wrong: never use them as guarantees. The corrections page shows how."""

from __future__ import annotations

import math

# Per-instance differential privacy, Wang (2019). Names follow the paper.


def gaussian_mechanism(gamma: float, distance: float, delta: float) -> float:
    """Lemma "Multivariate Gaussian mechanism": ``gamma Delta sqrt(log(1.25/delta))``."""
    return gamma * distance * math.sqrt(math.log(1.25 / delta))


def ops(mu: float, rho: float, delta: float) -> float:
    """Theorem "The adaptivity of OPS", first form; ``rho = sqrt(gamma) |y - x'theta|``, log(2/delta) in the tails."""
    tail = math.log(2 / delta)
    return abs(-math.log1p(mu) + mu / (1 + mu) * rho**2) / 2 + mu / 2 * tail + math.sqrt(mu * tail) * rho


def ops_from_inside(mu_in: float, rho_in: float, delta: float) -> float:
    """Theorem "The adaptivity of OPS", second form, at in-sample leverage and residual; printed as equal."""
    tail = math.log(2 / delta)
    return (
        abs(-math.log1p(-mu_in) - mu_in / (1 - mu_in) * rho_in**2) / 2
        + mu_in / 2 * tail
        + math.sqrt(mu_in * tail) * rho_in
    )


def agnostic_third_term(gamma: float, eigenvalue: float, delta: float) -> float:
    """Proposition on the agnostic setting, third term: ``gamma (1 + log(2/delta)) / (2 (lambda + lambda_min))``."""
    return gamma * (1 + math.log(2 / delta)) / (2 * eigenvalue)


def residual_supremum(n: int, ridge: float) -> float:
    """Largest residual over data sets: ``1 + sqrt(n / lambda)``."""
    return 1 + math.sqrt(n / ridge)


def sample_error(trace_inverse: float, sigma: float, gamma: float) -> float:
    """Statistical efficiency: ``sigma^2 tr(H^-1) (1 + 1/gamma)`` (the bias apart)."""
    return sigma**2 * trace_inverse * (1 + 1 / gamma)


def optimisation_error(d: int, gamma: float) -> float:
    """Optimisation error: ``d / gamma``."""
    return d / gamma


def adaops_ridge(n: int, d: int, kappa: float, noisy_eigenvalue: float, epsilon: float, delta: float) -> float:
    """AdaOPS, step 3: ``min{0, n/(d kappa) - lambda~ + log(4/delta)/(epsilon/2)}``."""
    return min(0.0, n / (d * kappa) - noisy_eigenvalue + math.log(4 / delta) / (epsilon / 2))


def adaops_eigenvalue_scale(epsilon: float, delta: float) -> float:
    """AdaOPS, step 2: the noise said to make the eigenvalue (epsilon/2, delta/2)-private."""
    return math.sqrt(math.log(4 / delta)) / (epsilon / 2)


def adaops_residual(d: int, kappa: float) -> float:
    """AdaOPS, proof: the bound on the residual."""
    return math.sqrt(2 * d * kappa)


def group_delta(epsilon: list[float], delta: list[float]) -> float:
    """Group privacy: the weight ``sum_i delta_i prod_{j<i} e^eps_j``, printed for both directions."""
    return sum(d * math.exp(sum(epsilon[:i])) for i, d in enumerate(delta))


def pseudo_inverse(h: float) -> float:
    """Lemma on the pseudo-inverse: ``sqrt(2 / h)``."""
    return math.sqrt(2 / h)


def generalisation_step(epsilon: float, epsilon_other: float, delta: float, delta_other: float) -> float:
    """Proof of generalisation, last line: ``e^(eps + eps') - 1 + delta + eps delta'``."""
    return math.expm1(epsilon + epsilon_other) + delta + epsilon * delta_other
