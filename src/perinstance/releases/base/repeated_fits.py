"""Fits inside a search or a cross-validation of scikit-learn: each publishes, and together they cost what none says."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from perinstance.errors import ManyReleases


def warn_inside_search(release: object) -> None:
    """Tell the curator that a search is fitting this release: it asks who calls, and nothing of the data."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("sklearn.model_selection"):
            name = type(release).__name__
            warnings.warn(
                f"every fit of {name} publishes: a search or a cross-validation is as many releases about the same "
                "people as it makes fits, and no loss or promise of one fit covers the others; choose parameters on "
                "public data, or split the budget over all fits",
                ManyReleases,
                stacklevel=3,
            )
            return
        frame = frame.f_back
