"""Eight, four or two numbers in one register, for the loops that a compiler does not turn into SIMD code by itself.

They are values inside compiled functions only. They are vectors of LLVM, which maps them to whatever the machine has
(four are two NEON registers or one AVX register, eight are one of AVX-512); products and sums are fused where it can.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import binding, ir
from numba import config
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, register_model

_NUMBER, _INDEX = ir.DoubleType(), ir.IntType(32)
_FUSED = ("contract",)


class _Lanes(types.Type):
    """Some numbers side by side."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.vector = ir.VectorType(_NUMBER, count)
        super().__init__(name=f"Lanes({count})")


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]  # numba states no types
    def __init__(self, manager: Any, kind: _Lanes) -> None:
        super().__init__(manager, kind, kind.vector)


_eight, _four, _two = _Lanes(8), _Lanes(4), _Lanes(2)


@cache
def eight_in_a_register() -> bool:
    """Whether compiled code has registers of eight numbers, and enough of them, here (AVX-512)."""
    name, features = getattr(config, "CPU_NAME", None), getattr(config, "CPU_FEATURES", None)
    if name or features:  # numba was told to compile for another processor than this one
        return "+avx512f" in str(features)
    return bool(binding.get_host_cpu_features().get("avx512f"))


def _order(*lanes: int) -> ir.Constant:
    """Return the lanes that a shuffle picks."""
    return ir.Constant(ir.VectorType(_INDEX, len(lanes)), list(lanes))


def _address(context, builder, signature, arguments) -> Any:
    """Return where entry ``at`` of a one-dimensional, contiguous array lies."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


def _check(array: Any, layouts: str = "C") -> None:
    """Refuse, while compiling, what an address plus an index does not find."""
    if not (
        isinstance(array, types.Array) and array.ndim == 1 and array.layout in layouts and array.dtype == types.float64
    ):
        raise TypingError(f"lanes are read from contiguous, one-dimensional arrays of float64 only, got {array}")


def _load(lanes: Any, vector: ir.Type, layouts: str = "C") -> Any:
    def typed(typingctx, array, at):
        _check(array, layouts)

        def generate(context, builder, signature, arguments):
            address = _address(context, builder, signature, arguments)
            return builder.load(builder.bitcast(address, vector.as_pointer()), align=8)

        return lanes(array, types.intp), generate

    return intrinsic(typed)


def _spaced(lanes: _Lanes) -> Any:
    """Make what returns entries ``at``, ``at + step``, ``at + 2 step``, ... of an array."""

    def typed(typingctx, array, at, step):
        _check(array)

        def generate(context, builder, signature, arguments):
            first, step = _address(context, builder, signature, arguments), arguments[2]
            vector = ir.Constant(lanes.vector, ir.Undefined)
            for lane in range(lanes.count):
                number = builder.load(builder.gep(first, [builder.mul(step, step.type(lane))]))
                vector = builder.insert_element(vector, number, _INDEX(lane))
            return vector

        return lanes(array, types.intp, types.intp), generate

    return intrinsic(typed)


def _four_columns(lanes: _Lanes) -> Any:
    """Make what returns entries ``at + k``, ``at + k + step``, ``at + k + 2 step``, ... for k = 0, 1, 2 and 3."""

    def typed(typingctx, array, at, step):
        _check(array)

        def generate(context, builder, signature, arguments):
            first, step = _address(context, builder, signature, arguments), arguments[2]
            rows = []
            for lane in range(lanes.count):
                row = builder.gep(first, [builder.mul(step, step.type(lane))])
                rows.append(builder.load(builder.bitcast(row, _four.vector.as_pointer()), align=8))
            return context.make_tuple(builder, signature.return_type, _turned(builder, rows))

        return types.UniTuple(lanes, 4)(array, types.intp, types.intp), generate

    return intrinsic(typed)


def _all_columns(lanes: _Lanes, count: int) -> Any:
    """Make what returns the columns of rows of two or three that lie one after the other from ``at`` on."""

    def typed(typingctx, array, at):
        _check(array)

        def generate(context, builder, signature, arguments):
            whole = ir.VectorType(_NUMBER, count * lanes.count)
            address = builder.bitcast(_address(context, builder, signature, arguments), whole.as_pointer())
            rows, nothing = builder.load(address, align=8), ir.Constant(whole, ir.Undefined)
            picked = [_order(*range(k, whole.count, count)) for k in range(count)]
            columns = [builder.shuffle_vector(rows, nothing, some) for some in picked]
            return context.make_tuple(builder, signature.return_type, columns)

        return types.UniTuple(lanes, count)(array, types.intp), generate

    return intrinsic(typed)


def _turned(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of two, four or eight rows of four: two shuffles each, inside of halves of a register."""
    if len(rows) == 2:
        return [builder.shuffle_vector(*rows, _order(k, k + 4)) for k in range(4)]
    if len(rows) == 8:  # rows 0 and 4, 1 and 5, ... side by side
        whole = _order(*range(8))
        rows = [builder.shuffle_vector(rows[k], rows[k + 4], whole) for k in range(4)]
    count = rows[0].type.count
    halves, pairs = range(0, count, 4), []
    for a, b in ((rows[0], rows[1]), (rows[2], rows[3])):
        for k in (0, 1):
            lanes = [
                lane for half in halves for lane in (half + k, half + k + count, half + k + 2, half + k + 2 + count)
            ]
            pairs.append(builder.shuffle_vector(a, b, _order(*lanes)))
    columns = []
    for k in range(4):
        start = k // 2 * 2
        lanes = [half + start + lane for half in halves for lane in (0, 1, count, count + 1)]
        columns.append(builder.shuffle_vector(pairs[k % 2], pairs[2 + k % 2], _order(*lanes)))
    return columns


def _store(lanes: _Lanes) -> Any:
    def typed(typingctx, array, at, value):
        _check(array)

        def generate(context, builder, signature, arguments):
            address = _address(context, builder, signature, arguments)
            builder.store(arguments[2], builder.bitcast(address, lanes.vector.as_pointer()), align=8)
            return context.get_dummy_value()

        return types.none(array, types.intp, lanes), generate

    return intrinsic(typed)


def _zero(lanes: _Lanes) -> Any:
    def typed(typingctx):
        def generate(context, builder, signature, arguments):
            return ir.Constant(lanes.vector, [0.0] * lanes.count)

        return lanes(), generate

    return intrinsic(typed)


def _arithmetic(step: Callable[..., Any], result: Any, *operands: Any) -> Any:
    """Make a function of lanes out of what it does to a builder."""

    def generate(context, builder, signature, arguments):
        return step(builder, *arguments)

    signature = result(*operands)

    def unary(typingctx, a):
        return signature, generate

    def binary(typingctx, a, b):
        return signature, generate

    def ternary(typingctx, a, b, c):
        return signature, generate

    return intrinsic((unary, binary, ternary)[len(operands) - 1])


def _multiply_add(builder, a, b, c):
    return builder.fadd(builder.fmul(a, b, flags=_FUSED), c, flags=_FUSED)


def _always_fused(builder, a, b, c):
    kind = ir.FunctionType(_NUMBER, [_NUMBER] * 3)
    return builder.call(builder.module.declare_intrinsic("llvm.fmuladd", [_NUMBER], kind), [a, b, c])


def _fused(builder, a, b, c):
    """``a b + c``, rounded once, whatever the machine can."""
    name, kind = f"llvm.fma.v{a.type.count}f64", ir.FunctionType(a.type, [a.type] * 3)
    return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), [a, b, c])


def _fused_less(builder, a, b, c):
    """``a b - c``, rounded once."""
    return _fused(builder, a, b, builder.fneg(c))


def _unary(operation: str) -> Callable[..., Any]:
    def step(builder, a):
        name, kind = f"llvm.{operation}.v{a.type.count}f64", ir.FunctionType(a.type, [a.type])
        return builder.call(builder.module.globals.get(name) or ir.Function(builder.module, kind, name), [a])

    return step


def _sums(builder, a, b):
    """``(a0 + a2) + (a1 + a3)``, and the same of b."""
    low, high = _order(0, 1), _order(2, 3)
    a, b = (builder.fadd(builder.shuffle_vector(v, v, low), builder.shuffle_vector(v, v, high)) for v in (a, b))
    return builder.fadd(builder.shuffle_vector(a, b, _order(0, 2)), builder.shuffle_vector(a, b, _order(1, 3)))


def _repeat(lanes: _Lanes) -> Any:
    """Make what returns one entry of an array in all lanes."""

    def typed(typingctx, array, at):
        _check(array)

        def generate(context, builder, signature, arguments):
            number = builder.load(_address(context, builder, signature, arguments))
            nothing = ir.Constant(lanes.vector, ir.Undefined)
            once = builder.insert_element(nothing, number, _INDEX(0))
            return builder.shuffle_vector(once, nothing, _order(*[0] * lanes.count))

        return lanes(array, types.intp), generate

    return intrinsic(typed)


def _eight_sums(typingctx, a, b, c, d, e, f, g, h):
    """Return the sums of eight eights: neighbours are added, then pairs, then halves."""

    def generate(context, builder, signature, vectors):
        for step in (1, 2, 4):
            # lanes whose bit ``step`` is not set, those of v and of w in turn; each is added to the one ``step`` behind
            low = [lane % step + lane // (2 * step) * 2 * step + (8 if lane // step % 2 else 0) for lane in range(8)]
            high = [lane + step for lane in low]
            vectors = [
                builder.fadd(builder.shuffle_vector(v, w, _order(*low)), builder.shuffle_vector(v, w, _order(*high)))
                for v, w in zip(vectors[::2], vectors[1::2], strict=True)
            ]
        return vectors[0]

    return _eight(*[_eight] * 8), generate


def _turned_eights(typingctx, rows):
    """Return the columns of eight rows of eight: neighbours side by side, then pairs, then fours."""

    def generate(context, builder, signature, arguments):
        rows = [builder.extract_value(arguments[0], k) for k in range(8)]
        columns: list[Any] = [None] * 8
        for odd in (0, 1):
            lanes = [lane for k in range(odd, 8, 2) for lane in (k, k + 8)]
            vectors = [builder.shuffle_vector(rows[k], rows[k + 1], _order(*lanes)) for k in range(0, 8, 2)]
            for far in (0, 1):  # of the pairs of two vectors every second one, twice
                picked = _order(*[4 * k + 2 * far + lane for k in range(4) for lane in (0, 1)])
                low, high = (builder.shuffle_vector(vectors[k], vectors[k + 1], picked) for k in (0, 2))
                for half in (0, 1):
                    lanes = [4 * k + 2 * half + lane for k in range(4) for lane in (0, 1)]
                    columns[odd + 2 * far + 4 * half] = builder.shuffle_vector(low, high, _order(*lanes))
        return context.make_tuple(builder, signature.return_type, columns)

    return types.UniTuple(_eight, 8)(types.UniTuple(_eight, 8)), generate


def _two_of_eight(typingctx, array, places):
    """Return the numbers that lie at eight places of an array, and those that lie behind them."""
    _check(array)

    def generate(context, builder, signature, arguments):
        base = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        rows = []
        for k in range(8):
            address = builder.gep(base, [builder.extract_value(arguments[1], k)])
            rows.append(builder.load(builder.bitcast(address, _two.vector.as_pointer()), align=8))
        fours = [builder.shuffle_vector(rows[k], rows[k + 1], _order(0, 1, 2, 3)) for k in range(0, 8, 2)]
        low, high = (builder.shuffle_vector(fours[k], fours[k + 1], _order(*range(8))) for k in (0, 2))
        columns = [builder.shuffle_vector(low, high, _order(*range(k, 16, 2))) for k in (0, 1)]
        return context.make_tuple(builder, signature.return_type, columns)

    return types.UniTuple(_eight, 2)(array, types.UniTuple(types.intp, 8)), generate


def _one_of_eight(typingctx, array, places):
    """Return the numbers that lie at eight places of an array."""
    _check(array)

    def generate(context, builder, signature, arguments):
        base = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        vector = ir.Constant(_eight.vector, ir.Undefined)
        for k in range(8):
            number = builder.load(builder.gep(base, [builder.extract_value(arguments[1], k)]))
            vector = builder.insert_element(vector, number, _INDEX(k))
        return vector

    return _eight(array, types.UniTuple(types.intp, 8)), generate


def _fetch(typingctx, array, at):
    """Ask for the memory around an entry, which may lie outside, to be brought to the second-level cache."""
    _check(array)

    def generate(context, builder, signature, arguments):
        address = _address(context, builder, signature, arguments)
        byte, whole = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, whole, whole, whole])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        builder.call(function, [builder.bitcast(address, byte), whole(0), whole(2), whole(1)])  # read, level, data
        return context.get_dummy_value()

    return types.none(array, types.intp), generate


def _spread(builder, number):
    nothing = ir.Constant(_two.vector, ir.Undefined)
    return builder.shuffle_vector(builder.insert_element(nothing, number, _INDEX(0)), nothing, _order(0, 0))


#: entries ``at``, ``at + 1``, ... of an array; nothing is checked
load8, load4, load2 = _load(_eight, _eight.vector), _load(_four, _four.vector), _load(_two, _two.vector)
#: the numbers that lie ``at``, ``at + 1``, ... behind the first entry of an array in memory, whatever its strides
memory4, memory1 = _load(_four, _four.vector, "CA"), _load(types.float64, _NUMBER, "CA")
#: entries ``at``, ``at + step``, ... of an array: one column of some people who lie one after the other
spaced8, spaced4, spaced2 = _spaced(_eight), _spaced(_four), _spaced(_two)
#: four such columns, beginning with this one
columns8, columns4, columns2 = _four_columns(_eight), _four_columns(_four), _four_columns(_two)
#: all columns of some people who have two, or three
both8, both4, both2 = (_all_columns(v, 2) for v in (_eight, _four, _two))
three8, three4, three2 = (_all_columns(v, 3) for v in (_eight, _four, _two))
store8, store4, store2 = _store(_eight), _store(_four), _store(_two)
zero8, zero4, zero2 = _zero(_eight), _zero(_four), _zero(_two)
repeat8, repeat4, repeat2 = _repeat(_eight), _repeat(_four), _repeat(_two)
add8 = _arithmetic(lambda builder, a, b: builder.fadd(a, b, flags=_FUSED), _eight, _eight, _eight)
absolute8, root8 = (_arithmetic(_unary(name), _eight, _eight) for name in ("fabs", "sqrt"))
multiply8 = _arithmetic(lambda builder, a, b: builder.fmul(a, b, flags=_FUSED), _eight, _eight, _eight)
multiply_add8 = _arithmetic(_multiply_add, _eight, _eight, _eight, _eight)  #: ``a b + c``
sums8: Any = intrinsic(_eight_sums)  #: of eight eights
#: eight eights, turned: the first numbers of all, the second ones, ...
turned8: Any = intrinsic(_turned_eights)
picked8: Any = intrinsic(_one_of_eight)  #: one number at each of eight places of an array
pairs8: Any = intrinsic(_two_of_eight)  #: two at each, turned
multiply4 = _arithmetic(lambda builder, a, b: builder.fmul(a, b, flags=_FUSED), _four, _four, _four)
multiply_add4 = _arithmetic(_multiply_add, _four, _four, _four, _four)  #: ``a b + c``
add2 = _arithmetic(lambda builder, a, b: builder.fadd(a, b, flags=_FUSED), _two, _two, _two)
add4 = _arithmetic(lambda builder, a, b: builder.fadd(a, b, flags=_FUSED), _four, _four, _four)
multiply_add2 = _arithmetic(_multiply_add, _two, _two, _two, _two)
#: ``a b + c`` rounded once, ``a b``, ``a + b``, ``a - b``: for loops that recover what rounding took (``exact_kernel``)
fused8, fused2 = (_arithmetic(_fused, v, v, v, v) for v in (_eight, _two))
fused_less8 = _arithmetic(_fused_less, _eight, _eight, _eight, _eight)  #: ``a b - c``, rounded once
times8, times2 = (_arithmetic(lambda builder, a, b: builder.fmul(a, b), v, v, v) for v in (_eight, _two))
sum8, sum2 = (_arithmetic(lambda builder, a, b: builder.fadd(a, b), v, v, v) for v in (_eight, _two))
less8, less2 = (_arithmetic(lambda builder, a, b: builder.fsub(a, b), v, v, v) for v in (_eight, _two))
#: ``a b + c`` of numbers, fused where the machine can, even if the product itself is wanted too
multiply_add1 = _arithmetic(_always_fused, types.float64, types.float64, types.float64, types.float64)
spread2 = _arithmetic(_spread, _two, types.float64)  #: one number in both lanes
first = _arithmetic(lambda builder, a: builder.extract_element(a, _INDEX(0)), types.float64, _two)
second = _arithmetic(lambda builder, a: builder.extract_element(a, _INDEX(1)), types.float64, _two)
sums2 = _arithmetic(_sums, _two, _four, _four)  #: the sums of two fours
#: read ahead: the line of memory that holds entry ``at`` of an array, or would
fetch: Any = intrinsic(_fetch)
#: the first, the second of two numbers in all four lanes
first4 = _arithmetic(lambda builder, a: builder.shuffle_vector(a, a, _order(0, 0, 0, 0)), _four, _two)
second4 = _arithmetic(lambda builder, a: builder.shuffle_vector(a, a, _order(1, 1, 1, 1)), _four, _two)
