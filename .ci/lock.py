"""Write requirements-hashed.txt: what perinstance needs to run, pinned as in constraints-py311.txt, with sha256 hashes.

It is for packagers and for the clean room: ``pip install --require-hashes -r requirements-hashed.txt``. Wheels of
CPython 3.11 on every platform that is tested are written down; a source archive never is, so nothing is compiled. The
set-up itself does not use it: one hash among the constraints makes pip refuse the editable install.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLATFORMS = {
    "manylinux_2_28_x86_64": ("manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "manylinux_2_28_aarch64": ("manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "macosx_14_0_arm64": ("macosx_13_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64"),
    "win_amd64": (),
}
ON_WINDOWS = {"colorama": "sys_platform == 'win32'"}  # asked for by click there alone


def report(*arguments: str) -> list[dict[str, Any]]:
    """Return what pip would install, without installing it."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    return json.loads(subprocess.run([*pip, *arguments], check=True, capture_output=True, text=True).stdout)["install"]


def plain(name: str) -> str:
    """Return a name as indices compare it."""
    return name.lower().replace("_", "-")


def main() -> None:
    """Resolve for this machine, then ask for the wheels of every platform."""
    pins = (ROOT / "constraints-py311.txt").read_text().split()
    found = report("-c", str(ROOT / "constraints-py311.txt"), str(ROOT))
    names = {plain(one["metadata"]["name"]) for one in found} - {"perinstance"} | set(ON_WINDOWS)
    pin_of = {plain(pin.split("==")[0]): pin for pin in pins if plain(pin.split("==")[0]) in names}
    wanted = list(pin_of.values())
    hashes: dict[str, set[str]] = {pin: set() for pin in wanted}
    for platform, older in PLATFORMS.items():
        tags = [part for tag in (platform, *older) for part in ("--platform", tag)]
        target = ("--target", "nowhere", "--python-version", "3.11", "--only-binary", ":all:", "--no-deps")
        for one in report(*target, *tags, *wanted):
            hashes[pin_of[plain(one["metadata"]["name"])]].add(one["download_info"]["archive_info"]["hashes"]["sha256"])
    lines = ["# Written by `make lock`, see .ci/lock.py. CPython 3.11; wheels alone."]
    for pin in wanted:
        marker = ON_WINDOWS.get(pin.split("==")[0])
        named = pin + (f" ; {marker}" if marker else "")
        lines.append(" \\\n    ".join([named, *(f"--hash=sha256:{one}" for one in sorted(hashes[pin]))]))
    (ROOT / "requirements-hashed.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
