"""The inner loops of `panels`, written out for vector registers: no compiler finds them by itself.

Each is made of LLVM instructions on vectors of LANES numbers, for whatever processor numba compiles for.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic

# the sums of a tile, and what is added to them, fill the registers: 32 of 16 numbers, or 16 of 8
LANES, ROWS = (16, 8) if "+avx512f" in get_host_cpu_features().split(",") else (8, 6)  # type: ignore[no-untyped-call]
PANEL = 2 * LANES

_FLOAT, _INDEX, _INT = ir.FloatType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_CHOICE = ir.VectorType(_INT, LANES)
_UNSET = ir.Constant(_VECTOR, ir.Undefined)


class _Vectors:
    """Vector instructions at the end of the code that `builder` writes, with `arguments` as the call was typed."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.context, self.builder = context, builder
        self.signature, self.arguments = signature, arguments

    def pointer(self, array: int) -> Any:
        """To the element of the array given as argument number `array` that the argument after it names."""
        view = self.context.make_array(self.signature.args[array])(
            self.context, self.builder, self.arguments[array]
        )
        return self.builder.gep(view.data, [self.arguments[array + 1]])

    def move(self, pointer: Any, distance: Any, times: int = 1) -> Any:
        if isinstance(distance, int):
            return self.builder.gep(pointer, [ir.Constant(_INDEX, distance * times)])
        return self.builder.gep(pointer, [self.builder.mul(distance, ir.Constant(_INDEX, times))])

    def read(self, pointer: Any) -> Any:
        return self.builder.load(self.builder.bitcast(pointer, _VECTOR.as_pointer()), align=4)

    def write(self, vector: Any, pointer: Any) -> None:
        self.builder.store(vector, self.builder.bitcast(pointer, _VECTOR.as_pointer()), align=4)

    def repeat(self, pointer: Any) -> Any:
        """The number there, in every lane."""
        first = self.builder.insert_element(_UNSET, self.builder.load(pointer), ir.Constant(_INT, 0))
        return self.builder.shuffle_vector(first, _UNSET, ir.Constant(_CHOICE, [0] * LANES))

    def sums(self, first: Any) -> list[Any]:
        """Two vectors to add to, which the compiler keeps in registers, as `first` is."""
        both = [cgutils.alloca_once(self.builder, _VECTOR) for _ in range(2)]  # type: ignore[no-untyped-call]
        for total in both:
            self.builder.store(first, total)
        return both

    def add_product(self, one: Any, other: Any, total: Any) -> None:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        multiply_add = self._instruction("fmuladd", kind)  # one instruction where the processor has it
        self.builder.store(self.builder.call(multiply_add, [one, other, self.builder.load(total)]), total)

    def sum(self, vector: Any) -> Any:
        kind = ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR])
        reduce = self._instruction("vector.reduce.fadd", kind)
        return self.builder.call(reduce, [ir.Constant(_FLOAT, 0.0), vector], fastmath=("reassoc",))

    def _instruction(self, name: str, kind: Any) -> Any:
        return cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{name}.v{LANES}f32")  # type: ignore[no-untyped-call]


def _inline_kernel(function: Any) -> Any:
    """A function whose code is written out where compiled code calls it; the compiler passes its first argument."""
    return intrinsic(function)


def _multiply(rows: int) -> Any:
    @_inline_kernel
    def multiply(
        _: Any,
        a: Any,
        a_at: Any,
        a_row: Any,
        a_step: Any,
        a_block: Any,
        b: Any,
        b_at: Any,
        blocks: Any,
        depth: Any,
        start: Any,
        start_at: Any,
        c: Any,
        c_at: Any,
        c_row: Any,
    ) -> Any:
        """Rows [PANEL] of c: c[m] = start[m] + the sum of a[m, block, k] * b[block, k] over all blocks and k < depth.

        a[m, block, k] lies at a_at + m * a_row + block * a_block + k * a_step, c[m] at c_at + m * c_row, and the rows
        [PANEL] of b one after the other from b_at on.
        """
        four, three, two = (types.intp,) * 4, (types.intp,) * 3, (types.intp,) * 2

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            v = _Vectors(context, builder, signature, arguments)
            _, _, a_row, a_step, a_block, _, _, blocks, depth, _, _, _, _, c_row = arguments
            a, b, start, c = v.pointer(0), v.pointer(5), v.pointer(9), v.pointer(11)
            sums = [v.sums(v.repeat(v.move(start, m))) for m in range(rows)]
            with cgutils.for_range(builder, blocks) as outer:
                first = builder.gep(a, [builder.mul(outer.index, a_block)])
                lines = [v.move(first, a_row, m) for m in range(rows)]
                before = builder.mul(outer.index, depth)
                with cgutils.for_range(builder, depth) as inner:
                    line = v.move(b, builder.add(before, inner.index), PANEL)
                    halves = [v.read(line), v.read(v.move(line, LANES))]
                    step = builder.mul(inner.index, a_step)
                    for m in range(rows):
                        factor = v.repeat(builder.gep(lines[m], [step]))
                        for half, total in zip(halves, sums[m], strict=True):
                            v.add_product(factor, half, total)
            for m in range(rows):
                line = v.move(c, c_row, m)
                v.write(builder.load(sums[m][0]), line)
                v.write(builder.load(sums[m][1]), v.move(line, LANES))
            return context.get_dummy_value()

        return types.void(a, *four, b, *three, start, types.intp, c, *two), generate

    return multiply


def _dot(rows: int) -> Any:
    @_inline_kernel
    def dot(
        _: Any,
        a: Any,
        a_at: Any,
        a_block: Any,
        b: Any,
        b_at: Any,
        b_block: Any,
        blocks: Any,
        c: Any,
        c_at: Any,
        c_row: Any,
    ) -> Any:
        """c[c_at + m * c_row] = the sum of a[block, m] * b[block] over all blocks and their PANEL samples.

        a[block, m] is the row [PANEL] at a_at + block * a_block + m * PANEL, b[block] that at b_at + block * b_block.
        """
        three, two = (types.intp,) * 3, (types.intp,) * 2

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            v = _Vectors(context, builder, signature, arguments)
            _, _, a_block, _, _, b_block, blocks, _, _, c_row = arguments
            a, b, c = v.pointer(0), v.pointer(3), v.pointer(7)
            sums = [v.sums(ir.Constant(_VECTOR, [0.0] * LANES)) for _ in range(rows)]
            with cgutils.for_range(builder, blocks) as loop:
                first = builder.gep(a, [builder.mul(loop.index, a_block)])
                line = builder.gep(b, [builder.mul(loop.index, b_block)])
                halves = [v.read(line), v.read(v.move(line, LANES))]
                for m in range(rows):
                    for n in range(2):
                        v.add_product(v.read(v.move(first, m * PANEL + n * LANES)), halves[n], sums[m][n])
            for m in range(rows):
                both = builder.fadd(builder.load(sums[m][0]), builder.load(sums[m][1]))
                builder.store(v.sum(both), v.move(c, c_row, m))
            return context.get_dummy_value()

        return types.void(a, *two, b, *three, c, *two), generate

    return dot


multiply_rows, multiply_one = _multiply(ROWS), _multiply(1)
dot_rows, dot_one = _dot(ROWS), _dot(1)


@_inline_kernel
def turn(
    _: Any, source: Any, source_at: Any, source_row: Any, target: Any, target_at: Any, target_row: Any
) -> Any:
    """Transpose a block of LANES rows of LANES numbers; `source_row` and `target_row` lie from one row to the next."""
    two = (types.intp,) * 2

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        v = _Vectors(context, builder, signature, arguments)
        source, target = v.pointer(0), v.pointer(3)
        rows = [v.read(v.move(source, arguments[2], i)) for i in range(LANES)]
        far = 1
        while far < LANES:  # swap what lies off the diagonal in squares of twice `far`
            lower = [n if not n & far else LANES + n - far for n in range(LANES)]
            upper = [n + far if not n & far else LANES + n for n in range(LANES)]
            for i in (i for i in range(LANES) if not i & far):
                pair = rows[i], rows[i + far]
                rows[i] = builder.shuffle_vector(*pair, ir.Constant(_CHOICE, lower))
                rows[i + far] = builder.shuffle_vector(*pair, ir.Constant(_CHOICE, upper))
            far *= 2
        for i, row in enumerate(rows):
            v.write(row, v.move(target, arguments[5], i))
        return context.get_dummy_value()

    return types.void(source, *two, target, *two), generate
