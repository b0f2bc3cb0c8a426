"""Epsilon of objective perturbation by one compiled kernel, a thread for each person.

``objective_epsilons`` in torch is thousands of short operations on a few numbers per person; here all of it stays in
registers. The formulas, the charges and the people who are left to the processor are the same.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from perinstance.engines.cuda.compiled_kernels import LOOKED_AT, agrees, compiled, launch, usable
from perinstance.engines.cuda.epsilons import shifts_on_device
from perinstance.engines.cuda.operations import objective_epsilons as in_torch
from perinstance.numerics import rounding
from perinstance.numerics.rounding import KERNEL_AGREES
from perinstance.pairs.closed_form.tables_per_delta import CELL_BITS, POINTS

#: threads of a block
THREADS = 128
#: a kernel that does something else than torch is off by far more than this, or answers far fewer people
SAME_EPSILON, NEARLY_ALL = KERNEL_AGREES, 0.98


def shared_numbers() -> tuple[tuple[str, str], ...]:
    """Return the numbers that the source shares with the package, as C writes them."""
    slacks = ("BOUND_UP", "HALF_UNIT", "LAST_SUM", "LEAST_PAIR", "NORM_UP", "NOT_ZERO", "ONE_DIMENSION", "PROMISED")
    ours = ("MOST_EXCESS", "LEAST_SQUARE", "MOST_SQUARE", "SMALL", "RIGHT", "ROUNDINGS", "USABLE", "LAST", "STEEP")
    values = {name: getattr(rounding, name) for name in (*slacks, "PROMISED_ABSOLUTE")}
    values.update({name: getattr(in_torch, name) for name in ours}, PI=math.pi)
    return (
        *((name, float(value).hex()) for name, value in values.items()),
        ("FURTHER_LIST", ",".join(float(one).hex() for one in in_torch.FURTHER)),
        ("PASSES_LIST", ",".join(str(one) for one in in_torch.PASSES)),
        ("CELL_BITS", str(CELL_BITS)),
        ("POINTS", str(POINTS)),
    )


def epsilons_of_objectives(leverage: Any, residual: Any, x_squared: Any, v_squared: Any, delta: float) -> Any:
    """Return epsilon by the kernel where there is one, else by torch; NaN for whom the processor is asked."""
    columns = (leverage, residual, x_squared, v_squared)
    there = usable(leverage, residual) and usable(x_squared, v_squared) and len(leverage) > 0
    if there and agrees("objective_epsilons", leverage, (), lambda: _same(columns, delta)):
        return _by_kernel(columns, delta)
    return in_torch.objective_epsilons_there(leverage, residual, x_squared, v_squared, delta)


def _same(columns: tuple[Any, Any, Any, Any], delta: float) -> bool:
    """Compare the kernel with torch on some people: nearly all agree."""
    mu, r, xx, vv = (one[:LOOKED_AT] for one in columns)
    one, other = _by_kernel((mu, r, xx, vv), delta), in_torch.objective_epsilons_there(mu, r, xx, vv, delta)
    same = ((one - other).abs() <= SAME_EPSILON * other + rounding.PROMISED_ABSOLUTE) | (one.isnan() & other.isnan())
    return bool(same.double().mean() > NEARLY_ALL)


def _by_kernel(columns: tuple[Any, Any, Any, Any], delta: float) -> Any:
    import torch

    first, table = columns[0], shifts_on_device(delta, columns[0].device)
    epsilon = torch.empty_like(first)
    kernel = compiled("objective_epsilons", first.device.index or 0, ("objective_person",), shared_numbers(), 0)
    numbers = (
        np.int64(len(first)),
        table.polynomials.data_ptr(),
        np.int64(table.first_cell),
        np.int64(len(table.polynomials)),
        np.float64(delta),
        np.float64(math.log(delta)),
        np.int32(in_torch.nodes_of(delta)),
    )
    pointers = (*(one.data_ptr() for one in columns), *numbers, epsilon.data_ptr())
    launch(kernel, first, -(-len(first) // THREADS), THREADS, pointers)
    return epsilon
