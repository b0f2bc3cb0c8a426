"""Compiled code that asks other threads to make the same call, without the interpreter and its lock.

A thread that the interpreter wakes waits for its lock, and reads its code first: with sixteen threads that takes a
millisecond and more until the last one works. Here threads wait inside compiled code (``serve``), on a condition of the
system's. Whoever leads them (``lead``) writes where a function and its arguments lie, wakes all, makes it too and
waits until everybody is done. Arguments lie in the leader's frame, and the arrays in them are the leader's: no other
thread counts references to them.

A thread that sleeps takes some 50 to 200 microseconds to begin, and its core some more to be fast again. Where another
call is to follow soon (``MORE``), who is done gives way to others again and again for a while, and sleeps then.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic
from numpy.typing import NDArray

from perinstance.numerics.compilation.turn_counters import turns_taken
from perinstance.numerics.numba_compile import kernel

_WHOLE, _BYTES, _STATUS = ir.IntType(64), ir.IntType(8).as_pointer(), ir.IntType(32)

#: entries of a mailbox: calls made so far, where the function lies, its arguments, threads, those who are not done yet,
#: those who failed, whether all may go, whether another call is to follow soon
CALLS, FUNCTION, ARGUMENTS, THREADS, LEFT, FAILED, OVER, MORE = range(8)
#: entries where the system's lock and its two conditions lie: there is a call, everybody is done; 128 bytes each
LOCK, BEGUN, DONE = 16, 32, 48
ENTRIES = 64
#: how often who waits gives way to other threads before it sleeps: about two milliseconds, longer where others work
PATIENCE = 5000


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the same arrays without their count of references, also those in tuples: it is the leader's.

    Otherwise all threads would count in the same place, once for every slice of an array: with sixteen of them, and
    512 people at a time, a fifth of a pass was spent on that.
    """
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder, value)
        for part in ("meminfo", "parent"):
            setattr(array, part, ir.Constant(getattr(array, part).type, None))
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        parts: Any = kind
        for k, part in enumerate(parts):
            value = builder.insert_value(value, _borrowed(context, builder, part, builder.extract_value(value, k)), k)
    return value


def _outlined(typingctx: Any, function: Any, arguments: Any) -> Any:
    """Return the address of a function that calls ``function(*arguments)``, and that of the arguments."""
    if not isinstance(function, types.Dispatcher) or not isinstance(arguments, types.BaseTuple):
        raise TypingError(f"a compiled function and a tuple are outlined, got {function} and {arguments}")
    parts: Any = arguments
    called: Any = function.get_call_type(typingctx, tuple(parts), {})

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = signature.args[1]
        kind = context.get_value_type(given)
        place = cgutils.alloca_once_value(builder, values[1])
        compiled = function.dispatcher.overloads[called.args]
        context.active_code_library.add_linking_library(compiled.library)
        name = f"{builder.function.name}.outlined.{compiled.fndesc.mangled_name}"
        outer = ir.Function(builder.module, ir.FunctionType(_STATUS, [_WHOLE]), builder.module.get_unique_name(name))
        outer.linkage = "internal"
        inner = ir.IRBuilder(outer.append_basic_block("entry"))
        taken = _borrowed(context, inner, given, inner.load(inner.inttoptr(outer.args[0], kind.as_pointer())))
        callee = context.declare_function(builder.module, compiled.fndesc)
        parts = [
            context.cast(inner, part, was, wanted)
            for part, was, wanted in zip(cgutils.unpack_tuple(inner, taken), given, called.args, strict=True)
        ]
        status, _ = context.call_conv.call_function(inner, callee, called.return_type, called.args, parts)
        inner.ret(inner.zext(status.is_error, _STATUS))
        both = [builder.ptrtoint(outer, _WHOLE), builder.ptrtoint(place, _WHOLE)]
        return context.make_tuple(builder, signature.return_type, both)

    return types.UniTuple(types.int64, 2)(function, arguments), lower


def _call(typingctx: Any, address: Any, arguments: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = ir.FunctionType(_STATUS, [_WHOLE])
        status = builder.call(builder.inttoptr(values[0], function.as_pointer()), [values[1]])
        return builder.zext(status, _WHOLE)

    return types.int64(types.int64, types.int64), lower


def _of_system(name: str, places: int) -> Any:
    """Make what calls a function of the system with the addresses of entries of a mailbox, then with nothing."""
    nothing = 2 - places if name.endswith("_init") else 0

    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        box = context.make_array(signature.args[0])(context, builder, values[0])
        where = [builder.bitcast(builder.gep(box.data, [at]), _BYTES) for at in values[1:]]
        where += [ir.Constant(_BYTES, None)] * nothing
        kind = ir.FunctionType(_STATUS, [_BYTES] * len(where))
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.sext(builder.call(function, where), _WHOLE)

    def one(typingctx: Any, box: Any, at: Any) -> Any:
        return types.int64(box, types.intp), lower

    def two(typingctx: Any, box: Any, at: Any, other: Any) -> Any:
        return types.int64(box, types.intp, types.intp), lower

    return intrinsic(one if places == 1 else two)


def _yield(typingctx: Any) -> Any:
    def lower(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_STATUS, []), "sched_yield")
        return builder.sext(builder.call(function, []), _WHOLE)

    return types.int64(), lower


outlined: Any = intrinsic(_outlined)
_give_way: Any = intrinsic(_yield)
_made: Any = intrinsic(_call)
_new_lock, _new_condition = _of_system("pthread_mutex_init", 1), _of_system("pthread_cond_init", 1)
_acquire, _release = _of_system("pthread_mutex_lock", 1), _of_system("pthread_mutex_unlock", 1)
_wait, _wake_all = _of_system("pthread_cond_wait", 2), _of_system("pthread_cond_broadcast", 1)


def mailbox(threads: int) -> NDArray[np.int64]:
    """Make one for so many threads."""
    box = np.zeros(ENTRIES, dtype=np.int64)
    box[THREADS] = threads
    if _prepare(box) != 0:
        raise OSError("the system has no more locks for threads that wait in compiled code")
    return box


@kernel
def _prepare(box):  # pragma: no cover - compiled
    return abs(_new_lock(box, LOCK)) + abs(_new_condition(box, BEGUN)) + abs(_new_condition(box, DONE))


@kernel
def serve(box):  # pragma: no cover - compiled
    """Make every call that is led, from the first on, until all may go."""
    seen = more = 0
    while True:
        tries = 0
        while more and tries < PATIENCE and turns_taken(box, CALLS) == seen and turns_taken(box, OVER) == 0:
            tries += 1
            _give_way()
        _acquire(box, LOCK)
        while box[CALLS] == seen and box[OVER] == 0:
            _wait(box, BEGUN, LOCK)
        if box[OVER] != 0:
            break
        seen = box[CALLS]
        function, arguments, more = box[FUNCTION], box[ARGUMENTS], box[MORE]
        _release(box, LOCK)
        failed = _made(function, arguments)
        _acquire(box, LOCK)
        box[FAILED] += failed
        box[LEFT] -= 1
        if box[LEFT] == 0:
            _wake_all(box, DONE)
        _release(box, LOCK)
    _release(box, LOCK)


@kernel
def lead(box, call):  # pragma: no cover - compiled
    """Make an outlined call together with all who serve; return how many failed. One thread at a time leads."""
    _acquire(box, LOCK)
    box[FUNCTION], box[ARGUMENTS] = call
    box[LEFT], box[FAILED] = box[THREADS], 0
    box[CALLS] += 1
    _wake_all(box, BEGUN)
    _release(box, LOCK)
    failed, tries = _made(call[0], call[1]), 0
    while tries < PATIENCE and turns_taken(box, LEFT) > 0:
        tries += 1
        _give_way()
    _acquire(box, LOCK)
    while box[LEFT] > 0:
        _wait(box, DONE, LOCK)
    failed += box[FAILED]
    _release(box, LOCK)
    return failed


@kernel
def let_go(box):  # pragma: no cover - compiled
    """Let all who serve go, once nobody leads them."""
    _acquire(box, LOCK)
    box[OVER] = 1
    _wake_all(box, BEGUN)
    _release(box, LOCK)
