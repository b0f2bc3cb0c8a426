"""Simulated draws for experiments: floating point, seeded, fast, and NOT private. Nothing here can be published.

A simulated draw is a ``Simulated``: it has no ``coef_``, no grid and no promise, and no release accepts or returns it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from perinstance.errors import InvalidInput
from perinstance.numerics.array_types import Floats
from perinstance.sampling.ball_arithmetic import exact
from perinstance.sampling.exact_gram import NormalEquations
from perinstance.sampling.ideal_laws import ExactObjective, ExactOutput, ExactPosterior, Ideal, Noisy


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Draws of an experiment, one in each row. Not a release: floating-point noise gives the data away."""

    simulated_values: Floats

    def __repr__(self) -> str:
        return f"Simulated({self.simulated_values.shape[0]} draws, not private, not a release)"


def simulated_draws(ideal: Ideal, size: int, rng: np.random.Generator) -> Simulated:
    """Simulate ``size`` draws of a distribution in floating point.

    >>> simulated_draws(Noisy([0.0], scale=1.0), 5, np.random.default_rng(0))
    Simulated(5 draws, not private, not a release)
    """
    if not isinstance(rng, np.random.Generator):
        raise InvalidInput(f"rng must be a numpy Generator, got {type(rng).__name__}; try numpy.random.default_rng(0)")
    if isinstance(ideal, Noisy):
        center = np.array([float(exact(c).mid()) for c in ideal.center])
        scale = np.array([float(exact(s)) for s in np.atleast_1d(np.asarray(ideal.scale, dtype=object))])
        sampler = rng.standard_normal if ideal.noise == "gaussian" else rng.laplace
        return Simulated(center + scale * sampler(size=(size, ideal.d)))
    z = rng.standard_normal((ideal.d, size))
    if isinstance(ideal, ExactOutput):
        given = ideal.center
        mean = _estimate(*_floats(given)) if isinstance(given, NormalEquations) else np.asarray(given, dtype=float)
        noise = z if ideal.A is None else solve_triangular(np.linalg.cholesky(ideal.A), z, lower=True, trans=1)
        return Simulated(mean + ideal.scale * noise.T)
    if isinstance(ideal, ExactPosterior):
        H, b = _floats(ideal.equations)
        noise = solve_triangular(np.linalg.cholesky(H), z, lower=True, trans=1) / np.sqrt(ideal.gamma)
        return Simulated(_estimate(H, b) + noise.T)
    if isinstance(ideal, ExactObjective):
        H, b = _floats(ideal.equations)
        return Simulated(cho_solve(cho_factor(H), b[:, None] - ideal.scale * z).T)
    raise InvalidInput(f"no simulation is known for {type(ideal).__name__}")


def _floats(equations: NormalEquations) -> tuple[Floats, Floats]:
    to_float = np.vectorize(lambda v: float(exact(int(v)) * exact(2) ** equations.exponent), otypes=[np.float64])
    return to_float(equations.H), to_float(equations.b)


def _estimate(H: Floats, b: Floats) -> Floats:
    return cho_solve(cho_factor(H), b)
