"""pDP for everyone under output perturbation of a smooth model (logistic, Poisson, ...), by its certificate.

For somebody who joins, q = l'(y, x'theta) x is the gradient she brings, H the Hessian at the fit without her. Over a
slice of ``eta = x'theta`` and all y of the domain: ``|l'|`` is largest at a corner (l' grows with eta, by convexity,
and is monotone in y), and ``x'H^-1x``, ``x'H^-1AH^-1x``, ``x'H^-1AH^-1AH^-1x`` are at most their trust-region maxima
(``slices``). With these the certificate of one person (``models.certificate``) bounds everybody in the slice: each of
its steps grows with them.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from perinstance.analysis.ceilings import shift_ceiling
from perinstance.analysis.slices import Domain, ellipsoid, slices
from perinstance.errors import InvalidInput
from perinstance.models.certificate import Own, Step, bound, turn

Floats = NDArray[np.float64]

CELLS = 512


def is_smooth(release: Any, fit: Any) -> bool:
    """Tell whether this is output perturbation of a smooth model, which has certificates."""
    return type(release).__name__ == "OutputPerturbation" and type(fit).__name__ == "SmoothAudit"


def smooth_ceiling(
    release: Any, fit: Any, delta: float, bounds: Floats, y_bound: float, domain: Literal["ball", "box"]
) -> tuple[float, Floats, Floats]:
    """Return an epsilon for everybody in the domain, and rows and targets of people who come close."""
    model = fit.model
    side, loss = model.outside, model.fit.objective.loss
    if side.ceiling is None or not np.isfinite(loss.concordance):
        raise InvalidInput(
            "everyone() needs the certificates of a smooth model; fit with method='certified' and a loss with "
            "|l'''| <= kappa l'' (logistic, Poisson)"
        )
    theta = np.asarray(model.fit.theta)
    intercept = bool(model.fit.objective.fit_intercept)
    d = len(theta) - int(intercept)
    T, nu = side.around.T, side.around.nu
    region = _region(bounds, d, intercept, domain)
    forms = [slices(region, theta, (T.T * nu**j) @ T) for j in range(3)]
    edges = np.linspace(-1, 1, CELLS + 1)
    low, high = edges[:-1], edges[1:]
    h0, h1, h2 = (np.maximum(form.upper(low, high), 0.0) * (1 + 16 * side.around.error) for form in forms)
    centre, stretch = float(region.x0 @ theta), float(np.linalg.norm(region.T.T @ theta))
    ys = _targets(loss, y_bound)
    ends = [centre + stretch * low - 1e-12, centre + stretch * high + 1e-12]
    slopes = np.array([[loss.derivatives(np.full(CELLS, y), eta)[0] for eta in ends] for y in ys])
    steep = np.abs(slopes).max(axis=(0, 1)) * (1 + 1e-12)

    stray = side.stray
    # where the penalty is an average over people she brings a share of it: q = l' x + share; G^-1 share is no longer
    # than share in each norm but for what her own curvature bends, at most |share| sqrt(nu_d)^j
    own_share = [float(np.sqrt(side.share**2 @ nu**j)) for j in range(3)]
    bent = float(np.linalg.norm(side.share))
    step = Step(
        steep * np.sqrt(h0) + own_share[0] + stray,
        steep * np.sqrt(h1) + own_share[1] + np.sqrt(nu[-1]) * (bent + stray),
        steep * np.sqrt(h2) + own_share[2] + nu[-1] * (bent + stray),
        np.full(CELLS, nu[-1]),
        np.ones(CELLS),
    )
    radii = 0 if side.ceiling.average is None else len(side.ceiling.average.radius)
    own = Own(h0, np.zeros(CELLS), np.full((radii, CELLS), np.inf))  # no averaged bound: her own twist is not known
    with np.errstate(invalid="ignore"):
        distance = bound(step, turn(side.ceiling, step.a, step.inflation, own)) + 2 * np.sqrt(nu[-1]) * stray
    distance = np.where(np.isnan(distance), np.inf, distance) * (1 + 16 * side.around.error)
    epsilon = shift_ceiling(distance / float(release.scale), delta)

    top = np.argsort(-np.where(np.isfinite(epsilon), epsilon, -1.0))[:8]
    sigma = 0.5 * (low[top] + high[top])
    rows = np.concatenate([region.rows(form.maximisers(sigma))[:, :d] for form in forms[:2]])
    if domain == "box":
        rows = np.clip(rows, -bounds, bounds)
    labels = ys if fit.classes is None else np.asarray(fit.classes.labels)
    return float(epsilon.max()), np.repeat(rows, len(labels), axis=0), np.tile(labels, len(rows))


def _region(bounds: Floats, d: int, intercept: bool, domain: str) -> Domain:
    """Return the ball, or the ball-like ellipsoid around the box."""
    if domain == "ball":
        return ellipsoid(np.full(d, float(bounds[0])), intercept)
    return ellipsoid(bounds * np.sqrt(d) * (1 + 1e-15), intercept)


def _targets(loss: Any, y_bound: float) -> Floats:
    """Return the extreme targets: both classes, or the ends of the interval as far as the loss allows them."""
    if loss.binary:
        return np.array([0.0, 1.0])
    ends = np.array([-y_bound, y_bound])
    try:
        loss.check(ends)
    except InvalidInput:
        ends = np.array([0.0, y_bound])
        loss.check(ends)
    return ends
