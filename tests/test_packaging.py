"""What is packaged is what is there."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def test_types_and_stubs_are_shipped():
    """The stubs are read at run time too: a wheel without them could not load a single name."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    shipped = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert "*.pyi" in shipped["*"] and "py.typed" in shipped["perinstance"]
    assert (ROOT / "src" / "perinstance" / "py.typed").exists()


def test_every_public_name_exists():
    import perinstance

    for name in perinstance.__all__:
        assert getattr(perinstance, name) is not None
    with pytest.raises(AttributeError):
        perinstance.nothing  # noqa: B018 - asking is the test
