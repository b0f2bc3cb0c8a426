"""Redacted copies: somebody far out, or a few people with a label of their own, cannot be found in them."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perinstance as pi
from perinstance.pairs import GaussianShift, PosteriorSamplePair
from perinstance.report import render
from perinstance.report.redaction import SHARED, grid_up, shared_losses, shared_plane
from perinstance.report.words import loss, number

OUTLIER = 17
RELEASES = {
    "posterior": pi.PosteriorSample(alpha=1.0, gamma=2.0),
    "output": pi.OutputPerturbation(scale=0.3),
    "objective": pi.ObjectivePerturbation(scale=2.0),
    "adassp": pi.AdaSSP(x_bound=40.0, y_bound=90.0),
}


def table(n: int = 900):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 3))
    y = X.sum(axis=1) + rng.normal(size=n)
    X[OUTLIER], y[OUTLIER] = [31.0, -9.0, 17.0], -77.0
    return X, y


def labels(n: int = 900) -> dict[str, list]:
    ward = ["north", "south"] * (n // 2)
    ward[OUTLIER], ward[3] = "solitary ward", None
    sex = ["f" if i % 3 else "m" for i in range(n)]
    return {"ward": ward, "sex": sex}


def numbers_in(page: str) -> list[str]:
    text = re.sub(r"<style>.*?</style>", "", page, flags=re.S)
    return re.findall(r"(?<![\d.])\d[\d,]*\.?\d*(?:e[+-]?\d+)?", text)


@pytest.mark.parametrize(
    ("name", "n"), [("posterior", 50), ("posterior", 900), ("output", 130), ("objective", 130), ("adassp", 130)]
)
def test_somebody_far_out_is_not_in_the_page(name, n):
    X, y = table(n)
    audit = pi.audit(RELEASES[name], X, y, ids=[f"secret-{i}" for i in range(n)])
    top = float(audit.losses[OUTLIER])
    assert name == "adassp" or top == audit.losses.max() > 4 * np.sort(audit.losses)[-2]
    more = {} if name == "adassp" else {"beyond": audit.rows_beyond(10.0, 20.0, X, y)}
    checks = () if name == "adassp" else audit.recheck(X, y)
    page = render(
        audit, redact=True, groups=labels(n), rechecks=checks, rare_features=audit.rare_features(X, y), **more
    )
    assert "secret" not in page and "solitary" not in page and "missing" not in page
    assert "dot at the maximum" not in page and "<circle" not in page
    shown = numbers_in(page)
    for value in (top, audit.leverages[OUTLIER], abs(audit.residuals[OUTLIER]), audit.losses[3]):
        forms = {f"{value:.{digits}g}" for digits in (3, 4, 5, 6)} | {loss(float(value)), number(float(value))}
        assert not {form for form in forms if len(form.replace(".", "").lstrip("0")) > 1} & set(shown)


@pytest.mark.parametrize("kind", ["posterior", "output"])
def test_the_page_does_not_depend_on_how_far_out_somebody_is(kind):
    """All numbers of one person made ten, and a thousand times, as large: not a byte of the page changes."""
    X, y = table()
    audit = pi.audit(RELEASES[kind], X, y)

    def further(factor: float):
        leverages, residuals = audit.leverages.copy(), audit.residuals.copy()
        leverages[OUTLIER] *= factor
        residuals[OUTLIER] *= factor
        if kind == "posterior":
            pairs = PosteriorSamplePair(leverages, np.abs(residuals) * np.sqrt(2.0))
        else:
            distance = audit.pairs.distance.copy()
            distance[OUTLIER] *= factor
            pairs = GaussianShift(distance)
        losses = pairs.epsilon(audit.delta)
        return dataclasses.replace(audit, pairs=pairs, losses=losses, leverages=leverages, residuals=residuals)

    pages = [render(further(factor), redact=True, groups=labels()) for factor in (1.0, 10.0, 1000.0)]
    assert pages[0] == pages[1] == pages[2]
    full = [render(further(factor), groups=labels()) for factor in (1.0, 10.0)]
    assert full[0] != full[1]  # the test can tell


def test_no_chart_has_a_cell_or_a_bar_of_a_few_people():
    X, y = table()
    audit = pi.audit(RELEASES["posterior"], X, y)
    seen = (audit.leverages > 0) & (np.abs(audit.residuals) > 0)
    across, up = audit.leverages[seen], np.abs(audit.residuals[seen])
    cells = shared_plane(across, up)
    assert cells
    for cell in cells:
        inside = (across >= cell.left) & (across < cell.right) & (up >= cell.bottom) & (up < cell.top)
        assert abs(int(inside.sum()) - cell.people) <= 1 and cell.people >= SHARED  # a power of ten may be rounded
    assert max(cell.right for cell in cells) < audit.leverages[OUTLIER]


losses = st.lists(st.one_of(st.floats(1e-9, 1e9), st.just(0.0), st.just(np.inf)), min_size=1, max_size=400)


@given(losses)
@settings(deadline=None)
def test_every_cell_is_shared_and_none_has_the_largest_loss_as_its_end(values):
    found = shared_losses(values)
    assert sum(cell.people for cell in found.cells) == len(values)
    assert found.cells[0].low == 0.0 and found.cells[-1].high == np.inf
    array = np.array(values)
    for cell in found.cells:
        inside = (array > cell.low) | (cell.low == 0)
        inside &= array <= cell.high
        assert int(inside.sum()) == cell.people
        assert cell.people >= SHARED or len(found.cells) == 1
    for below, above in zip(found.cells, found.cells[1:], strict=False):
        assert below.high == above.low


@given(st.floats(1e-12, 1e12))
def test_the_grid_rounds_up(value):
    assert value <= grid_up(value) <= 1.34 * value
    assert grid_up(grid_up(value)) == grid_up(value)


@pytest.mark.parametrize("q", [0.0, 0.3, 0.5, 0.95, 1.0])
def test_a_shared_quantile_is_not_below_the_quantile(q):
    values = np.random.default_rng(1).lognormal(size=777)
    audit_quantile = np.sort(values)[max(int(np.ceil(q * 777)) - 1, 0)]
    assert shared_losses(values).quantile(q).high >= audit_quantile
