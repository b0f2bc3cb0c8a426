"""Touching the pages of answers changes none of their numbers, and leaves no page out."""

from __future__ import annotations

import mmap

import numpy as np
import pytest

from perinstance.folds.first_touch import LARGE, Touches, touch


def test_each_large_page_is_touched_once_and_nothing_changes():
    rng = np.random.default_rng(0)
    places = [rng.normal(size=n) for n in (700_000, 3, 700_000)]
    places[0][5], places[2][:3] = np.nan, (np.inf, -0.0, 5e-324)
    before = [place.tobytes() for place in places]
    touches = Touches.of(*places)
    for which, place in enumerate(places):
        starts = np.sort(touches.runs[touches.runs[:, 1] == which, 0])
        pages = {(place.ctypes.data + 8 * int(at)) // LARGE for at in range(0, len(place), 500)}
        assert pages <= {(place.ctypes.data + 8 * int(at)) // LARGE for at in starts}
        assert (starts >= 0).all() and (starts < len(place)).all()
    assert (np.diff(touches.runs[:, 0]) <= LARGE // 8).all()  # from the last rows on, to a page
    assert touches.runs[0, 0] > 500_000 and touches.runs[-1, 0] == 0
    touch(touches)
    assert touches.counter[0] == len(touches.runs) + 1
    assert [place.tobytes() for place in places] == before


def test_touched_pages_are_written_to():
    """A compiler that sees that nothing changes must not leave the writing out: the system counts what it hands out."""
    resource = pytest.importorskip("resource")
    if not hasattr(resource, "RUSAGE_THREAD"):
        pytest.skip("page faults of one thread are not counted here")
    touch(Touches.of(np.zeros(8)))  # compiled
    with mmap.mmap(-1, 16 * LARGE) as fresh:
        place = np.frombuffer(fresh)
        touches = Touches.of(place)
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        touch(touches)
        assert resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before >= 16
        assert not place.any()
        del place, touches
