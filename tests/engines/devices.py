"""Where torch computes in these tests: on the processor everywhere, and on a GPU where there is one (else a notice)."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the optional extra 'cuda' is not installed")

GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here"))
DEVICES = pytest.mark.parametrize("device", ["cpu", GPU])
DELTA = 1e-6
