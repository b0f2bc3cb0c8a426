"""AdaSSP as a mechanism: a look or two, one noisy Gram matrix, then rounds of noisy, clipped residual moments.

    G~ = X'X + E,    m_k = sum_i clip(y_i - x_i'theta_k, c) x_i + noise,    theta_{k+1} = shrink(G~, m_0, ..., m_k)

With one round, theta_0 = 0 and c = 1 it is the classical release of (X'X, X'y), and there is no look. Further rounds
pay: a residual is smaller than a label, so it can be clipped at a fraction of the label's range and needs that much
less noise; and the error of G~ then acts on ``theta - theta_k`` instead of theta. The first look (``promises.looks``)
says where labels lie and how widely, and how long the rows of a box are; the second standardises its columns. Every
estimate is made of all rounds so far (``estimate``).

Rows are ``(x, w)``: ``||x|| <= R`` and a column of ones of weight w, whose square is ``n w^2``. Where n is public or
was looked at, that entry is known and not released again: one person then moves the Gram matrix by
``sqrt(R^4 + 2 w^2 R^2)``, otherwise by ``R^2 + w^2``. Every part is Gaussian with a sensitivity that holds whatever the
others said, so the distances add in quadrature and the promise is exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUND_DOWN, STEP_UP
from perinstance.releases.adassp.robust_stage import LEFT, Bought, Stage
from perinstance.releases.base.row_sums import lengths, products, squared_lengths
from perinstance.releases.promises.declared_box import DeclaredBox
from perinstance.releases.promises.looks import ColumnLook, Look, Opening, StandardFrame, coordinates, opening
from perinstance.releases.promises.promise import Promise, noise_scale, person_distance, row_distance
from perinstance.releases.promises.window import Window
from perinstance.sampling import FixedRows
from perinstance.sampling.fixed_point import shortened

GRAM = 0.3  # share of the squared distance that the looks leave; the rounds have equal parts of the rest
LOOK, LOOK_IN_A_BOX, LOOK_AT_COLUMNS = 0.03, 0.05, 0.08  # shares of the squared distance
FAINT = 0.007  # a round whose noise is below this part of the data's own weight need not clip so hard


@dataclass(frozen=True, slots=True)
class Rounds:
    """What the user declared, and how the budget is spent. All of it is public."""

    box: DeclaredBox
    n_public: int | None
    clip: float | None  #: of residuals, in units of the label's half range; None: from the look
    count: int
    look: Look | None
    column_look: ColumnLook | None  #: of a box
    gram_distance: float
    round_distance: float
    promise: Promise
    stage: Stage | None = None  #: that robust intervals are bought with
    #: rows that are used of a person; the distances are those of one row, and a person's are as many times as large
    rows_per_person: int = 1


@dataclass(frozen=True, slots=True)
class Published:
    """What one run published, and what followed on the way. Public when the window was exact."""

    coef: Floats  #: of rows in units
    gram: Floats
    moments: tuple[Floats, ...]
    totals: Floats  #: of the first look; empty without one
    column_totals: Floats  #: of the second; empty without one, or where the number of people is not believed
    opening: Opening
    frame: StandardFrame  #: the coordinates of Gram matrix and rounds
    clips: tuple[float, ...]  #: of each round, in units of the label's half range
    path: tuple[Floats, ...]  #: the estimate that each round took residuals of, in the frame
    bought: Bought | None = None  #: for robust intervals; None too where the number of people is not believed


def spend(
    epsilon: float,
    delta: float,
    box: DeclaredBox,
    clip: float | None,
    count: int,
    n_public: int | None = None,
    robust: bool = False,
    rows_per_person: int = 1,
    part: float = 1.0,
) -> Rounds:
    """Split the budget, or a part of it: exact Gaussian composition, so squared distances are what is shared out.

    A person's rows move every part by at most as many times what one row moves it by.
    """
    budget = row_distance(epsilon, delta, rows_per_person) * math.sqrt(part)
    look, columns, left, stage = None, None, 1.0, None
    if robust:
        stage, budget = Stage.of(budget), budget * math.sqrt(LEFT) * ROUND_DOWN
    if count > 1:
        intercept, d = bool(box.weight), len(box.columns) if box.boxed else 0
        share = LOOK_IN_A_BOX if box.boxed else LOOK
        look = Look(d, box.radius, intercept, n_public, budget * math.sqrt(share))
        left -= share
        if box.boxed:
            columns = ColumnLook(d, intercept, box.radius, budget * math.sqrt(LOOK_AT_COLUMNS))
            left -= LOOK_AT_COLUMNS
    gram, each = budget * math.sqrt(GRAM * left), budget * math.sqrt((1.0 - GRAM) * left / count) * ROUND_DOWN
    looked = math.fsum(one.distance**2 for one in (look, columns) if one is not None)
    bought = 0.0 if stage is None else stage.squared_distance
    distance = math.sqrt(looked + gram**2 + count * each**2 + bought) * STEP_UP
    promise = Promise(person_distance(distance, rows_per_person))
    return Rounds(box, n_public, clip, count, look, columns, gram, each, promise, stage, rows_per_person)


def run(rounds: Rounds, window: Window) -> Published:
    """Look through the window; the estimate is post-processing of what was seen."""
    totals, found = np.empty(0), Opening(rounds.n_public, 0.0, rounds.clip or 1.0, 1.0, 0.0)
    if rounds.look is not None:
        totals = window.sums(rounds.look.moves, rounds.look.scales())
        found = opening(rounds.look, totals)
    column_totals, frame = np.empty(0), StandardFrame.of_box(rounds.box)
    if rounds.column_look is not None:
        column_totals, frame = coordinates(rounds.column_look, found, window)
        frame = replace(frame, whole=rounds.stage is not None)
    clip = rounds.clip or found.clip
    B, d, ones_known = frame.x_bound, frame.d, frame.knows_ones(found.n)
    gram_scale = noise_scale(frame.gram_sensitivity(ones_known), rounds.gram_distance)
    known = found.n * frame.weight**2 if ones_known and found.n is not None else None
    G = window.outer(frame.clipped_rows, gram_scale, known)
    gram = noisy_gram(G / B**2, gram_scale / B**2)
    theta = np.zeros(d)
    if frame.weight:
        theta[-1] = found.start / frame.weight * B
    wide = widened(rounds, clip, gram.trace, d)
    moments: list[Floats] = []
    done: list[Round] = []
    passed = PASSED if rounds.column_look is None else PASSED_IN_A_FRAME
    for k in range(rounds.count):
        clip_k = wide if k >= rounds.count - 2 else clip
        scale = noise_scale(clip_k * STEP_UP, rounds.round_distance)
        of = partial(_moved, frame=frame, theta=theta / B, clip=clip_k, whole=rounds.column_look is not None)
        moments.append(window.sums(of, [scale * B] * d))
        done.append(Round(theta, moments[-1] / B, clip_k, scale))
        # without a look nothing says that residuals are clipped at all
        theta = posterior_mean(gram, moments[-1] / B, scale) if rounds.look is None else estimate(gram, done, passed)
    clips, path = tuple(one.clip for one in done), tuple(one.theta / B for one in done)
    bought = None
    if rounds.stage is not None and found.n is not None:
        bought = rounds.stage.ask(window, frame, theta / B, float(np.trace(G)), found.n)
    coef = frame.in_units(theta / B, rounds.box.weight)
    return Published(coef, G, tuple(moments), totals, column_totals, found, frame, clips, path, bought)


def _moved(rows: FixedRows, frame: StandardFrame, theta: Floats, clip: float, whole: bool) -> Floats:
    """Return what each person adds to a moment: at most ``clip B`` long, but for one rounding of each product.

    A residual is clipped and multiplied with the row; or, in a box, the product with the ``whole`` row is shortened.
    """
    X = frame.free_rows(rows)
    residual = rows.y - products(X, theta)
    if not whole:
        return X * np.clip(residual, -clip, clip)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        return shortened(np.nan_to_num(X * residual[:, None], nan=0.0), clip * frame.x_bound)


def widened(rounds: Rounds, clip: float, trace: float, d: int) -> float:
    """Return the clip of the last rounds: when there is so much data that noise is faint, bias matters more.

    So the estimate tends to least squares as the data grows, not to the estimate of clipped residuals.
    """
    while clip < 1.0 and d * 2.0 * clip / rounds.round_distance <= FAINT * max(trace, 1.0):
        clip = min(1.0, 2.0 * clip)
    return clip


SUMS = ("totals_", "column_totals_", "gram_", "moments_")  # what a fitted release has of a run


def sums_released(fitted: Any) -> list[Floats]:
    """Return the sums that a fitted release published, in the order in which they were asked for."""
    gram = fitted.gram_[np.triu_indices(len(fitted.gram_))]
    asked = [fitted.totals_, fitted.column_totals_, gram, *fitted.moments_]
    return [one for one in asked if len(one)]


def people_squares(rounds: Rounds, rows: FixedRows, drawn: Published | None) -> Floats:
    """Return each person's squared distance, all parts together: at most, or (``drawn``) at what was drawn.

    The Gram matrix and a moment are what a person moves, in parts of what anybody can move.
    """
    frame = StandardFrame.of_box(rounds.box) if drawn is None else drawn.frame
    ones_known = frame.knows_ones(rounds.n_public if drawn is None else drawn.opening.n)
    free, used, whole = frame.free_rows(rows), frame.clipped_rows(rows), rounds.column_look is not None
    norms2 = squared_lengths(used if frame.whole else used[:, : len(frame.center)])
    gram = frame.gram_squares(norms2, ones_known) / frame.gram_sensitivity(ones_known) ** 2
    looked = np.zeros(len(rows.y))
    if rounds.look is not None:
        looked = squared_lengths(rounds.look.moves(rows) / rounds.look.scales())
    long = lengths(free) / frame.x_bound
    if drawn is not None:
        moved = np.zeros(len(long))
        for theta, clip in zip(drawn.path, drawn.clips, strict=True):
            moved = moved + _round_share(rows.y - products(free, theta), long, clip, whole)
    elif rounds.count == 1:
        moved = _round_share(rows.y, long, rounds.clip or 1.0, False)
    else:
        moved = rounds.count * (np.ones(len(long)) if whole else long**2)
    if rounds.column_look is not None:
        if drawn is None:  # the coordinates are not known before they are drawn
            looked, gram = looked + rounds.column_look.distance**2, np.ones(len(long))
        elif len(drawn.column_totals):
            asked = rounds.column_look.frame(drawn.opening.length)
            looked = looked + squared_lengths(rounds.column_look.moves(rows, asked) / rounds.column_look.scales(asked))
    if rounds.stage is not None and drawn is None:
        looked = looked + rounds.stage.squared_distance
    elif rounds.stage is not None and drawn is not None and drawn.bought is not None:
        looked = looked + rounds.stage.people_squares(free, rows.y, frame.x_bound, drawn.bought)
    squares = looked + gram * rounds.gram_distance**2 + moved * rounds.round_distance**2
    return np.where(rows.present, squares, 0.0) * rows.share**2


def _round_share(residual: Floats, lengths: Floats, clip: float, whole: bool) -> Floats:
    """Return the squared move of one round's moment, in parts of the largest."""
    if whole:
        return np.minimum(np.abs(residual) * lengths / clip, 1.0) ** 2
    return (np.minimum(np.abs(residual) / clip, 1.0) * lengths) ** 2


PASSED, PASSED_IN_A_FRAME = 0.75, 0.9  # p: two thirds of normal residuals lie within one standard deviation;
# in a frame rows are whole in moments and clipped in the Gram matrix, which makes up for part of it
KEPT = 0.6  # weight of a round against the next one


@dataclass(frozen=True, slots=True)
class Round:
    """One released moment, in units where ``B_x = B_y = 1``."""

    theta: Floats  #: the estimate that residuals were taken of
    moment: Floats
    clip: float
    scale: float  #: of the noise


def estimate(gram: NoisyGram, rounds: Sequence[Round], passed: float = PASSED) -> Floats:
    """Return the posterior mean given the rounds; those of a narrower clip than the last one are left out."""
    used = [one for one in rounds if one.clip >= rounds[-1].clip]
    thetas, moments = (np.array([getattr(one, name) for one in used]) for name in ("theta", "moment"))
    scales = np.array([one.scale for one in used]) / passed
    age = np.arange(len(used))[::-1]
    best: Floats = thetas[-1]
    for _ in range(2 if len(used) > 1 else 1):
        far = ((thetas - best) ** 2).sum(axis=1)
        weights = KEPT**age / (scales**2 + 0.5 * gram.scale**2 * far)
        weights /= weights.sum()
        noise = math.sqrt(float(weights**2 @ scales**2))
        best = weights @ thetas + posterior_mean(gram, weights @ moments / passed, noise)
    return best


TAU2 = np.geomspace(0.03, 3.0, 20) ** 2  # squared scale of a coefficient
LOCAL2 = np.array([0.25, 0.5, 1.0, 2.0, 4.0]) ** 2  # squared factors of single directions
LABEL2 = np.array([0.003, 0.03, 0.3])  # residual variance of a label


@dataclass(frozen=True, slots=True)
class NoisyGram:
    """``G~`` in its eigenbasis, eigenvalues denoised."""

    values: Floats  #: (d,) >= 0, rising
    vectors: Floats  #: (d, d) one in each column
    scale: float  #: noise on the diagonal of G~; off the diagonal it is smaller by sqrt(2)
    trace: float  #: of G~: about the number of people when rows have full length


def noisy_gram(G: Floats, scale: float) -> NoisyGram:
    """Diagonalise and denoise.

    The eigenvalues of ``G + E`` repel each other: on average ``u_i'G u_i = w_i - 2 s^2 sum_j 1/(w_i - w_j)``, where s^2
    is the variance off the diagonal of E (Ledoit and Peche; the poles are smoothed over one noise scale). The answer is
    made monotone and non-negative.
    """
    from sklearn.isotonic import isotonic_regression

    w, V = np.linalg.eigh(G)
    gaps = w[:, None] - w[None, :]
    repulsion = (gaps / (gaps**2 + scale**2)).sum(axis=1)
    return NoisyGram(np.maximum(isotonic_regression(w - scale**2 * repulsion), 0.0), V, scale, float(np.trace(G)))


def posterior_mean(gram: NoisyGram, moment: Floats, scale: float) -> Floats:
    """Return the posterior mean of theta with ``G theta = b`` given a moment ``b~`` whose noise has this scale."""
    g, z = gram.values, gram.vectors.T @ moment
    d = len(g)
    profiles = [np.ones(d)] + ([g / g.mean()] if g.mean() > 0 else [])
    log_weights, means = [], []
    for p in profiles:
        # axes: label variance, tau, direction, local factor
        prior = TAU2[:, None, None] * p[:, None] * LOCAL2
        noise = scale**2 + gram.scale**2 * d / 2.0 * TAU2[:, None] + LABEL2[:, None, None] * g
        total = prior * g[:, None] ** 2 + noise[..., None]
        log_local = -0.5 * (np.log(total) + (z**2)[:, None] / total)
        top = log_local.max(axis=-1, keepdims=True)
        local = np.exp(log_local - top)
        mass = local.sum(axis=-1)
        mean = (local * prior * g[:, None] / total).sum(axis=-1) / mass * z
        log_weights.append((np.log(mass) + top[..., 0]).sum(axis=-1).ravel())
        means.append(mean.reshape(-1, d))
    weights = np.concatenate(log_weights)
    weights = np.exp(weights - weights.max())
    return gram.vectors @ (weights @ np.concatenate(means) / weights.sum())
