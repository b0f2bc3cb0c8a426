r"""Steps of many distances, taken to be steps of the points of their pieces (``distance_pieces.py``), to many digits.

Logarithms of moments are polynomials in log m on a piece, but for a proved remainder, and a person's are sums of them:
``sum_k n_k log A_{m_k}`` is ``sum_j W_j log A_{m_j}`` over the points, ``W_j`` the sum of ``n_k`` times the weight of
the point. Points are the same for everybody, and so are their moments. Weights are computed in balls and rounded to
pairs of floats.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from perinstance.numerics.array_types import Floats
from perinstance.numerics.exact_linear_algebra.ball_precision import working_precision
from perinstance.numerics.rounding import PIECE_LOGS
from perinstance.pairs.loss_sums.sampled.lines.distance_pieces import LOW_ORDERS, DistancePiece, pieces_of
from perinstance.pairs.loss_sums.sampled.more_digits.pair_moments import BITS, in_pairs

#: Points of a piece, and the kinds of steps from which on pieces are looked for.
POINTS, MANY = 40, 96
#: The largest remainder, at the end of a line, at which the powers of a sum are known to some digits.
MOST = 1e-3


@dataclass(frozen=True, slots=True)
class PointSteps:
    """Steps of some kinds: columns of rates, distances, and two floats whose sum is how many; what they leave out.

    ``remainder`` is a bound, at each node of a line, of how far the sum of log moments is off; None if not at all.
    """

    kinds: Floats
    remainder: Floats | None


@dataclass(frozen=True, slots=True)
class ManyDistances:
    """Weights and remainders that were found so far, of so many people and of lines."""

    over: bool
    people: int
    _weights: dict[tuple[DistancePiece, bytes], Floats] = field(default_factory=dict)
    _remainders: dict[tuple[DistancePiece, float, float, int], Floats] = field(default_factory=dict)

    def at_points(self, own: Floats, whole: Any, place: tuple[float, float], nodes: int) -> PointSteps:
        """Return the steps of one person (``of_person``) for the nodes of a line, at points where these serve.

        ``whole`` says whether moments of a rate and a distance lie within the noise.
        """
        rest, parts, remainder = np.ones(own.shape[1], dtype=bool), [], np.zeros(nodes)
        pieces = pieces_of(own[0], own[1], POINTS, self.people, LOW_ORDERS) if own.shape[1] > MANY else []
        while pieces:
            piece, rows = pieces.pop()
            key = (piece, *place, nodes)
            if key not in self._remainders:
                self._remainders[key] = piece.remainders(self.over, *place, nodes, of_logs=True)
            off = own[2, rows].sum() * self._remainders[key]
            if not (off[0] <= PIECE_LOGS and off[-1] <= MOST and whole(piece.rate, piece.high)):
                pieces += [(half, rows[some]) for half, some in piece.halves(own[1, rows], self.people)]
                continue
            parts.append(np.stack([np.full(POINTS, piece.rate), piece.points, *self._summed(piece, own[1:, rows])]))
            remainder += off
            rest[rows] = False
        plain = np.vstack([own[:, rest], np.zeros((1, int(rest.sum())))])
        return PointSteps(np.hstack([plain, *parts]), remainder if parts else None)

    def _summed(self, piece: DistancePiece, own: Floats) -> Floats:
        """Return how often each point is taken for some distances, so many steps each."""
        key = (piece, own.tobytes())
        if key not in self._weights:
            with working_precision(BITS):
                self._weights[key] = np.stack([part.real for part in in_pairs(_weigh(piece, own))])
        return self._weights[key]


def _weigh(piece: DistancePiece, own: Floats) -> list[Any]:
    """Return ``W_j`` in balls."""
    from flint import acb, arb

    middle, half = arb(piece.middle), arb(piece.half)
    points = [(arb(m) / middle).log() / half for m in piece.points.tolist()]
    totals = [arb(0)] * len(points)
    scales = []
    for j, point in enumerate(points):
        product = arb(1)
        for i, other in enumerate(points):
            if i != j:
                product *= point - other
        scales.append(1 / product)
    at = {m: j for j, m in enumerate(piece.points.tolist())}
    for m, steps in own.T.tolist():
        if m in at:
            totals[at[m]] += steps / scales[at[m]]
            continue
        place = (arb(m) / middle).log() / half
        away = [place - point for point in points]
        product = arb(steps)
        for one in away:
            product *= one
        for j, one in enumerate(away):
            totals[j] += product / one
    return [acb(total * scale) for total, scale in zip(totals, scales, strict=True)]
