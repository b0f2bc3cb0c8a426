"""A table in memory as compiled code reads it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perinstance.numerics.array_types import Floats


@dataclass(frozen=True, slots=True)
class WholeTable:
    """A table in memory: ``X`` and ``y`` are float64, C-contiguous and aligned."""

    X: Floats
    y: Floats
    blocks: NDArray[np.int64]  #: the first row of each block, and the number of rows


def as_compiled_code_reads(array: NDArray) -> bool:
    """Whether the numbers are float64, one after the other."""
    return array.dtype == np.float64 and array.flags.c_contiguous and array.flags.aligned
