"""Upper bounds of the loss of everybody in a slice of a domain, for each of the three mechanisms.

A slice is an interval of ``x'theta``; y is the worst one, ``|r| <= y_bound + |x'theta|``. Inside a slice the three
losses are functions of ``k = x'Kx`` and ``g = x'Gx``, whose joint range is bounded by ``g <= W_psi + psi k`` for any psi,
``W_psi`` the trust-region maximum of ``x'(G - psi K)x`` (``slices``): tight where psi is the slope at the best target.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.ceilings import objective_ceiling, posterior_ceiling, shift_ceiling
from perinstance.analysis.setting import Setting
from perinstance.analysis.slices import Domain, Slices, slices

Floats = NDArray[np.float64]

SLOPES = 5
LENGTHS = (1.0, 0.7, 0.4, 0.2)
FACTORS = (0.2, 0.5, 0.7, 0.85, 0.95, 1.05, 1.2, 1.5, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One mechanism over one domain: bounds for intervals of sigma, and promising people in them."""

    setting: Setting
    domain: Domain
    y_bound: float
    delta: float
    leverage: Slices
    movement: tuple[tuple[float, Slices], ...]  #: (psi, slices of G - psi K)
    centre: float  #: x'theta = centre + stretch * sigma
    stretch: float

    def reach(self, low: Floats, high: Floats, k: Floats) -> Floats:
        """Return the largest ``|y - x'theta|``; theta itself is known up to its rounding."""
        s = np.maximum(np.abs(self.centre + self.stretch * low), np.abs(self.centre + self.stretch * high))
        return (self.y_bound + s) * (1 + 1e-14) + 4 * self.setting.error * np.sqrt(k) * self.setting.length

    def upper(self, low: Floats, high: Floats) -> Floats:
        """Return an epsilon that holds for everybody with sigma in [low, high]."""
        error = 1 + 8 * self.setting.error
        k = np.maximum(self.leverage.upper(low, high), 0.0) * error
        r = self.reach(low, high, k)
        mechanism = self.setting.mechanism
        if mechanism.family == "posterior":
            return posterior_ceiling(k, r / mechanism.scale, self.delta)
        kappa_or_ratio = np.full(len(k), np.inf)
        for psi, form in self.movement:
            kappa_or_ratio = np.minimum(kappa_or_ratio, self.through(psi, form, low, high, k))
        if mechanism.family == "output":
            return shift_ceiling(r * kappa_or_ratio * error, self.delta)
        return objective_ceiling(
            r * np.sqrt(self.domain.square) / mechanism.scale, k, kappa_or_ratio * error, self.delta
        )

    def through(self, psi: float, form: Slices, low: Floats, high: Floats, k: Floats) -> Floats:
        """Bound ``sqrt(g)/(1+k)`` (output) or ``sqrt(x'x v'v - k^2)`` (objective) by ``g <= W + psi k``, k up to its bound."""
        W = form.upper(low, high)
        if self.setting.mechanism.family == "output":
            best = np.clip(1 - 2 * W / psi, 0.0, k) if psi > 0 else np.zeros(len(k))
            return np.sqrt(np.maximum(W + psi * best, 0.0)) / (1 + best)
        unit = self.domain.square * self.setting.mechanism.scale**2
        best = np.clip(0.5 * unit * psi, 0.0, k)
        return np.sqrt(np.maximum(unit * (W + psi * best) - best**2, 0.0))

    def sharpened(self, low: float, high: float) -> Sheet:
        """Add the slope psi that is best for one interval."""
        if not self.movement:
            return self
        lo, hi = np.array([low]), np.array([high])
        k = np.maximum(self.leverage.upper(lo, hi), 0.0)
        theta, K, G = self.setting.theta, self.setting.K, self.setting.G
        known = [(psi, form, float(self.through(psi, form, lo, hi, k)[0])) for psi, form in self.movement]
        best = min(known, key=lambda entry: entry[2])
        tried = []
        centre = best[0] if best[0] > 0 else min(psi for psi, _ in self.movement if psi > 0)
        for factor in FACTORS:
            psi = centre * factor
            form = slices(self.domain, theta, G - psi * K)
            tried.append((psi, form, float(self.through(psi, form, lo, hi, k)[0])))
        psi, form, value = min(tried, key=lambda entry: entry[2])
        return self if value >= best[2] * (1 - 1e-6) else replace(self, movement=(*self.movement, (psi, form)))

    def promising(self, sigma: Floats) -> Floats:
        """Return rows x (without the constant) that nearly reach the bound at each sigma, several for each."""
        forms = [self.leverage] if self.setting.mechanism.family == "posterior" else [f for _, f in self.movement]
        u = np.concatenate([form.maximisers(sigma) for form in forms])
        if (
            self.setting.mechanism.family == "output"
        ):  # a long row can damp its own movement: x'Kx is in the denominator
            u = np.concatenate([t * u for t in LENGTHS])
        return self.domain.rows(u)[:, : self.setting.n_features]


def sheet(setting: Setting, domain: Domain, y_bound: float, delta: float) -> Sheet:
    """Prepare the trust regions of one domain."""
    theta, K, G = setting.theta, setting.K, setting.G
    leverage = slices(domain, theta, K)
    movement: tuple[tuple[float, Slices], ...] = ()
    if setting.mechanism.family != "posterior":
        plain = slices(domain, theta, G)
        x = domain.rows(np.vstack([f.maximisers(np.linspace(-1, 1, 33)) for f in (plain, leverage)]))
        k, g = np.einsum("ij,jk,ik->i", x, K, x), np.einsum("ij,jk,ik->i", x, G, x)
        if setting.mechanism.family == "output":
            slope = 2 * g / (1 + k)  # where sqrt(g)/(1+k) is stationary
        else:
            slope = 2 * k / (domain.square * setting.mechanism.scale**2)  # where x'x v'v - mu^2 is
        choice = [psi for psi in np.quantile(slope, np.linspace(0, 1, SLOPES)) if psi > 0]
        movement = ((0.0, plain), *((float(psi), slices(domain, theta, G - psi * K)) for psi in choice))
    return Sheet(
        setting=setting,
        domain=domain,
        y_bound=y_bound,
        delta=delta,
        leverage=leverage,
        movement=movement,
        centre=float(domain.x0 @ theta),
        stretch=float(np.linalg.norm(domain.T.T @ theta)),
    )


@dataclass(frozen=True, slots=True)
class Found:
    """The end of a search: nobody is above ``upper``; the person ``x`` is at ``attained``."""

    upper: float
    attained: float
    x: Floats


def branch_and_bound(
    sheet: Sheet,
    polish: Callable[[Floats], Found],
    start: Found,
    low: float = -1.0,
    high: float = 1.0,
    tolerance: float = 1e-3,
    cells: int = 64,
    rounds: int = 40,
    most: int = 4_000,
) -> Found:
    """Split the slices until no bound is more than ``tolerance`` above a person who was found."""
    edges = np.linspace(low, high, cells + 1)
    lo, hi = edges[:-1], edges[1:]
    best, settled = start, 0.0
    for _ in range(rounds):
        bound = sheet.upper(lo, hi)
        # ask about the people of the most promising slices only: a score costs as much as a bound
        first = np.argsort(-bound)[:16]
        found = polish(sheet.promising(0.5 * (lo[first] + hi[first])))
        if found.attained > best.attained:
            best = found
        live = bound > best.attained * (1 + tolerance)
        settled = max(settled, float(bound[~live].max(initial=0.0)))
        lo, hi, bound = lo[live], hi[live], bound[live]
        if not len(lo) or len(lo) > most:
            break
        top = int(np.argmax(bound))
        sheet = sheet.sharpened(lo[top], hi[top])
        middle = 0.5 * (lo + hi)
        lo, hi, bound = np.concatenate([lo, middle]), np.concatenate([middle, hi]), np.concatenate([bound, bound])
    upper = max(settled, float(bound.max(initial=0.0)) if len(lo) else 0.0, best.attained)
    return Found(upper, best.attained, best.x)


def climb(setting: Setting, x: Floats, y_bound: float, into: Callable[[Floats], Floats], steps: int = 40) -> Floats:
    """Walk uphill from each row inside the domain, on the logarithm of the leading term of the loss.

    ``(y_bound + |x'theta|) sqrt(x'Gx) / (1 + x'Kx)`` is the movement of output perturbation itself. For the other two it
    is a guide only: ``(y_bound + |x'theta|) sqrt(x'Kx)`` (posterior), ``(y_bound + |x'theta|) ||x||`` (objective).
    """
    d, family = setting.n_features, setting.mechanism.family
    M = {"output": setting.G, "posterior": setting.K, "objective": np.eye(len(setting.theta))}[family]
    damping = 1.0 if family == "output" else 0.0
    ones = np.ones((len(x), len(setting.theta) - d))

    def value(rows: Floats) -> tuple[Floats, Floats]:
        z = np.concatenate([rows, ones], axis=1)
        s = z @ setting.theta
        zG, zK = z @ M, damping * (z @ setting.K)
        g, k = np.einsum("ij,ij->i", z, zG), np.einsum("ij,ij->i", z, zK)
        with np.errstate(divide="ignore", invalid="ignore"):
            f = np.log(y_bound + np.abs(s)) + 0.5 * np.log(g) - np.log1p(k)
            slope = (np.sign(s) / (y_bound + np.abs(s)))[:, None] * setting.theta + zG / g[:, None]
        slope = slope - 2 * zK / (1 + k)[:, None]
        return f, np.where(np.isfinite(slope), slope, 0.0)[:, :d]

    f, slope = value(x)
    size = np.linalg.norm(x, axis=1) + 1e-12
    step = 0.3 * size**2
    for _ in range(steps):
        trial = into(x + step[:, None] * slope)
        f_trial, slope_trial = value(trial)
        better = f_trial > f
        x, slope = np.where(better[:, None], trial, x), np.where(better[:, None], slope_trial, slope)
        f = np.where(better, f_trial, f)
        step = np.where(better, step * 1.6, step * 0.4)
    return x
