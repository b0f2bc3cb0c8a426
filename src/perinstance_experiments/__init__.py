"""The paper's figures and tables, corrected: each a short script on public names only."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

#: what ``perinstance reproduce NAME`` runs, and the script behind it
NAMES = {
    "fig1": "fig1",
    "fig2-left": "fig2_left",
    "fig2-right": "fig2_right",
    "efficiency": "efficiency",
    "covariate-shift": "covariate_shift",
    "participation": "participation",
    "patients": "patients",
    "hidden-path": "hidden_path",
}


def script(name: str) -> Callable[..., list[Path]]:
    """Return ``make(out, quick, quiet) -> files`` of an experiment, loaded when asked for."""
    return importlib.import_module(f"perinstance_experiments.{NAMES[name]}").make
