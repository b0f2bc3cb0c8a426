"""Transfers of rows to the device without the interpreter: one compiled call copies and sends slice after slice.

Sixteen threads that come back to the interpreter for every slice wait for its lock longer than a slice takes. CUDA's
functions have other addresses in every process, so compiled code that is kept on disk gets them as arguments.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from perinstance.numerics.numba_compile import kernel

#: CUDA's number for copies from the host to a device
TO_DEVICE = 1

_WHOLE, _ANSWER = ir.IntType(64), ir.IntType(32)


class TransferAddresses(NamedTuple):
    """Where four functions lie in this process: wait for an event, copy, begin a transfer, record an event."""

    wait: int
    copy: int
    send: int
    record: int


@functools.cache
def transfer_addresses(runtime: Any) -> TransferAddresses:
    """Find them, three of them in CUDA's library."""
    found = (
        runtime.cudaEventSynchronize,
        ctypes.CDLL(None).memcpy,
        runtime.cudaMemcpyAsync,
        runtime.cudaEventRecord,
    )
    return TransferAddresses(*(int(ctypes.cast(one, ctypes.c_void_p).value or 0) for one in found))


def _typed(typingctx, address, given):
    """Call a C function of whole numbers and addresses, which go in registers of 64 bits; its answer has 32."""

    def lower(context, builder, signature, arguments):
        values = cgutils.unpack_tuple(builder, arguments[1])
        function = ir.FunctionType(_ANSWER, [_WHOLE] * len(values))
        answer = builder.call(builder.inttoptr(arguments[0], function.as_pointer()), values)
        return builder.sext(answer, _WHOLE)

    return types.intp(types.intp, types.UniTuple(types.intp, len(given))), lower


_call: Any = intrinsic(_typed)


@kernel
def send_slices(source, target, size, piece, buffers, events, stream, calls):
    """Bring ``size`` bytes over, a piece at a time through pinned buffers in turn; returns CUDA's error, else zero.

    ``events``: of each buffer, the one after which it may be written again.
    """
    at, turn = 0, 0
    while at < size:
        part, k = min(piece, size - at), turn % buffers.size
        error = _call(calls.wait, (events[k],))
        if error == 0:
            _call(calls.copy, (buffers[k], source + at, part))
            error = _call(calls.send, (target + at, buffers[k], part, TO_DEVICE, stream))
        if error == 0:
            error = _call(calls.record, (events[k], stream))
        if error != 0:
            return error
        at += part
        turn += 1
    return 0
