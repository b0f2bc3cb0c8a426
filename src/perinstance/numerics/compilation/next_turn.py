"""Turns that several threads take, one after the other, from inside compiled code: none waits for the interpreter."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

_WHOLE = ir.IntType(64)


@intrinsic
def next_turn(typingctx: Any, counter: Any) -> Any:
    """Return ``counter[0]`` and add one to it, in one step: no two threads are given the same number."""
    if not (isinstance(counter, types.Array) and counter.dtype == types.int64):
        raise TypingError(f"turns are counted in an array of int64, got {counter}")

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, ir.Constant(_WHOLE, 1), "monotonic")

    return types.int64(counter), lower
