"""Eight lanes at a time: the few vector operations that the row kernels are made of.

LLVM does not vectorise loops as short as a row of factors (it unrolls by 32 and falls back to scalars), so these
say it outright. They are LLVM IR for `<8 x T>`, valid for float32 and float64 on any machine. All matrices are
C-contiguous with rows padded to a multiple of LANES. Measured against plain loops: docs/architecture.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

LANES = 8
#: Rows of a register tile: 4 × LANES sums stay in registers while the cells stream by.
TILE = 4
_FUSE = ("contract",)
_REORDER = ("contract", "reassoc")


class _Emitter:
    """Loads, stores and arithmetic on vectors of one element type, for one function being compiled."""

    def __init__(self, context: Any, builder: Any, element: types.Float) -> None:
        self.context, self.builder = context, builder
        self.scalar = context.get_data_type(element)
        self.vector = ir.VectorType(self.scalar, LANES)
        self.align = context.get_abi_sizeof(self.scalar)
        self.zero = ir.Constant(self.vector, [0.0] * LANES)

    def array(self, kind: types.Array, value: Any) -> tuple[types.Array, Any]:
        return kind, self.context.make_array(kind)(self.context, self.builder, value)

    def address(self, array: tuple[types.Array, Any], *index: Any) -> Any:
        kind, struct = array
        return cgutils.get_item_pointer(self.context, self.builder, kind, struct, list(index), wraparound=False)

    def item(self, array: tuple[types.Array, Any], *index: Any) -> Any:
        return self.builder.load(self.address(array, *index))

    def load(self, array: tuple[types.Array, Any], *index: Any) -> Any:
        pointer = self.builder.bitcast(self.address(array, *index), self.vector.as_pointer())
        return self.builder.load(pointer, align=self.align)

    def store(self, value: Any, array: tuple[types.Array, Any], *index: Any) -> None:
        pointer = self.builder.bitcast(self.address(array, *index), self.vector.as_pointer())
        self.builder.store(value, pointer, align=self.align)

    def plus(self, base: Any, offset: int) -> Any:
        return self.builder.add(base, ir.Constant(base.type, offset))

    def spread(self, value: Any) -> Any:
        """The same scalar in every lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, undefined, lanes)

    def fma(self, a: Any, b: Any, total: Any) -> Any:
        return self.builder.fadd(total, self.builder.fmul(a, b, flags=_FUSE), flags=_FUSE)

    def add_into(self, place: Any, a: Any, b: Any) -> None:
        self.builder.store(self.fma(a, b, self.builder.load(place)), place)

    def total(self, value: Any) -> Any:
        """Sum of the lanes, in one fixed order."""
        while value.type.count > 1:
            half = value.type.count // 2
            index = ir.VectorType(ir.IntType(32), half)
            low = self.builder.shuffle_vector(value, value, ir.Constant(index, list(range(half))))
            high = self.builder.shuffle_vector(value, value, ir.Constant(index, list(range(half, 2 * half))))
            value = self.builder.fadd(low, high)
        return self.builder.extract_element(value, ir.Constant(ir.IntType(32), 0))


def _make_add_tile(rows: int) -> Callable[..., None]:
    @intrinsic
    def add_tile(typingctx, out, k, j, q, at, g, idx, n):
        """out[k+a, j:j+LANES] += Σ_c q[c, at+a] · g[idx[c], j:j+LANES] for every row a of the tile."""
        del typingctx, k, j, at, n
        word = types.intp
        signature = types.void(out, word, word, q, word, g, idx, word)

        def codegen(context, builder, signature, args):
            kinds, (out, k, j, q, at, g, idx, n) = signature.args, args
            emit = _Emitter(context, builder, kinds[5].dtype)
            out, q = emit.array(kinds[0], out), emit.array(kinds[3], q)
            g, idx = emit.array(kinds[5], g), emit.array(kinds[6], idx)
            sums = [cgutils.alloca_once_value(builder, emit.zero) for _ in range(rows)]
            with cgutils.for_range(builder, n, intp=n.type) as loop:
                values = emit.load(g, emit.item(idx, loop.index), j)
                for a in range(rows):
                    emit.add_into(sums[a], emit.spread(emit.item(q, loop.index, emit.plus(at, a))), values)
            for a in range(rows):
                row = emit.plus(k, a)
                emit.store(builder.fadd(emit.load(out, row, j), builder.load(sums[a])), out, row, j)
            return context.get_dummy_value()

        return signature, codegen

    return add_tile


add_tile = _make_add_tile(TILE)
add_row = _make_add_tile(1)


@intrinsic
def scale_row(typingctx, out, c, g, j, w, width):
    """out[c, :width] = w · g[j, :width]."""
    del typingctx, c, j, width
    signature = types.void(out, types.intp, g, types.intp, w, types.intp)

    def codegen(context, builder, signature, args):
        kinds, (out, c, g, j, w, width) = signature.args, args
        emit = _Emitter(context, builder, kinds[2].dtype)
        out, g, spread = emit.array(kinds[0], out), emit.array(kinds[2], g), emit.spread(w)
        with _lanes(builder, width) as k:
            emit.store(builder.fmul(spread, emit.load(g, j, k)), out, c, k)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def predictor(typingctx, own, g, g_var, j):
    """(Σ u p, Σ [(u² + ũ) p̃ + ũ p²]) with own = (u, u² + ũ, ũ) as rows, p = g[j], p̃ = g_var[j]."""
    del typingctx, j
    element = g.dtype
    signature = types.UniTuple(element, 2)(own, g, g_var, types.intp)

    def codegen(context, builder, signature, args):
        kinds, (own, g, g_var, j) = signature.args, args
        emit = _Emitter(context, builder, kinds[1].dtype)
        own, g, g_var = emit.array(kinds[0], own), emit.array(kinds[1], g), emit.array(kinds[2], g_var)
        u, second, spread = (ir.Constant(j.type, row) for row in range(3))
        mean, var = (cgutils.alloca_once_value(builder, emit.zero) for _ in range(2))
        width = builder.extract_value(own[1].shape, 1)
        with _lanes(builder, width) as k:
            p = emit.load(g, j, k)
            emit.add_into(mean, emit.load(own, u, k), p)
            emit.add_into(var, emit.load(own, second, k), emit.load(g_var, j, k))
            emit.add_into(var, builder.fmul(emit.load(own, spread, k), p), p)
        pair = [emit.total(builder.load(mean)), emit.total(builder.load(var))]
        return context.make_tuple(builder, signature.return_type, pair)

    return signature, codegen


def _lanes(builder: Any, width: Any) -> Any:
    """Loop k = 0, LANES, 2·LANES, … below width."""
    zero, step = ir.Constant(width.type, 0), ir.Constant(width.type, LANES)
    return _first(cgutils.for_range_slice(builder, zero, width, step, intp=width.type))


class _first:  # noqa: N801 - a context manager
    """The first value of a context manager that yields a pair."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> Any:
        return self._inner.__enter__()[0]

    def __exit__(self, *exc: object) -> Any:
        return self._inner.__exit__(*exc)
