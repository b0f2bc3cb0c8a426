"""The figures of the report, drawn from numbers that are already computed: ``records`` are what they take, and each
figure has a file; ``svg`` is the drawing board. All are laid out for a narrow screen, and grow on a wide one.
"""

from __future__ import annotations

from perinstance.report.charts.attack_curves import attack
from perinstance.report.charts.density_plane import FEW, plane
from perinstance.report.charts.group_bars import groups
from perinstance.report.charts.growth_curves import growth
from perinstance.report.charts.loss_histogram import distribution
from perinstance.report.charts.noise_curves import sweep
from perinstance.report.charts.records import Curve, Dots, GroupRow, LossBar, Marker

__all__ = [
    "FEW",
    "Curve",
    "Dots",
    "GroupRow",
    "LossBar",
    "Marker",
    "attack",
    "distribution",
    "groups",
    "growth",
    "plane",
    "sweep",
]
