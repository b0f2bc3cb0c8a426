from __future__ import annotations

import numpy as np
import pytest

import perinstance as pi


def small_audit(n: int = 60, d: int = 4, ids: list[str] | None = None, release=None):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, d))
    y = X @ np.arange(1, d + 1) + rng.normal(size=n)
    return pi.audit(release or pi.PosteriorSample(alpha=1.0, gamma=0.3), X, y, delta=1e-5, ids=ids)


@pytest.fixture(scope="session")
def audit():
    return small_audit()


@pytest.fixture(scope="session")
def page(audit, tmp_path_factory):
    """A written report with every section filled."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    groups = ["ward A"] * 40 + ["ward B"] * 20
    audit.to_html(path, groups=groups, dp=11.0, everyone=4.0)
    return path
