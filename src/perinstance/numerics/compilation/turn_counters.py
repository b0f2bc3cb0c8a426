"""Turns that several threads take, one after the other, from inside compiled code: none waits for the interpreter."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

_WHOLE = ir.IntType(64)


def _checked(counter: Any) -> None:
    if not (isinstance(counter, types.Array) and counter.dtype == types.int64 and counter.layout == "C"):
        raise TypingError(f"turns are counted in a contiguous array of int64, got {counter}")


def _added(context: Any, builder: Any, counter_type: Any, arguments: Any, more: Any) -> Any:
    array = context.make_array(counter_type)(context, builder, arguments[0])
    return builder.atomic_rmw("add", builder.gep(array.data, [arguments[1]]), more, "acq_rel")


def _next_turn(typingctx: Any, counter: Any, at: Any) -> Any:
    _checked(counter)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _added(context, builder, signature.args[0], arguments, ir.Constant(_WHOLE, 1))

    return types.int64(counter, types.intp), lower


def _add_turns(typingctx: Any, counter: Any, at: Any, more: Any) -> Any:
    _checked(counter)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _added(context, builder, signature.args[0], arguments, arguments[2])

    return types.int64(counter, types.intp, types.int64), lower


def _turns_taken(typingctx: Any, counter: Any, at: Any) -> Any:
    _checked(counter)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(builder.gep(array.data, [arguments[1]]), "acquire", 8)

    return types.int64(counter, types.intp), lower


def _touch_number(typingctx: Any, numbers: Any, at: Any) -> Any:
    _checked(numbers)

    def lower(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        zero = ir.Constant(_WHOLE, 0)
        builder.cmpxchg(builder.gep(array.data, [arguments[1]]), zero, zero, "acq_rel", "acquire")
        return context.get_dummy_value()

    return types.none(numbers, types.intp), lower


#: ``next_turn(counter, at)``: return ``counter[at]`` and add one to it, in one step: no two threads are given the same
#: number. Whoever is given one also sees all that those with smaller ones had written before they asked.
next_turn: Any = intrinsic(_next_turn)
#: ``add_turns(counter, at, more)``: the same, of so many at a time; with none it reads what others have added.
add_turns: Any = intrinsic(_add_turns)
#: ``turns_taken(counter, at)``: read ``counter[at]`` anew each time, whoever writes there.
turns_taken: Any = intrinsic(_turns_taken)
#: ``touch_number(numbers, at)``: write ``numbers[at]`` as it is where it is zero, in one step: others may write there.
#: Not ``add_turns`` of nothing: compilers know that it changes nothing, and leave it out.
touch_number: Any = intrinsic(_touch_number)
