"""What honest intervals need where the spread of outcomes grows with their mean, asked after AdaSSP's rounds.

At the last estimate a, with residuals ``r_i = y_i - x_i'a`` and weights ``w_i = min(1, (B/||x_i||)^2)`` of long rows,

    q = sum min(r_i^2, c_0^2),    m = sum w_i clip(r_i, c) x_i,    M = sum w_i^2 clip(r_i, c_M)^2 x_i x_i'

are released: the scale ``sigma^2 = q/n`` that chooses the clips, the score, its sampling covariance (the meat). With
the Gram matrix of rows shortened as a whole, ``sum w_i x_i x_i'``, for a slope they make an estimating equation that
assumes a linear mean and nothing of the residuals: weights are functions of x alone (Mallows), and no clip is below six
standard deviations, because one that skewed residuals reach moves the target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from perinstance.inference.clipped_moments import LEAST_SPREAD, MOST_SPREAD
from perinstance.inference.equation import EstimatingEquation, positive_part
from perinstance.numerics.array_types import Floats
from perinstance.numerics.rounding import ROUND_DOWN
from perinstance.releases.base.row_sums import lengths, products
from perinstance.releases.promises.looks import StandardFrame
from perinstance.releases.promises.promise import noise_scale
from perinstance.releases.promises.window import Window
from perinstance.sampling import FixedRows
from perinstance.sampling.fixed_point import shortened

SCALE, SCORE, MEAT = 0.02, 0.1725, 0.0775  # shares of the squared distance
LEFT = 1.0 - (SCALE + SCORE + MEAT)  # for the coefficients
SCALE_CLIP = 0.2  # c_0, in units of the label's half range
LEAST_CLIP = 6.0  # of the score, in standard deviations of residuals; 3 covered .55 of one coefficient of skewed costs
LEAST_MEAT_CLIP = 4.0  # of the meat; it is wider as long as its noise stays below FAINT_MEAT of the meat itself:
FAINT_MEAT = 0.1  # at epsilon = 100, 4 alone left standard errors of skewed residuals 13% too short


@dataclass(frozen=True, slots=True, eq=False)
class Bought:
    """What the stage released, and where it was asked. Public when the window was exact."""

    theta: Floats  #: a, in the coordinates of the Gram matrix
    clip: float
    meat_clip: float
    squares: float
    score: Floats
    meat: Floats

    @property
    def answers(self) -> list[Floats]:
        """What was released, in the order in which it was asked for."""
        return [np.array([self.squares]), self.score, self.meat[np.triu_indices(len(self.meat))]]


@dataclass(frozen=True, slots=True)
class Stage:
    """The distances that the three answers may use: public, before any data."""

    scale_distance: float
    score_distance: float
    meat_distance: float

    @classmethod
    def of(cls, budget: float) -> Stage:
        """Take the stage's shares of a squared distance."""
        return cls(*(budget * math.sqrt(share) * ROUND_DOWN for share in (SCALE, SCORE, MEAT)))

    @property
    def squared_distance(self) -> float:
        """Of all three together."""
        return math.fsum(one**2 for one in (self.scale_distance, self.score_distance, self.meat_distance))

    def ask(self, window: Window, frame: StandardFrame, theta: Floats, trace: float, n: float) -> Bought:
        """Ask for scale, score and meat at ``theta``; rows count as if no longer than the bound of the frame.

        ``trace`` is that of the noisy Gram matrix: clips are as wide as the noise that they cost stays below sampling
        noise, and wide enough for skewed residuals in any case.
        """
        most, bound = SCALE_CLIP**2, frame.x_bound
        noise = noise_scale(most, self.scale_distance)

        def squared(rows: FixedRows) -> Floats:
            return np.minimum(residuals(frame.free_rows(rows), rows.y, theta) ** 2, most)[:, None]

        def summands(rows: FixedRows, clip: float) -> Floats:
            return shortened(weighted(frame.free_rows(rows), rows.y, theta, clip, bound), clip * bound)

        squares = float(window.sums(squared, [noise])[0])
        sigma = math.sqrt(min(max((squares + 2.0 * noise) / n, LEAST_SPREAD), MOST_SPREAD))
        weight = max(trace, 1.0) / len(theta) / bound**2
        clip = min(1.0, sigma * max(LEAST_CLIP, math.sqrt(weight) * self.score_distance))
        meat_clip = min(clip, sigma * max(LEAST_MEAT_CLIP, math.sqrt(FAINT_MEAT * weight * self.meat_distance)))
        noises = [noise_scale(clip * bound, self.score_distance)] * frame.d
        score = window.sums(partial(summands, clip=clip), noises)
        meat_noise = noise_scale((meat_clip * bound) ** 2, self.meat_distance)
        meat = window.outer(partial(summands, clip=meat_clip), meat_noise, twice=True)
        return Bought(theta, clip, meat_clip, squares, score, meat)

    def people_squares(self, X: Floats, y: Floats, bound: float, bought: Bought) -> Floats:
        """Return each person's squared distance at what was drawn."""
        scale = np.minimum(residuals(X, y, bought.theta) ** 2 / SCALE_CLIP**2, 1.0) ** 2
        score = lengths(weighted(X, y, bought.theta, bought.clip, bound)) / (bought.clip * bound)
        meat = lengths(weighted(X, y, bought.theta, bought.meat_clip, bound)) / (bought.meat_clip * bound)
        return (
            scale * self.scale_distance**2
            + np.minimum(score, 1.0) ** 2 * self.score_distance**2
            + np.minimum(meat, 1.0) ** 4 * self.meat_distance**2
        )

    def equation(
        self, bought: Bought, gram: Floats, slope_noise: float, bound: float, population: bool
    ) -> EstimatingEquation:
        """Return the estimating equation; the meat is raised by one standard deviation of its noise."""
        d = len(gram)
        noise = noise_scale(bought.clip * bound, self.score_distance)
        sampling = np.zeros((d, d))
        if population:
            above = noise_scale((bought.meat_clip * bound) ** 2, self.meat_distance)
            sampling = positive_part(bought.meat) + above * np.eye(d)
        return EstimatingEquation(bought.theta, bought.score, gram, noise**2 * np.eye(d), sampling, slope_noise)


def residuals(X: Floats, y: Floats, theta: Floats) -> Floats:
    """Return ``y - x'theta``; what is no number any more (a row beyond all floats) is infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num(y - products(X, theta), nan=math.inf, posinf=math.inf, neginf=-math.inf)


def weighted(X: Floats, y: Floats, theta: Floats, clip: float, bound: float) -> Floats:
    """Return ``w clip(y - x'theta) x`` of each row, ``w = min(1, (bound/||x||)^2)``: no longer than ``clip bound``."""
    with np.errstate(over="ignore", invalid="ignore"):
        shrunk = bound / np.maximum(lengths(X), bound)
        return X * (shrunk * shrunk * np.clip(residuals(X, y, theta), -clip, clip))[:, None]
