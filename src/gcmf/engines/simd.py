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
#: Rows of a register tile: up to 4 × 3 vectors of sums stay in registers while the cells stream by.
TILE = 4
_WIDEST = 3
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


def _add_tile(emit: _Emitter, rows: int, vectors: int, args: Any) -> None:
    """out[k+a, j+l] += Σ_{c<n} q[c, at+a] · g[c, start+l] for the rows a and the lanes l of one tile."""
    (out, k, j, q, at, g, start, n), builder = args, emit.builder
    sums = [[cgutils.alloca_once_value(builder, emit.zero) for _ in range(vectors)] for _ in range(rows)]
    with cgutils.for_range(builder, n, intp=n.type) as loop:
        values = [emit.load(g, loop.index, emit.plus(start, v * LANES)) for v in range(vectors)]
        for a in range(rows):
            factor = emit.spread(emit.item(q, loop.index, emit.plus(at, a)))
            for v in range(vectors):
                emit.add_into(sums[a][v], factor, values[v])
    for a in range(rows):
        for v in range(vectors):
            place = out, emit.plus(k, a), emit.plus(j, v * LANES)
            emit.store(builder.fadd(emit.load(*place), builder.load(sums[a][v])), *place)


def _make_add_rows(rows: int) -> Callable[..., None]:
    @intrinsic
    def add_rows(typingctx, out, k, j, end, q, at, g, start, n):
        """out[k:k+rows, j:end] += Σ_{c<n} q[c, at:at+rows]ᵀ g[c, start:…], by tiles of three vectors, then fewer."""
        del typingctx, k, j, end, at, start, n
        word = types.intp
        signature = types.void(out, word, word, word, q, word, g, word, word)

        def codegen(context, builder, signature, args):
            kinds, (out, k, j, end, q, at, g, start, n) = signature.args, args
            emit = _Emitter(context, builder, kinds[6].dtype)
            out, q, g = (emit.array(kinds[a], value) for a, value in ((0, out), (4, q), (6, g)))
            wide = ir.Constant(j.type, _WIDEST * LANES)
            rest = builder.srem(builder.sub(end, j), wide)
            last = builder.sub(end, rest)
            with _first(cgutils.for_range_slice(builder, j, last, wide, intp=j.type)) as at_j:
                at_g = builder.add(start, builder.sub(at_j, j))
                _add_tile(emit, rows, _WIDEST, (out, k, at_j, q, at, g, at_g, n))
            at_g = builder.add(start, builder.sub(last, j))
            for vectors in range(1, _WIDEST):
                fits = builder.icmp_signed("==", rest, ir.Constant(j.type, vectors * LANES))
                with builder.if_then(fits):
                    _add_tile(emit, rows, vectors, (out, k, last, q, at, g, at_g, n))
            return context.get_dummy_value()

        return signature, codegen

    return add_rows


add_four, add_two, add_one = (_make_add_rows(rows) for rows in (TILE, 2, 1))


@intrinsic
def copy_row(typingctx, out, c, g, j, width):
    """out[c, :width] = g[j, :width]."""
    del typingctx, c, j, width
    signature = types.void(out, types.intp, g, types.intp, types.intp)

    def codegen(context, builder, signature, args):
        kinds, (out, c, g, j, width) = signature.args, args
        emit = _Emitter(context, builder, kinds[2].dtype)
        out, g = emit.array(kinds[0], out), emit.array(kinds[2], g)
        with _lanes(builder, width) as k:
            emit.store(emit.load(g, j, k), out, c, k)
        return context.get_dummy_value()

    return signature, codegen


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


def _make_subtract(rows: int) -> Callable[..., None]:
    @intrinsic
    def subtract(typingctx, A, i, k, start, width):
        """A[i, start:width] −= Σ_a A[k+a, i] · A[k+a, start:width] over the given number of rows a.

        start and width are multiples of LANES.
        """
        del typingctx, i, k, start, width
        word = types.intp
        signature = types.void(A, word, word, word, word)

        def codegen(context, builder, signature, args):
            kinds, (A, i, k, start, width) = signature.args, args
            emit = _Emitter(context, builder, kinds[0].dtype)
            A = emit.array(kinds[0], A)
            pivots = [emit.plus(k, a) for a in range(rows)]
            factors = [emit.spread(builder.fneg(emit.item(A, row, i))) for row in pivots]
            step = ir.Constant(width.type, LANES)
            with _first(cgutils.for_range_slice(builder, start, width, step, intp=width.type)) as j:
                value = emit.load(A, i, j)
                for row, factor in zip(pivots, factors, strict=True):
                    value = emit.fma(factor, emit.load(A, row, j), value)
                emit.store(value, A, i, j)
            return context.get_dummy_value()

        return signature, codegen

    return subtract


subtract_one = _make_subtract(1)
subtract_four = _make_subtract(4)


@intrinsic
def predictor(typingctx, own, g, c):
    """(Σ u p, Σ [(u² + ũ) p̃ + ũ p²]) with own = (u, u² + ũ, ũ) as rows and (p, p̃) the two halves of g[c]."""
    del typingctx, c
    element = g.dtype
    signature = types.UniTuple(element, 2)(own, g, types.intp)

    def codegen(context, builder, signature, args):
        kinds, (own, g, c) = signature.args, args
        emit = _Emitter(context, builder, kinds[1].dtype)
        own, g = emit.array(kinds[0], own), emit.array(kinds[1], g)
        u, second, spread = (ir.Constant(c.type, row) for row in range(3))
        mean, var = (cgutils.alloca_once_value(builder, emit.zero) for _ in range(2))
        width = builder.extract_value(own[1].shape, 1)
        with _lanes(builder, width) as k:
            p = emit.load(g, c, k)
            emit.add_into(mean, emit.load(own, u, k), p)
            emit.add_into(var, emit.load(own, second, k), emit.load(g, c, builder.add(k, width)))
            emit.add_into(var, builder.fmul(emit.load(own, spread, k), p), p)
        pair = [emit.total(builder.load(mean)), emit.total(builder.load(var))]
        return context.make_tuple(builder, signature.return_type, pair)

    return signature, codegen


#: exp on [-½ log 2, ½ log 2] as a polynomial (Cephes' float32 coefficients), relative error 2e-7 or less.
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


@intrinsic
def decay(typingctx, t):
    """exp(−t) for t >= 0; in float32 by a polynomial that LLVM can vectorise, else by the library."""
    del typingctx

    def codegen(context, builder, signature, args):
        (t,) = args
        if signature.args[0] == types.float64:
            return builder.call(builder.module.declare_intrinsic("llvm.exp", [t.type]), [builder.fneg(t)])
        real, word = t.type, ir.IntType(32)

        def number(value):
            return ir.Constant(real, value)

        def fma(a, b, c):
            return builder.fadd(builder.fmul(a, b, flags=_FUSE), c, flags=_FUSE)

        floor = builder.module.declare_intrinsic("llvm.floor", [real])
        largest = builder.fcmp_ordered("<", t, number(87.0))
        x = builder.fneg(builder.select(largest, t, number(87.0)))
        n = builder.call(floor, [fma(x, number(1.4426950408889634), number(0.5))])
        r = fma(n, number(-0.693359375), x)
        r = fma(n, number(2.12194440e-4), r)
        y = number(_EXP[0])
        for coefficient in _EXP[1:]:
            y = fma(y, r, number(coefficient))
        y = builder.fadd(fma(y, builder.fmul(r, r), r), number(1.0))
        exponent = builder.shl(builder.add(builder.fptosi(n, word), ir.Constant(word, 127)), ir.Constant(word, 23))
        return builder.fmul(y, builder.bitcast(exponent, real))

    return t(t), codegen


@intrinsic
def pointer(typingctx, address):
    """The address of an array's first item, as `numba.carray` wants it."""
    del typingctx
    return types.voidptr(types.intp), lambda _, builder, __, args: builder.inttoptr(args[0], cgutils.voidptr_t)


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
