"""BLAS from inside compiled code, so that a whole loop over pieces runs without the interpreter and its lock.

The library is SciPy's (``scipy.linalg.cython_blas``). Its functions have other addresses in every process, so compiled
code that is kept on disk gets them as arguments (``blas_addresses``). Matrices are the library's: column by column;
``at`` says how many numbers behind the first entry of its array a matrix begins. Nothing is checked.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import get_cython_function_address, intrinsic

_BYTE, _WHOLE, _NUMBER = ir.IntType(8), ir.IntType(64), ir.DoubleType()

PLAIN, TRANSPOSED, UPPER_HALF = ord("N"), ord("T"), ord("U")


class BlasAddresses(NamedTuple):
    """Where three functions of the library lie in this process."""

    dgemm: int
    dgemv: int
    dsyrk: int


@cache
def blas_addresses() -> BlasAddresses:
    """Find them."""
    return BlasAddresses(*(get_cython_function_address("scipy.linalg.cython_blas", f) for f in BlasAddresses._fields))


def _array_of_floats(given: Any) -> Any:
    """Refuse, while compiling, what a library would read as something else."""
    if not (isinstance(given, types.Array) and given.dtype == types.float64):
        raise TypingError(f"a library is given arrays of float64, got {given}")
    return given


def _routine(kinds: str) -> Any:
    """Make what calls a routine of BLAS whose arguments are letters (c), whole numbers (i), numbers (d), arrays (a).

    An array is followed by ``at``. Everything goes by address. Whole numbers have 64 bits; a library that reads 32
    finds them in the lower half, which comes first on all machines that numba knows.
    """
    stored = {"c": _BYTE, "i": _WHOLE, "d": _NUMBER}
    typed_as = {"c": types.intp, "i": types.intp, "d": types.float64}

    def lower(context, builder, signature, arguments):
        values, kinds_of = cgutils.unpack_tuple(builder, arguments[1]), signature.args[1]
        where, place = [], 0
        for kind in kinds:
            value = values[place]
            if kind == "a":
                array = context.make_array(kinds_of[place])(context, builder, value)
                pointer = builder.gep(array.data, [values[place + 1]])
                place += 2
            else:
                pointer = cgutils.alloca_once(builder, stored[kind])
                builder.store(builder.trunc(value, _BYTE) if kind == "c" else value, pointer)
                place += 1
            where.append(pointer)
        function = ir.FunctionType(ir.VoidType(), [pointer.type for pointer in where])
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), where)
        return context.get_dummy_value()

    def typed(typingctx, address, given):
        expected: list[Any] = []
        for kind in kinds:
            expected += [_array_of_floats(given[len(expected)]), types.intp] if kind == "a" else [typed_as[kind]]
        return types.none(types.intp, types.Tuple(expected)), lower

    return intrinsic(typed)


#: ``(transposed?, transposed?, m, n, k, alpha, A, at, lda, B, at, ldb, beta, C, at, ldc)``: ``C = alpha A B + beta C``
dgemm = _routine("cciiidaiaidai")
#: ``(transposed?, m, n, alpha, A, at, lda, x, at, step, beta, y, at, step)``: ``y = alpha A x + beta y``
dgemv = _routine("ciidaiaidai")
#: ``(half, transposed?, n, k, alpha, A, at, lda, beta, C, at, ldc)``: ``C = alpha A A' + beta C``, one half of it
dsyrk = _routine("cciidaidai")
