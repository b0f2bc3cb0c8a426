"""What every test can lean on."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

# One thread per worker: the suite runs two workers, and spinning BLAS threads would fight them.
# pytest loads this file before any test imports numpy.
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
# A change must not land or fail by luck: the same examples every time there, new ones on everybody's own machine.
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
LANDS = bool(os.environ.get("CI"))
settings.load_profile("ci" if LANDS else "default")


@contextmanager
def bits_from(name: str) -> Iterator[None]:
    """Draw from a stream that this name fixes, not from the operating system."""
    from perinstance.releases.descent import clipped_steps
    from perinstance.sampling import known_answers, random_bits

    known_answers.self_test()  # draws once in a process: before, so that the stream is the same whoever ran before
    stream = random.Random(name)
    bits = SimpleNamespace(randbits=stream.getrandbits, token_bytes=stream.randbytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_bits, "secrets", bits)
        patch.setattr(clipped_steps, "secrets", bits)
        yield


@pytest.fixture
def fixed_noise(request):
    """Draw from a stream that the name of the test fixes.

    For what can be checked up to chance only (a law, a scale, that no planted number is met): a right sampler then
    passes always or never, and a wrong one is seen as well as before. That the system's bits are fair, and others each
    time, is for ``tests/sampling/test_bits.py``.
    """
    with bits_from(request.node.nodeid):
        yield


@pytest.fixture(autouse=True)
def no_luck_where_a_change_lands(request):
    """Fix every test's noise there, as the examples of hypothesis are; the system's bits on everybody's own machine."""
    if LANDS and not request.node.get_closest_marker("system_bits"):
        request.getfixturevalue("fixed_noise")


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef, request):
    """Fix the noise of what tests share as well: which of them asks first is luck."""
    if not LANDS or fixturedef.scope == "function":
        yield
        return
    with bits_from(f"{fixturedef.baseid}::{fixturedef.argname}[{getattr(request, 'param', None)!r}]"):
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared tables beside the checkout; absent on a stranger's machine."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip("the shared tables are not beside this checkout")
    return folder
