"""The bracket of a small table narrowed from above: the smallest sphere around the fit that nobody is seen to cross."""

from __future__ import annotations

import numpy as np

from perinstance.analysis.bounds.refitted_people import Refits, Refitted
from perinstance.analysis.within_bounds.by_sphere.crossing_search import Crossing, nobody_crosses
from perinstance.analysis.within_bounds.by_sphere.curvature_radius import radius_by_curvature
from perinstance.analysis.within_bounds.by_sphere.exact_ascent import refit_ascent
from perinstance.analysis.within_bounds.by_sphere.gradient_enclosure import ScaledTable, scaled_table
from perinstance.analysis.within_bounds.by_sphere.slope_enclosure import has_chords
from perinstance.folds.block import Block
from perinstance.folds.class_labels import CodedSweep
from perinstance.models.smooth.certificates.newton_step_ball import Step, distance_bound, step_ball
from perinstance.models.smooth.movement_bounds import Neighbourhood
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import BOUND_UP, INTO_BALL, UNMEASURED, VANISHING

#: numbers in a table; cells of a larger one cost too much
LARGEST = 1 << 18
#: about how many microseconds are spent on the sphere that is wanted, and on each of those that will do
BUDGET, AFTER = 2e7, 1e6
#: radii that will do, relative to the farthest that anybody was seen to go
RADII = (1.01, 1.02, 1.04, 1.07, 1.12, 1.2, 1.35, 1.6, 2.0, 3.0, 6.0, 20.0, 100.0)
#: pairs of pseudo-random rows to start from
RANDOM = 3
#: how often the search may find somebody who goes farther, and start again
ROUNDS = 3


def sphere_bracket(
    refits: Refits, best: Refitted, upper: float, radius: float, tolerance: float
) -> tuple[Refitted, float]:
    """Return somebody who moves the fit as far as is known, and a bound for all; at least as good as what comes in."""
    rows = _rows(refits, radius)
    if rows is None or not best.distance > 0:
        return best, upper
    # |.| in the coordinates of the rows is the distance that the release counts up to rounding, which is measured
    precision = refits.fit.model.precision
    form = rows.K.T @ (rows.K if precision is None else np.asarray(precision, dtype=np.float64) @ rows.K)
    longer = float(np.sqrt(np.linalg.eigvalsh(0.5 * (form + form.T))[-1])) * BOUND_UP
    inside = _penalty_displacement(refits.fit.model.outside)

    def crossed(ratio: float, budget: float) -> Crossing:
        rho = ratio * best.distance / longer
        return nobody_crosses(rows, rho, budget) if inside < rho else Crossing(False, 0.0, np.zeros((0, rows.width)))

    wanted = 1 + 2 * tolerance
    upper = min(upper, radius_by_curvature(rows, inside) * longer)
    best = _ascended(refits, rows, best, _starts(rows))
    for _ in range(ROUNDS):
        if best.distance * wanted >= upper:
            return best, upper
        found = crossed(wanted, BUDGET)
        if found.nobody:
            return best, best.distance * wanted
        better = _ascended(refits, rows, refits.either(found.x), found.x[:0]) if len(found.x) else best
        if not better.distance > best.distance * (1 + tolerance / 4):
            break
        best = better
    wider = [ratio for ratio in RADII if wanted < ratio and ratio * best.distance < upper]
    low, high = 0, len(wider)
    while low < high:
        middle = (low + high) // 2
        if crossed(wider[middle], AFTER).nobody:
            high = middle
        else:
            low = middle + 1
    return best, best.distance * wider[low] if low < len(wider) else max(upper, best.distance)


def _starts(rows: ScaledTable) -> Floats:
    """Return rows to start from: along the softest directions and a few fixed pseudo-random ones."""
    d = rows.width
    directions = [*rows.K[:d, :2].T, *np.random.default_rng(d).standard_normal((RANDOM, d))]
    x = np.array([sign * x for x in directions for sign in (1.0, -1.0)])
    return x * (rows.radius * INTO_BALL / np.maximum(np.linalg.norm(x, axis=1), VANISHING))[:, None]


def _ascended(refits: Refits, rows: ScaledTable, start: Refitted, others: Floats) -> Refitted:
    """Return who moves the fit farthest: the start, the end of its ascent, or the ends of the ascents from others."""
    labels, targets = refits.labels, refits.targets
    starts = [
        (start.x, int(np.argmin(np.abs(labels - start.y)))),
        *((x, i) for x in others for i in range(len(labels))),
    ]
    try:
        x = np.array([refit_ascent(rows, x, float(targets[i])) for x, i in starts])
    except np.linalg.LinAlgError:
        return start
    end = refits.best(x, np.array([labels[i] for _, i in starts]))
    return end if end.distance > start.distance else start


def _rows(refits: Refits, radius: float) -> ScaledTable | None:
    """Keep the rows of a small table; None where it is large, or where slopes cannot be enclosed."""
    fit, sweep = refits.fit, refits.sweep
    here, around = fit.model.fit, fit.model.outside.around
    quadratic = here.objective.penalty.concordance == 0
    flat = not around.nu[0] > UNMEASURED * around.nu[-1]
    if not (has_chords(here.objective.loss) and quadratic and around.condition < 1e8) or flat:
        return None
    if here.n * len(here.theta) > LARGEST:
        return None
    coded = sweep if fit.classes is None else CodedSweep(sweep, fit.classes)
    blocks = list(coded.map(_block))
    X, y = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    return scaled_table(fit, X, y, radius, refits.targets)


def _block(block: Block) -> tuple[Floats, Floats]:
    X, y = block.X, block.y
    return np.array(X, dtype=np.float64), np.array(y, dtype=np.float64)


def _penalty_displacement(side: Neighbourhood) -> float:
    """Bound how far the share of a penalty that everybody brings moves the fit: where the paths of all people start."""
    nu, top = side.around.nu, float(side.around.nu[-1])
    share = [float(np.sqrt(side.share**2 @ nu**j)) + top ** (j / 2) * side.gradient_bound for j in range(3)]
    step = Step(*(np.array([value]) for value in (*share, top, 1.0)))
    assert side.hessian_bounds is not None
    found = (
        distance_bound(step, step_ball(side.hessian_bounds, step.a, step.inflation, None))[0]
        + 2 * np.sqrt(top) * side.gradient_bound
    )
    return float(found) if np.isfinite(found) else np.inf
