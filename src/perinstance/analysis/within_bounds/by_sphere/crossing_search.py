"""Nobody moves a smooth fit beyond a sphere: proved on the sphere alone, from the rows of a small table.

Let the weight of somebody who joins grow from 0 to 1. The minimum moves continuously, starting inside; if it ends
beyond the sphere it crosses it, at a place where a slope no larger than their own balances the gradient of the others.
So the sphere is cut into cells (``cells``), the gradient is enclosed on each of them (``gradient_enclosure``), and a
pair of multipliers shows that nobody has such a gradient (``exclusion_multipliers``): what they say is a quadratic on a
part of the sphere (``quadratic_duality``). Cells are first shrunk to the places that anybody's slope leads to,
and halved while nothing is shown. No series is expanded around the fit: it does not matter how far one person moves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.within_bounds.by_sphere.cells import Cells, halved, joined, picked, root_cells, tightened
from perinstance.analysis.within_bounds.by_sphere.exclusion_multipliers import (
    ExclusionMultipliers,
    SlopeRanges,
    cell_middles,
    farthest_multipliers,
    separating_multipliers,
    slope_ranges,
)
from perinstance.analysis.within_bounds.by_sphere.gradient_enclosure import (
    GradientEnclosure,
    ScaledTable,
    enclosed_gradient,
    squares,
)
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ANY_POSITIVE, ENCLOSURE_ERROR, TABLE_SUM, TABLE_SUM_UP, VANISHING_ROOT
from perinstance.numerics.trust_region.quadratic_duality import part_of_sphere

#: numbers in the largest temporary
CHUNK = 1 << 21
#: people worth trying that are handed back
TRIED = 64
#: below this share of what the box moves it, a direction is none: the worst row is inside the ball
INSIDE = 0.25
#: stands for an infinite cost
LARGE = 1e300


@dataclass(frozen=True, slots=True)
class Crossing:
    """The end of a search: whether nobody crosses, what it cost, and rows that may, where it is open."""

    nobody: bool
    work: float
    x: Floats


@dataclass(frozen=True, slots=True)
class TestedCells:
    """What is known of each cell."""

    excess: Floats  #: negative: nobody balances the gradient here
    low: Floats  #: the box, shrunk
    high: Floats
    axis: NDArray[np.intp]  #: to halve
    x: Floats


def work_of(rows: ScaledTable) -> float:
    """Return about how many microseconds one cell costs: a count, so that the same question has the same answer."""
    n, p = rows.Z.shape
    return 60.0 + 8 * p + 0.01 * n * p * p


def nobody_crosses(rows: ScaledTable, rho: float, budget: float) -> Crossing:
    """Search the sphere of radius rho until nothing is open or the budget (see ``work_of``) is spent."""
    cells = root_cells(rows.Z.shape[1], rows.farthest(rho))
    work = 0.0
    while True:
        cells = tightened(cells)
        if not len(cells):
            return Crossing(True, work, np.zeros((0, rows.width)))
        work += len(cells) * work_of(rows)
        size = max(16, CHUNK // rows.Z.size)
        found = [_test(rows, rho, picked(cells, slice(i, i + size))) for i in range(0, len(cells), size)]
        tested = joined(*found)
        left = ~(tested.excess < 0)
        if work > budget and left.any():
            worst = np.argsort(-np.where(left, tested.excess, -np.inf))[: min(TRIED, int(left.sum()))]
            return Crossing(False, work, tested.x[worst])
        cells = halved(picked(replace(cells, low=tested.low, high=tested.high), left), tested.axis[left])


def _test(rows: ScaledTable, rho: float, cells: Cells) -> TestedCells:
    """Shrink the boxes of some cells and look for multipliers; a second choice where the first shows nothing."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        slopes = slope_ranges(rows, cells)
        enclosed = enclosed_gradient(rows, rho, cells)
        low, high = _shrunk(rows, cells, slopes, enclosed)
        at = cell_middles(rows, rho, cells, slopes, enclosed.G)
        first = farthest_multipliers(at, enclosed, rho, cells)
        excess, axis = _excess(rows, rho, cells, slopes, enclosed, first)
        excess = np.where((low > high).any(axis=1) | (slopes.s2 <= 0), -1.0, excess)
        x, again = first.x, np.flatnonzero(~(excess < 0))
        if len(again):
            some, there = picked(cells, again), picked(enclosed, again)
            at = cell_middles(rows, rho, some, picked(slopes, again), there.G)
            second = separating_multipliers(at, picked(first, again))
            x[again] = second.x
            other, other_axis = _excess(rows, rho, some, at.slopes, there, second)
            better = other < excess[again]
            excess[again] = np.where(better, other, excess[again])
            axis[again] = np.where(better, other_axis, axis[again])
    return TestedCells(excess, low, high, axis, x)


def _shrunk(rows: ScaledTable, cells: Cells, slopes: SlopeRanges, enclosed: GradientEnclosure) -> tuple[Floats, Floats]:
    """Leave of each box what ``delta = -B (G + g s K'z + ..)`` allows for any z of the ball and any s of the cell."""
    B, K, d = enclosed.B, rows.K, rows.width
    size = np.abs(np.matmul(rows.Z, B))
    extent = (slopes.s2 * rows.radius)[:, None] * np.linalg.norm(np.matmul(B, K[:d].T), axis=2)
    extent += np.einsum("cj,cjk->ck", enclosed.straight, size)
    middle = -np.einsum("cij,cj->ci", B, enclosed.G)
    if rows.intercept:
        constant = B @ K[d]
        middle -= (cells.sign * slopes.s)[:, None] * constant
        extent += 0.5 * (slopes.s2 - slopes.s1)[:, None] * np.abs(constant)
    # B is not quite the inverse
    extent += np.einsum("cij,cj->ci", np.abs(np.matmul(B, enclosed.M) - np.eye(len(K))), cells.half)
    extent = extent * TABLE_SUM_UP + np.einsum("cij,cj->ci", np.abs(B), enclosed.rounded)
    extent += ENCLOSURE_ERROR * (1 + np.abs(middle))
    c = cells.middle
    low, high = np.fmax(cells.low, c + middle - extent), np.fmin(cells.high, c + middle + extent)
    return low, high


@dataclass(frozen=True, slots=True)
class Terms:
    """``constant + linear'delta + delta'square delta``, one for each cell."""

    constant: Floats
    linear: Floats
    square: Floats


def _excess(
    rows: ScaledTable,
    rho: float,
    cells: Cells,
    slopes: SlopeRanges,
    enclosed: GradientEnclosure,
    multipliers: ExclusionMultipliers,
) -> tuple[Floats, NDArray[np.intp]]:
    """Bound what the multipliers ``a + B delta``, kappa say over each cell; return it and the axis that costs most.

    The right side is convex in s: it is largest at one of the ends.
    """
    a, h = multipliers.a, cells.half
    B = _settled(rows, rho, cells, slopes, enclosed, multipliers)
    on_rows = a @ rows.Z.T
    lost, off = _enclosure_loss(rows, cells, enclosed, on_rows, B)
    left = _left_side(rows, rho, enclosed, a, on_rows, B)
    rounded = np.einsum("ci,ci->c", np.abs(a) + np.einsum("cij,cj->ci", np.abs(B), h), enclosed.rounded)
    ends, cost = [], np.zeros_like(h)
    for s, phi in ((slopes.s1, slopes.phi1), (slopes.s2, slopes.phi2)):
        bound, part_cost = _end(rows, rho, cells, multipliers, B, (s, phi), (left, off))
        ends.append(bound)
        cost = np.maximum(cost, part_cost)
    excess = np.maximum(*ends) + rounded + TABLE_SUM * lost.sum(axis=1)
    rate = np.where(enclosed.extent > 0, lost / np.where(enclosed.extent > 0, enclosed.extent, 1.0), 0.0)
    along = cost + 2 * rho * h * (rate @ np.abs(rows.Z))
    across = _slope_cost(rows, cells, slopes, multipliers, np.abs(ends[0] - ends[1]))
    axis = np.argmax(np.nan_to_num(np.column_stack([along, across]), nan=0.0, posinf=LARGE), axis=1)
    return excess, axis


def _enclosure_loss(
    rows: ScaledTable, cells: Cells, enclosed: GradientEnclosure, on_rows: Floats, B: Floats
) -> tuple[Floats, Terms]:
    """Bound ``sum_j off_j |a'z_j|`` and the cube ``bend_j (z_j'B delta) u_j^2/2``, less its middle; also row by row.

    By ``|v| <= (v^2/t + t)/2`` for any t.
    """
    h, ZB = cells.half, np.matmul(rows.Z, B)
    spread = np.minimum(1 / 3, 1 / np.maximum(np.einsum("ck,ck->c", h, h), VANISHING_ROOT))
    across2 = np.matmul(ZB**2, (spread[:, None] * h**2)[:, :, None])[:, :, 0]
    t, across = np.sqrt(on_rows**2 + across2) + VANISHING_ROOT, np.sqrt(across2) + VANISHING_ROOT
    cube = 0.25 * enclosed.bend * enclosed.extent**2
    lost = enclosed.off * t + np.abs(cube) * across
    constant = 0.5 * (lost.sum(axis=1) + np.einsum("cj,cj->c", enclosed.off / t, on_rows**2))
    linear = np.einsum("cj,cjk->ck", enclosed.off * on_rows / t - cube, ZB)
    weighted = ZB * (0.5 * (enclosed.off / t + np.abs(cube) / across))[:, :, None]
    return lost, Terms(constant, linear, np.matmul(np.swapaxes(ZB, 1, 2), weighted))


def _left_side(
    rows: ScaledTable, rho: float, enclosed: GradientEnclosure, a: Floats, on_rows: Floats, B: Floats
) -> Terms:
    """Return the left side, ``(a + B delta)'K'grad F``, but for what the enclosure loses."""
    M, G = enclosed.M, enclosed.G
    linear = np.einsum("cij,cj->ci", M, a) + np.einsum("cji,cj->ci", B, G)
    BM = np.matmul(np.swapaxes(B, 1, 2), M)
    square = 0.5 * (BM + np.swapaxes(BM, 1, 2)) + squares(rows, 0.5 * rho**2 * on_rows * enclosed.bend)
    return Terms(np.einsum("ci,ci->c", a, G), linear, square)


def _end(
    rows: ScaledTable,
    rho: float,
    cells: Cells,
    multipliers: ExclusionMultipliers,
    B: Floats,
    end: tuple[Floats, Floats],
    sides: tuple[Terms, Terms],
) -> tuple[Floats, Floats]:
    """Bound the right side minus the left at one end (s, phi) of the slopes; return it and what each axis costs.

    ``R|v| <= (R^2 |v|^2/nu + nu)/2`` for every nu.
    """
    (s, phi), (left, off) = end, sides
    c, h, g, d, K = cells.middle, cells.half, cells.sign, rows.width, rows.K
    a, kappa, R = multipliers.a, multipliers.kappa, rows.radius
    theta = rows.theta + rho * c @ K.T
    v = kappa[:, None] * theta - s[:, None] * (a @ K.T)
    V = (rho * kappa)[:, None, None] * K - s[:, None, None] * np.matmul(K, B)
    vx, Vx = v[:, :d], V[:, :d]
    nu = R * np.sqrt(np.einsum("ci,ci->c", vx, vx) + np.einsum("cik,ck->c", Vx**2, h**2)) + ANY_POSITIVE
    f = R**2 / nu
    constant = 0.5 * (f * np.einsum("ci,ci->c", vx, vx) + nu) - kappa * phi - left.constant + off.constant
    linear = f[:, None] * np.einsum("cij,ci->cj", Vx, vx) - left.linear + off.linear
    square = 0.5 * f[:, None, None] * np.matmul(np.swapaxes(Vx, 1, 2), Vx) - left.square + off.square
    if rows.intercept:
        constant = constant + g * v[:, d]
        linear = linear + g[:, None] * V[:, d]
    slack = ENCLOSURE_ERROR * (nu + kappa * np.abs(phi) + np.abs(left.constant) + np.linalg.norm(v, axis=1))
    sound = np.isfinite(constant) & np.isfinite(linear).all(axis=1) & np.isfinite(square).all(axis=(1, 2))
    square, linear = np.where(sound[:, None, None], square, 0.0), np.where(sound[:, None], linear, 0.0)
    part = part_of_sphere(c, h, square, 0.5 * linear, np.where(sound, constant, np.inf))
    return part.bound + slack, part.cost


def _slope_cost(
    rows: ScaledTable, cells: Cells, slopes: SlopeRanges, multipliers: ExclusionMultipliers, jump: Floats
) -> Floats:
    """Return what the width of the range of slopes costs in each cell."""
    bent = multipliers.kappa * np.abs(slopes.phi - 0.5 * (cells.first + cells.last))
    size = rows.radius * np.linalg.norm(multipliers.a @ rows.K[: rows.width].T, axis=1)
    jump = np.maximum(np.where(np.isfinite(jump), jump, 0.0), 0.5 * (slopes.s2 - slopes.s1) * size)
    return np.where(cells.tail, 0.0, 0.5 * jump + np.where(slopes.free, slopes.s * size, 2 * bent))


def _settled(
    rows: ScaledTable,
    rho: float,
    cells: Cells,
    slopes: SlopeRanges,
    enclosed: GradientEnclosure,
    multipliers: ExclusionMultipliers,
) -> Floats:
    """Return B, changed where the worst row lies inside the ball so that ``kappa theta' - s K a`` stays near 0."""
    B, K, d = enclosed.B, rows.K, rows.width
    kappa, s = multipliers.kappa, slopes.s
    theta = rows.theta + rho * cells.middle @ K.T
    v = kappa[:, None] * theta[:, :d] - s[:, None] * (multipliers.a @ K[:d].T)
    V = (rho * kappa)[:, None, None] * K[:d] - s[:, None, None] * np.matmul(K[:d], B)
    moved = np.einsum("cik,ck->c", V**2, cells.half**2)
    inside = (np.einsum("ci,ci->c", v, v) < INSIDE * moved) & (kappa > 0) & (s > 0)
    if not inside.any():
        return B
    KB = np.matmul(K, B[inside])
    KB[:, :d] = (rho * kappa[inside] / s[inside])[:, None, None] * K[:d]
    changed = B.copy()
    changed[inside] = np.linalg.solve(K, KB)
    return changed
