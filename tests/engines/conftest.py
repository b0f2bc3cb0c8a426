"""What tests of engines share."""

from __future__ import annotations

import pytest


@pytest.fixture
def one_torch_thread():
    """Tensors are small here: torch's threads would wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
