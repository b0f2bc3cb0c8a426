"""The operation "epsilon at a delta" on a device: posterior samples by a start and one step, shifts by their table.

The tables of a delta are made on the processor (``pairs/closed_form/many_epsilons.py``) and copied once. The step is
that of that file, with its own Mills ratio, in one branch for everybody; exponential and
logarithm are the library's (at most two units in the last place by CUDA's tables), 1e4 times better than what every
answer is raised by. People for whom the third term of the series is not tiny take the step again; who is left after
that, or lies outside the table, has NaN here, and is solved by the processor.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

from perinstance.numerics.normal_tails import MILLS
from perinstance.numerics.rounding import SOLVER_ABSOLUTE, SOLVER_RELATIVE, THIRD_TERM

#: steps that a person may take before the processor is asked
STEPS = 6
#: thresholds that the Mills ratio is made for
LEAST, MOST = -1.5, 40.0


@dataclass(frozen=True, slots=True)
class StartOnDevice:
    """Thresholds to start from at one delta, over rows of ``y = s rho + mu`` and columns of ``mu/y``."""

    delta: float
    log_goal: float
    thresholds: Any  #: (rows + 1, columns + 1)
    first_row: int


@functools.lru_cache(maxsize=16)
def start_on_device(delta: float, device: Any) -> StartOnDevice:
    """Copy the table of a delta in (0, 1/2]."""
    import torch

    from perinstance.pairs.closed_form.many_epsilons import start_table

    table = start_table(delta)
    return StartOnDevice(delta, table.log_goal, torch.tensor(table.thresholds, device=device), table.first_row)


def posterior_epsilons_there(mu: Any, rho: Any, start: StartOnDevice) -> Any:
    """Return epsilon of posterior samples, P over Q, never below the truth; NaN for whom the processor is asked."""
    import torch

    y = mu.sqrt() * rho + mu
    epsilon, u, third = _first_step(mu, rho, y, start)
    # the total variation distance is at most y/2
    epsilon = torch.where(y < 2.0 * start.delta, torch.zeros_like(epsilon), epsilon)
    again = torch.nonzero(~(third < THIRD_TERM) & ~(y < 2.0 * start.delta) & (u > LEAST) & (u < MOST))[:, 0]
    epsilon = torch.where((third < THIRD_TERM) | (y < 2.0 * start.delta), epsilon, torch.full_like(y, torch.nan))
    if len(again):
        epsilon[again] = _more_steps(mu[again], rho[again], u[again], start.log_goal)
    return epsilon


def _first_step(mu: Any, rho: Any, y: Any, start: StartOnDevice) -> tuple[Any, Any, Any]:
    """Return epsilon after one step, the threshold and the third term (infinite outside the table)."""
    import torch

    u = start_thresholds(y, mu / y, start)
    inside = (u > LEAST) & (u < MOST)
    u = torch.where(inside, u, torch.ones_like(u))
    new, third = _step(mu, rho, u, start.log_goal)
    third = torch.where(inside & (new > LEAST) & (new < MOST), third, torch.full_like(third, torch.inf))
    return _raised(mu, rho, new), torch.where(inside, new, torch.full_like(new, torch.nan)), third


def start_thresholds(y: Any, share: Any, start: StartOnDevice) -> Any:
    """Return thresholds between the entries of the table; NaN outside."""
    import torch

    from perinstance.pairs.closed_form.many_epsilons import ROW_BITS

    rows, columns = start.thresholds.shape[0] - 1, start.thresholds.shape[1] - 1
    bits = y.contiguous().view(torch.int64)
    row = (bits >> ROW_BITS) - start.first_row
    known = (row >= 0) & (row < rows) & (share >= 0.0)
    row = torch.where(known, row, torch.zeros_like(row))
    across = (bits & ((1 << ROW_BITS) - 1)).to(torch.float64) * (1.0 / (1 << ROW_BITS))
    place = torch.where(known, columns * share, torch.zeros_like(share))
    column = place.to(torch.int64).clamp(max=columns - 1)
    along = place - column
    table, width = start.thresholds.reshape(-1), columns + 1
    cell = row * width + column
    low = table[cell] + along * (table[cell + 1] - table[cell])
    high = table[cell + width] + along * (table[cell + width + 1] - table[cell + width])
    return torch.where(known, low + across * (high - low), torch.full_like(low, torch.nan))


def _more_steps(mu: Any, rho: Any, u: Any, log_goal: float) -> Any:
    """Repeat the step for people whom the table served badly; NaN where it does not settle."""
    import torch

    found, settled = torch.full_like(u, torch.nan), torch.zeros_like(u, dtype=torch.bool)
    for _ in range(STEPS - 1):
        new, third = _step(mu, rho, u, log_goal)
        good = (new > LEAST) & (new < MOST)
        u = torch.where(good, new, u)
        done = good & (third < THIRD_TERM) & ~settled
        found = torch.where(done, _raised(mu, rho, new), found)
        settled |= done
    return found


def mills_there(i: Any) -> Any:
    """``R(x) = (1 - Phi(x)) / phi(x)`` given ``i = 1/(x + 6)``, x >= -1.5; see ``numerics/normal_tails.py``."""
    y = 1.0 - 9.0 * i
    value = MILLS[-1] * y + MILLS[-2]
    for coefficient in MILLS[-3::-1]:
        value = value * y + coefficient
    return i * value


def _drop(R: Any, after: Any, x: Any, h: Any) -> Any:
    """``R(x) - R(x + h)``: Taylor to fifth order for small h, else the difference."""
    import torch

    c1 = x * R - 1.0
    c2 = 0.5 * (x * c1 + R)
    c3 = (x * c2 + c1) * (1.0 / 3.0)
    c4 = 0.25 * (x * c3 + c2)
    c5 = 0.2 * (x * c4 + c3)
    return torch.where(h < 0.01, -h * (c1 + h * (c2 + h * (c3 + h * (c4 + h * c5)))), R - after)


def _step(mu: Any, rho: Any, u: Any, log_goal: float) -> tuple[Any, Any]:
    """Take one step of the inverse Taylor series; return the new threshold and the size of the third term."""
    import torch

    s, t = mu.sqrt(), (1.0 + mu).sqrt()
    over_t, over_1t, r = 1.0 / t, 1.0 / (1.0 + t), rho / s
    q, c, a = rho * over_t, rho + s * u, u + 2.0 * r
    h1, h2 = s * (c + q) * over_1t, (s * (c - q) * over_1t).clamp(min=0.0)
    E = (-2.0 * r * (r + u)).clamp(min=-600.0).exp()
    R, R_next = mills_there(1.0 / (u + 6.0)), mills_there(1.0 / (u + h1 + 6.0))
    S, S_next = mills_there(1.0 / (a + 6.0)), mills_there(1.0 / (a + h2 + 6.0))
    T = (R_next + E * S_next) * over_t
    X = _drop(R, R_next, u, h1) + E * _drop(S, S_next, a, h2) + T * (mu * over_1t)
    g, W, V = s * c, 1.0 + E, u + E * a
    x = X * (-0.5 * u * u - log_goal).exp() - 1.0
    F = x * (1.0 - x * (0.5 - x * (1.0 / 3.0 - x * (0.25 - x * (0.2 - x * (1.0 / 6.0 - x * (1.0 / 7.0)))))))
    gT = g * T
    T1 = gT - W
    bend = mu * T + g * T1
    q1, q2, q3 = -gT / X, -bend / X, -(2.0 * mu * T1 + g * (bend + V)) / X
    over_F1 = -X / gT
    second = (q2 - q1 * q1) * over_F1
    b = (q3 - q1 * (3.0 * q2 - 2.0 * q1 * q1)) * over_F1
    step = -F * over_F1
    third = step * step * step * (0.5 * second * second - b * (1.0 / 6.0))
    # a ratio so far from one that the logarithm's series is not good enough counts as a failed step
    size = torch.where(x.abs() < 0.03, third.abs(), torch.full_like(third, torch.inf))
    return u + (step - 0.5 * second * step * step + third), size


def _raised(mu: Any, rho: Any, u: Any) -> Any:
    """``s u rho + mu (u^2 + q^2)/2 - log1p(mu)/2``, raised by the solver's error."""
    drift, q2 = mu.sqrt() * rho, rho * rho / (1.0 + mu)
    epsilon = u * drift + 0.5 * (mu * (u * u + q2) - mu.log1p())
    more = SOLVER_RELATIVE * epsilon.abs() + SOLVER_ABSOLUTE * (drift + mu).clamp(max=1.0)
    return (epsilon + more).clamp(min=0.0)


@dataclass(frozen=True, slots=True)
class ShiftsOnDevice:
    """``epsilon/D`` of a shift at one delta: a polynomial of D in each cell."""

    delta: float
    polynomials: Any
    first_cell: int


@functools.lru_cache(maxsize=16)
def shifts_on_device(delta: float, device: Any) -> ShiftsOnDevice:
    """Copy the table of a delta in (0, 1/2]."""
    import torch

    from perinstance.pairs.closed_form.tables_per_delta import shift_table

    table = shift_table(delta)
    return ShiftsOnDevice(delta, torch.tensor(table.polynomials, device=device), table.first_cell)


def shift_epsilons_there(D: Any, table: ShiftsOnDevice) -> Any:
    """Return epsilon of shifts, never below the truth; NaN for whom the processor is asked."""
    import torch

    from perinstance.pairs.closed_form.tables_per_delta import CELL_BITS

    bits = D.contiguous().view(torch.int64)
    cell = (bits >> CELL_BITS) - table.first_cell
    known = (cell >= 0) & (cell < len(table.polynomials))
    cell = torch.where(known, cell, torch.zeros_like(cell))
    t = (bits & ((1 << CELL_BITS) - 1)).to(torch.float64) * (2.0 / (1 << CELL_BITS)) - 1.0
    powers = table.polynomials.T.contiguous()
    value = powers[-1][cell]
    for coefficients in reversed(powers[:-1]):
        value = value * t + coefficients[cell]
    epsilon = D * value
    epsilon = (epsilon + SOLVER_RELATIVE * epsilon.abs() + SOLVER_ABSOLUTE * D.clamp(max=1.0)).clamp(min=0.0)
    # the total variation distance is at most D phi(0)
    outside = torch.where(2.5 * table.delta > D, torch.zeros_like(D), torch.full_like(D, math.nan))
    return torch.where(known, epsilon, outside)
