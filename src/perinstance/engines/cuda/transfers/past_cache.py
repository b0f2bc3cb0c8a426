"""Copies to memory that nobody reads soon.

A processor that writes a line of memory in parts reads it first, and puts out of its caches what was there. Lines that
are written whole, with a hint that they are not needed, go to memory by themselves: twice as many in the same time.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from perinstance.engines.cuda.transfers.compiled_slices import call_address
from perinstance.numerics.numba_compile import kernel

#: bytes of a line of memory
LINE = 64


def _copy_lines(typingctx, target, source, lines):
    """Copy whole lines; ``target`` begins one. Whoever is told of it afterwards sees them: such stores may be late."""

    def lower(context, builder, signature, arguments):
        line = ir.VectorType(ir.IntType(64), LINE // 8).as_pointer()
        into, out_of = (builder.inttoptr(one, line) for one in arguments[:2])
        hint = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        with cgutils.for_range(builder, arguments[2]) as loop:
            value = builder.load(builder.gep(out_of, [loop.index]), align=1)
            store = builder.store(value, builder.gep(into, [loop.index]), align=LINE)
            store.set_metadata("nontemporal", hint)
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), lower


copy_lines: Any = intrinsic(_copy_lines)


@kernel
def copy_past_cache(target, source, size, copy):  # pragma: no cover - compiled
    """Copy some bytes between addresses; ``copy``, that of the library's, does what is no whole line."""
    head = min(-target % LINE, size)
    lines = (size - head) // LINE
    done = head + LINE * lines
    if head > 0:
        call_address(copy, (target, source, head))
    copy_lines(target + head, source + head, lines)
    if done < size:
        call_address(copy, (target + done, source + done, size - done))
