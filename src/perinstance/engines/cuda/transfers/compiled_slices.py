"""Transfers without the interpreter: one compiled call copies and sends slice after slice, or takes them back.

Sixteen threads that come back to the interpreter for every slice wait for its lock longer than a slice takes. CUDA's
functions have other addresses in every process, so compiled code that is kept on disk gets them as arguments.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from perinstance.numerics.compilation.turn_counters import next_turn
from perinstance.numerics.numba_compile import kernel

#: CUDA's numbers for copies from the host to a device, and back
TO_DEVICE, TO_HOST = 1, 2

_WHOLE, _ANSWER = ir.IntType(64), ir.IntType(32)


class TransferAddresses(NamedTuple):
    """Where some functions lie in this process; all but ``copy`` and ``rest`` are CUDA's."""

    wait: int  #: for an event
    copy: int  #: memory of the host
    send: int  #: begin a transfer
    record: int  #: an event
    follow: int  #: let a stream wait for an event
    rest: int  #: for some microseconds


@functools.cache
def transfer_addresses(runtime: Any) -> TransferAddresses:
    """Find them."""
    found = (
        runtime.cudaEventSynchronize,
        ctypes.CDLL(None).memcpy,
        runtime.cudaMemcpyAsync,
        runtime.cudaEventRecord,
        runtime.cudaStreamWaitEvent,
        ctypes.CDLL(None).usleep,
    )
    return TransferAddresses(*(int(ctypes.cast(one, ctypes.c_void_p).value or 0) for one in found))


def slices_of(transfers: list[tuple[int, int, int]], piece: int) -> NDArray[np.int64]:
    """Cut transfers (from, to, bytes) into such of at most ``piece`` bytes."""
    cut = [
        (start + at, to + at, min(piece, size - at)) for start, to, size in transfers for at in range(0, size, piece)
    ]
    return np.array(cut, dtype=np.int64).reshape(-1, 3)


def _typed(typingctx, address, given):
    """Call a C function of whole numbers and addresses, which go in registers of 64 bits; its answer has 32."""

    def lower(context, builder, signature, arguments):
        values = cgutils.unpack_tuple(builder, arguments[1])
        function = ir.FunctionType(_ANSWER, [_WHOLE] * len(values))
        answer = builder.call(builder.inttoptr(arguments[0], function.as_pointer()), values)
        return builder.sext(answer, _WHOLE)

    return types.intp(types.intp, types.UniTuple(types.intp, len(given))), lower


call_address: Any = intrinsic(_typed)


@kernel
def send_slices(counter, slices, buffers, events, stream, calls):
    """Bring slices over through pinned buffers in turn; returns CUDA's error, else zero.

    Several threads, with buffers of their own, take slices from the same ``counter``. ``events``: of each buffer, the
    one after which it may be written again.
    """
    k, turn = 0, next_turn(counter, 0)
    while turn < len(slices):
        source, target, size = slices[turn, 0], slices[turn, 1], slices[turn, 2]
        error = call_address(calls.wait, (events[k],))
        if error == 0:
            call_address(calls.copy, (buffers[k], source, size))
            error = call_address(calls.send, (target, buffers[k], size, TO_DEVICE, stream))
        if error == 0:
            error = call_address(calls.record, (events[k], stream))
        if error != 0:
            return error
        k, turn = (k + 1) % buffers.size, next_turn(counter, 0)
    return 0


@kernel
def receive_slices(slices, buffers, events, stream, calls):
    """Take slices back through pinned buffers in turn, as many under way as there are; returns CUDA's error, else zero.

    Everything has arrived at the end. ``events``: of each buffer, the one after which it may be read.
    """
    begun = 0
    for turn in range(len(slices)):
        while begun < len(slices) and begun < turn + buffers.size:
            k = begun % buffers.size
            error = call_address(calls.send, (buffers[k], slices[begun, 0], slices[begun, 2], TO_HOST, stream))
            if error == 0:
                error = call_address(calls.record, (events[k], stream))
            if error != 0:
                return error
            begun += 1
        k = turn % buffers.size
        error = call_address(calls.wait, (events[k],))
        if error != 0:
            return error
        call_address(calls.copy, (slices[turn, 1], buffers[k], slices[turn, 2]))
    return 0
