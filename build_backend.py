"""Setuptools, with one more wish for wheels: what the package itself needs, so that its kernels can be compiled there.

An editable install compiles nothing (sources change; ``perinstance warm-up`` does it for an environment), and with
``PERINSTANCE_PURE=1`` neither does a wheel: it then holds Python alone and fits every machine.
"""

from __future__ import annotations

import os
import pathlib

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the hooks that stay as they are

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib


def get_requires_for_build_wheel(config_settings=None):
    """Return what a wheel needs to be built."""
    wanted = build_meta.get_requires_for_build_wheel(config_settings)
    if os.environ.get("PERINSTANCE_PURE", "0") not in ("", "0"):
        return wanted
    project = tomllib.loads(pathlib.Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*wanted, *project["dependencies"]]
