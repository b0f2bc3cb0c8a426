"""A leverage that is charged for rounding takes the residual along: a larger leverage alone may cost less."""

from __future__ import annotations

import numpy as np
import pytest

from perinstance.models.linear import open_people, ridge
from perinstance.models.linear.row_statistics import RowMap, RowRounding, row_statistics_of
from perinstance.pairs import PosteriorSamplePair

CHARGE = 1e-3  # of sqrt(mu)
LEVERAGES = np.logspace(0, 6, 400)
RESIDUALS = np.sqrt(LEVERAGES) * np.resize([0.01, 0.3, 1.0, 3.0, 10.0], 400)


def _costs_at_least(mu, rho, least_mu):
    """Whatever the true leverage is, the charged pair must cost as much, at deltas where wide pairs cost less."""
    for delta in (1e-6, 0.3, 0.9, 0.999):
        stated = PosteriorSamplePair(mu, rho).epsilon(delta)
        for share in (0.0, 0.5, 1.0):
            true = PosteriorSamplePair(least_mu + share * (mu - least_mu), RESIDUALS).epsilon(delta)
            assert (stated >= true * (1 - 2e-9) - 1e-12).all()


def test_a_larger_leverage_alone_may_cost_less():
    """Otherwise there would be nothing to test here."""
    narrow, wide = (
        PosteriorSamplePair(mu, RESIDUALS).epsilon(0.9) for mu in (LEVERAGES, LEVERAGES * (1 + CHARGE) ** 2)
    )
    assert (wide < narrow * (1 - 1e-6)).any()


def test_charged_outsiders():
    rounding = RowRounding(CHARGE, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None)
    rows_map = RowMap(np.ones((1, 1)), np.zeros(1), None, False, rounding)
    rows = row_statistics_of(rows_map, np.sqrt(LEVERAGES)[:, None], RESIDUALS, inside=False)
    _costs_at_least(rows.leverage, np.abs(rows.residual), LEVERAGES * (1 - CHARGE) ** 2)


def test_charged_insiders():
    """Both are divided by 1 - m, which carries the charge."""
    rounding = RowRounding(CHARGE, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, None)
    rows_map = RowMap(np.ones((1, 1)), np.zeros(1), None, False, rounding)
    mu = np.linspace(0.5, 15.0, 400)  # beyond, people are refitted
    m = mu / (1 + mu)
    rows = row_statistics_of(rows_map, np.sqrt(m)[:, None], 1 / (1 + mu), inside=True)
    least = m * (1 - CHARGE) ** 2
    assert (np.abs(rows.residual) * (1 - least) >= 1 / (1 + mu)).all()
    assert (np.abs(rows.residual) >= np.sqrt((1 + rows.leverage) * (1 - least)) / ((1 + mu) * (1 - least))).all()


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_charged_answers_of_open_people(monkeypatch, sign):
    low = LEVERAGES * (1 - CHARGE) ** 2
    found = open_people.PeopleBounds(
        np.stack([[low, LEVERAGES], [RESIDUALS, RESIDUALS], np.zeros((2, 400))]),
        np.full(400, sign < 0),
        np.zeros(400, dtype=bool),
    )
    monkeypatch.setattr(open_people, "answered_people", lambda *_: found)

    class Fit:
        precision = None

    answer = ridge.refined(Fit(), None, np.ones((400, 1)), RESIDUALS, inside=False)
    assert (np.sign(answer.residual) == sign).all()
    _costs_at_least(answer.leverage, np.abs(answer.residual), low)
