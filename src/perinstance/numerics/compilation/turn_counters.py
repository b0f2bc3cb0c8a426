"""Turns that several threads take, one after the other, from inside compiled code: none waits for the interpreter."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

_WHOLE = ir.IntType(64)


def _next_turn(typingctx: Any, counter: Any, at: Any) -> Any:
    if not (isinstance(counter, types.Array) and counter.dtype == types.int64 and counter.layout == "C"):
        raise TypingError(f"turns are counted in a contiguous array of int64, got {counter}")

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.gep(array.data, [arguments[1]])
        return builder.atomic_rmw("add", place, ir.Constant(_WHOLE, 1), "acq_rel")

    return types.int64(counter, types.intp), lower


#: ``next_turn(counter, at)``: return ``counter[at]`` and add one to it, in one step: no two threads are given the same
#: number. Whoever is given one also sees all that those with smaller ones had written before they asked.
next_turn: Any = intrinsic(_next_turn)
