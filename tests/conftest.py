"""What every test can lean on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# One thread per worker: the suite runs two workers, and spinning BLAS threads would fight them.
# pytest loads this file before any test imports numpy.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
# A change must not land or fail by luck: the same examples every time there, new ones on everybody's own machine.
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared tables beside the checkout; absent on a stranger's machine."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the shared tables are not beside this checkout")
    return folder
