"""Bits are appended, never redrawn; no process or thread shares them with another."""

import os
import subprocess
import sys

import pytest

from perinstance.sampling.random_bits import SystemBits

pytestmark = pytest.mark.system_bits

FORKS = """
import os
from perinstance.sampling import Noisy, draw
draw(Noisy([0.0], 1.0))  # whatever state there is exists before the fork
for _ in range(64):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(draw(Noisy([0.0], 1.0)).integers[0]).encode())
        os._exit(0)
    print(os.read(read, 100).decode())
    os.wait()
    os.close(read); os.close(write)
"""


def test_a_longer_prefix_appends():
    bits = SystemBits()
    lengths = [1, 7, 64, 192, 193, 5000]
    prefixes = [bits.prefix(n) for n in lengths]
    for n, prefix in zip(lengths, prefixes, strict=True):
        assert prefix == prefixes[-1] >> (5000 - n)
        assert bits.prefix(n) == prefix


def test_bits_are_fair():
    bits = SystemBits().prefix(1_000_000)
    assert abs(bits.bit_count() - 500_000) < 5 * 500


def test_repr_shows_no_bit():
    bits = SystemBits()
    bits.prefix(64)
    assert repr(bits) == "SystemBits(64 bits drawn)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_64_forked_draws_differ():
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120, check=True)
    assert len(set(done.stdout.split())) == 64
