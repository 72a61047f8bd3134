"""Eight lanes at a time: the few vector operations that the row kernels are made of.

LLVM does not vectorise loops as short as a row of factors (it unrolls by 32 and falls back to scalars), so these
say it outright. They are LLVM IR for `<8 x T>`, valid for float32 and float64 on any machine. All matrices are
C-contiguous with rows padded to a multiple of LANES.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

if TYPE_CHECKING:
    from collections.abc import Callable

LANES = 8
#: Columns of a register tile, in vectors: 4 × 3 vectors of sums stay in registers while the cells stream by.
_WIDEST = 3
_FUSE = ("contract",)
_WORD = ir.IntType(64)


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

    def add_to(self, value: Any, array: tuple[types.Array, Any], *index: Any) -> None:
        self.store(self.builder.fadd(self.load(array, *index), value), array, *index)

    def plus(self, base: Any, offset: int) -> Any:
        return self.builder.add(base, ir.Constant(base.type, offset))

    def spread(self, value: Any) -> Any:
        """The same scalar in every lane."""
        undefined = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self.builder.shuffle_vector(one, undefined, lanes)

    def widen(self, narrow: _Emitter, value: Any) -> Any:
        """A vector of another precision, at most this one's, in this one's."""
        return value if narrow.scalar == self.scalar else self.builder.fpext(value, self.vector)

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
    """out[k+a, j+l] += Σ_{c<n} q[at[c], k+a] · g[idx[c], j+l] for the rows a and the lanes l of one tile."""
    (out, k, j, q, at, g, idx, n), builder = args, emit.builder
    sums = [[cgutils.alloca_once_value(builder, emit.zero) for _ in range(vectors)] for _ in range(rows)]
    with cgutils.for_range(builder, n, intp=n.type) as loop:
        mine, other = emit.item(at, loop.index), emit.item(idx, loop.index)
        values = [emit.load(g, other, emit.plus(j, v * LANES)) for v in range(vectors)]
        for a in range(rows):
            factor = emit.spread(emit.item(q, mine, emit.plus(k, a)))
            for v in range(vectors):
                emit.add_into(sums[a][v], factor, values[v])
    for a in range(rows):
        for v in range(vectors):
            emit.add_to(builder.load(sums[a][v]), out, emit.plus(k, a), emit.plus(j, v * LANES))


@intrinsic
def add_products(typingctx, out, k, end, q, at, g, idx, n):
    """out[k:k+8, k:end] += Σ_{c<n} q[at[c], k:k+8]ᵀ g[idx[c], k:end], by tiles of at most twelve vectors."""
    del typingctx, k, end, n
    signature = types.void(out, types.intp, types.intp, q, at, g, idx, types.intp)

    def codegen(context, builder, signature, args):
        kinds, (out, k, end, q, at, g, idx, n) = signature.args, args
        emit = _Emitter(context, builder, kinds[5].dtype)
        out, q, at, g, idx = (emit.array(kinds[i], args[i]) for i in (0, 3, 4, 5, 6))

        def tiles(j: Any, vectors: int) -> None:
            # Eight sums at least are under way at a time, or each would wait for the one before.
            rows = 4 if vectors > 1 else LANES
            for first in range(0, LANES, rows):
                _add_tile(emit, rows, vectors, (out, emit.plus(k, first), j, q, at, g, idx, n))

        _by_columns(builder, k, end, tiles)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_sums(typingctx, out, k, target, weight, g, idx, n):
    """out[k:k+3] += Σ_{c<n} (target[c] p, weight[c] p, weight[c] p̃) with (p, p̃) the two halves of g[idx[c]]."""
    del typingctx, k, n
    signature = types.void(out, types.intp, target, weight, g, idx, types.intp)

    def codegen(context, builder, signature, args):
        kinds, (out, k, target, weight, g, idx, n) = signature.args, args
        emit = _Emitter(context, builder, kinds[4].dtype)
        out, target, weight, g, idx = (emit.array(kinds[i], args[i]) for i in (0, 2, 3, 4, 5))
        width = builder.extract_value(out[1].shape, 1)

        def tiles(j: Any, vectors: int) -> None:
            sums = [[cgutils.alloca_once_value(builder, emit.zero) for _ in range(vectors)] for _ in range(3)]
            with cgutils.for_range(builder, n, intp=n.type) as loop:
                other = emit.item(idx, loop.index)
                wt, w = (emit.spread(emit.item(a, loop.index)) for a in (target, weight))
                for v in range(vectors):
                    at = emit.plus(j, v * LANES)
                    mean, var = emit.load(g, other, at), emit.load(g, other, builder.add(at, width))
                    for row, (factor, value) in zip(sums, ((wt, mean), (w, mean), (w, var)), strict=True):
                        emit.add_into(row[v], factor, value)
            for a in range(3):
                for v in range(vectors):
                    emit.add_to(builder.load(sums[a][v]), out, emit.plus(k, a), emit.plus(j, v * LANES))

        _by_columns(builder, ir.Constant(n.type, 0), width, tiles)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def add_row(typingctx, out, i, S, k, factor, start, width):
    """out[i, start:width] += factor · S[k, start:width]; start and width are multiples of LANES."""
    del typingctx, i, k, start, width
    word = types.intp
    signature = types.void(out, word, S, word, factor, word, word)

    def codegen(context, builder, signature, args):
        kinds, (out, i, S, k, factor, start, width) = signature.args, args
        emit = _Emitter(context, builder, kinds[2].dtype)
        out, S, factor = emit.array(kinds[0], out), emit.array(kinds[2], S), emit.spread(factor)
        with _lanes(builder, start, width) as j:
            emit.store(emit.fma(factor, emit.load(S, k, j), emit.load(out, i, j)), out, i, j)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def move_row(typingctx, out, k, S, factor, start, width):
    """out[k, start:width] += factor · S[k, start:width], of which zeros are left; S may be of lower precision."""
    del typingctx, k, start, width
    word = types.intp
    signature = types.void(out, word, S, types.float64, word, word)

    def codegen(context, builder, signature, args):
        kinds, (out, k, S, factor, start, width) = signature.args, args
        emit, narrow = (_Emitter(context, builder, kinds[a].dtype) for a in (0, 2))
        out, S, factor = emit.array(kinds[0], out), narrow.array(kinds[2], S), emit.spread(factor)
        with _lanes(builder, start, width) as j:
            value = emit.widen(narrow, narrow.load(S, k, j))
            emit.store(emit.fma(factor, value, emit.load(out, k, j)), out, k, j)
            narrow.store(narrow.zero, S, k, j)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def fetch_row(typingctx, g, j):
    """Ask for g[j] to be in the cache soon."""
    del typingctx, j
    signature = types.void(g, types.intp)

    def codegen(context, builder, signature, args):
        kinds, (g, j) = signature.args, args
        emit = _Emitter(context, builder, kinds[0].dtype)
        g, byte, flag = emit.array(kinds[0], g), ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        width = builder.extract_value(g[1].shape, 1)
        step = ir.Constant(width.type, 64 // emit.align)
        with _first(cgutils.for_range_slice(builder, ir.Constant(width.type, 0), width, step, intp=width.type)) as k:
            place = builder.bitcast(emit.address(g, j, k), byte)
            # For reading, into the second-level cache, data.
            builder.call(prefetch, [place, *(ir.Constant(flag, option) for option in (0, 2, 1))])
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def dot_row(typingctx, S, k, u, start, width):
    """Σ_j S[k, j] u[j] over start <= j < width, both multiples of LANES; u may be of lower precision."""
    del typingctx, k, start, width
    signature = S.dtype(S, types.intp, u, types.intp, types.intp)

    def codegen(context, builder, signature, args):
        kinds, (S, k, u, start, width) = signature.args, args
        emit, narrow = (_Emitter(context, builder, kinds[a].dtype) for a in (0, 2))
        S, u = emit.array(kinds[0], S), narrow.array(kinds[2], u)
        total = cgutils.alloca_once_value(builder, emit.zero)
        with _lanes(builder, start, width) as j:
            emit.add_into(total, emit.load(S, k, j), emit.widen(narrow, narrow.load(u, j)))
        return emit.total(builder.load(total))

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
        with _lanes(builder, ir.Constant(width.type, 0), width) as k:
            emit.store(builder.fmul(spread, emit.load(g, j, k)), out, c, k)
        return context.get_dummy_value()

    return signature, codegen


def _make_subtract(rows: int) -> Callable[..., None]:
    @intrinsic
    def subtract(typingctx, A, i, k, inverse, start, width):
        """A[i, start:width] −= Σ_a A[k+a, i] inverse[k+a] · A[k+a, start:width] over the given number of rows a.

        start and width are multiples of LANES.
        """
        del typingctx, i, k, start, width
        word = types.intp
        signature = types.void(A, word, word, inverse, word, word)

        def codegen(context, builder, signature, args):
            kinds, (A, i, k, inverse, start, width) = signature.args, args
            emit = _Emitter(context, builder, kinds[0].dtype)
            A, inverse = emit.array(kinds[0], A), emit.array(kinds[3], inverse)
            pivots = [emit.plus(k, a) for a in range(rows)]
            factors = [emit.spread(builder.fneg(builder.fmul(emit.item(A, row, i), emit.item(inverse, row))))
                       for row in pivots]  # fmt: skip
            with _lanes(builder, start, width) as j:
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
        with _lanes(builder, ir.Constant(width.type, 0), width) as k:
            p = emit.load(g, c, k)
            emit.add_into(mean, emit.load(own, u, k), p)
            emit.add_into(var, emit.load(own, second, k), emit.load(g, c, builder.add(k, width)))
            emit.add_into(var, builder.fmul(emit.load(own, spread, k), p), p)
        pair = [emit.total(builder.load(mean)), emit.total(builder.load(var))]
        return context.make_tuple(builder, signature.return_type, pair)

    return signature, codegen


#: (exp(r) − 1 − r)/r² on [-½ log 2, ½ log 2] as a polynomial: Cephes' coefficients for float32 (relative error of exp
#: 2e-7 or less), the series for float64.
_EXP_SINGLE = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_EXP_DOUBLE = tuple(1.0 / math.factorial(k) for k in range(13, 1, -1))


@intrinsic
def decay(typingctx, t):
    """exp(−t) for t >= 0, by a polynomial that LLVM can vectorise; from 87 (708) on what it is there."""
    del typingctx

    def codegen(context, builder, signature, args):
        (t,) = args
        single = signature.args[0] == types.float32
        real, word = t.type, ir.IntType(32 if single else 64)
        limit, fraction, bias = (87.0, 23, 127) if single else (708.0, 52, 1023)
        # log 2 in two parts, of which the first times a small whole number is exact.
        high, low = (-0.693359375, 2.12194440e-4) if single else (-6.93145751953125e-1, -1.42860682030941723212e-6)

        def number(value):
            return ir.Constant(real, value)

        def fma(a, b, c):
            return builder.fadd(builder.fmul(a, b, flags=_FUSE), c, flags=_FUSE)

        floor = builder.module.declare_intrinsic("llvm.floor", [real])
        largest = builder.fcmp_ordered("<", t, number(limit))
        x = builder.fneg(builder.select(largest, t, number(limit)))
        n = builder.call(floor, [fma(x, number(1.4426950408889634), number(0.5))])
        r = fma(n, number(low), fma(n, number(high), x))
        y = _polynomial(builder, _EXP_SINGLE if single else _EXP_DOUBLE, r)
        y = builder.fadd(fma(y, builder.fmul(r, r), r), number(1.0))
        biased = builder.add(builder.fptosi(n, word), ir.Constant(word, bias))
        exponent = builder.shl(biased, ir.Constant(word, fraction))
        return builder.fmul(y, builder.bitcast(exponent, real))

    return t(t), codegen


def _polynomial(builder: Any, coefficients: list[float], x: Any) -> Any:
    """Horner's rule; the highest power comes first."""
    first, *others = coefficients
    y = ir.Constant(x.type, first)
    for coefficient in others:
        y = builder.fadd(builder.fmul(y, x, flags=_FUSE), ir.Constant(x.type, coefficient), flags=_FUSE)
    return y


def _log_over(degree: int, first: float, last: float) -> list[float]:
    """log(1 + r)/r for r from first to last as a polynomial, the highest power first."""
    near = np.polynomial.Chebyshev.interpolate(lambda r: np.log1p(r) / r, degree, domain=(first, last))
    return list(near.convert(kind=np.polynomial.Polynomial).coef[::-1].tolist())


#: On [0, 1]: relative error 3e-8, and 1e-15.
_LOG_SINGLE, _LOG_DOUBLE = (_log_over(degree, 0.0, 1.0) for degree in (9, 20))


@intrinsic
def log_one_plus(typingctx, e):
    """log(1 + e) for 0 <= e <= 1, by a polynomial that LLVM can vectorise."""
    del typingctx

    def codegen(context, builder, signature, args):
        (e,) = args
        single = signature.args[0] == types.float32
        return builder.fmul(_polynomial(builder, _LOG_SINGLE if single else _LOG_DOUBLE, e), e)

    return e(e), codegen


#: For 1 + r from √½ to √2: relative error 3e-8, and 1e-15.
_CENTRAL_SINGLE, _CENTRAL_DOUBLE = (_log_over(degree, 0.5**0.5 - 1.0, 2.0**0.5 - 1.0) for degree in (9, 20))


@intrinsic
def logarithm(typingctx, x):
    """log x of a normal number above zero, by its exponent and a polynomial that LLVM can vectorise."""
    del typingctx

    def codegen(context, builder, signature, args):
        (x,) = args
        single = signature.args[0] == types.float32
        real, word = x.type, ir.IntType(32 if single else 64)
        fraction, root = (23, 0x3F3504F3) if single else (52, 0x3FE6A09E667F3BCD)
        bits = builder.bitcast(x, word)
        # Whole powers of two that take x to between √½ and √2.
        powers = builder.ashr(builder.sub(bits, ir.Constant(word, root)), ir.Constant(word, fraction))
        scaled = builder.bitcast(builder.sub(bits, builder.shl(powers, ir.Constant(word, fraction))), real)
        r = builder.fsub(scaled, ir.Constant(real, 1.0))
        y = _polynomial(builder, _CENTRAL_SINGLE if single else _CENTRAL_DOUBLE, r)
        whole = builder.fmul(builder.sitofp(powers, real), ir.Constant(real, math.log(2.0)), flags=_FUSE)
        return builder.fadd(whole, builder.fmul(y, r, flags=_FUSE), flags=_FUSE)

    return x(x), codegen


@intrinsic
def take(typingctx, turn):
    """turn[0]++, as one step for all threads: the number that nobody else has got."""
    del typingctx
    signature = types.intp(turn)

    def codegen(context, builder, signature, args):
        emit = _Emitter(context, builder, types.float64)
        place = emit.address(emit.array(signature.args[0], args[0]), ir.Constant(ir.IntType(64), 0))
        return builder.atomic_rmw("add", place, ir.Constant(ir.IntType(64), 1), "monotonic")

    return signature, codegen


def _array(context: Any, builder: Any, kind: types.Array, address: Any, lengths: list[Any]) -> Any:
    """A C-contiguous array, without references that would have to be counted: whoever made it keeps it alive."""
    array = context.make_array(kind)(context, builder)
    size = ir.Constant(_WORD, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    strides, step = [], size
    for length in reversed(lengths):
        strides.insert(0, step)
        step = builder.mul(step, length)
    populate_array(array, builder.inttoptr(address, array.data.type), lengths, strides, size, meminfo=None)
    return array._getvalue()


@intrinsic
def array_at(typingctx, address, shape, dtype):
    """The array of this shape, a tuple, that lies at an address."""
    del typingctx, address
    kind = types.Array(dtype.dtype, shape.count, "C")

    def codegen(context, builder, signature, args):
        return _array(context, builder, kind, args[0], cgutils.unpack_tuple(builder, args[1]))

    return kind(types.intp, shape, dtype), codegen


@intrinsic
def array_of(typingctx, field, shape, dtype):
    """The array that a field of a record points to; shape is a tuple, or None for all items in a line."""
    del typingctx
    whole = isinstance(shape, types.NoneType)
    kind = types.Array(dtype.dtype, 1 if whole else shape.count, "C")

    def codegen(context, builder, signature, args):
        field = builder.bitcast(args[0], _WORD.as_pointer())
        address, n_items = builder.load(field), builder.load(builder.gep(field, [ir.Constant(_WORD, 1)]))
        lengths = [n_items] if whole else cgutils.unpack_tuple(builder, args[1])
        return _array(context, builder, kind, address, lengths)

    return kind(field, shape, dtype), codegen


@intrinsic
def record_at(typingctx, address, dtype):
    """The record that lies at an address."""
    del typingctx, address

    def codegen(context, builder, signature, args):
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return dtype.dtype(types.intp, dtype), codegen


@intrinsic
def place_of(typingctx, thing):
    """The address of a record, or of the first item of an array."""
    del typingctx

    def codegen(context, builder, signature, args):
        (kind,), (value,) = signature.args, args
        if isinstance(kind, types.Array):
            value = context.make_array(kind)(context, builder, value).data
        return builder.ptrtoint(value, _WORD)

    return types.intp(thing), codegen


@intrinsic
def call(typingctx, address, numbers):
    """Call the function of C at an address with a tuple of integers and floats; it returns a float64."""
    del typingctx
    kinds = [types.float64 if isinstance(kind, types.Float) else types.intp for kind in numbers]

    def codegen(context, builder, signature, args):
        values = cgutils.unpack_tuple(builder, args[1])
        function = ir.FunctionType(ir.DoubleType(), [value.type for value in values])
        return builder.call(builder.inttoptr(args[0], function.as_pointer()), values)

    return types.float64(types.intp, types.Tuple(kinds)), codegen


def _lanes(builder: Any, start: Any, width: Any) -> Any:
    """Loop k = start, start + LANES, … below width."""
    return _first(cgutils.for_range_slice(builder, start, width, ir.Constant(width.type, LANES), intp=width.type))


def _by_columns(builder: Any, start: Any, end: Any, tiles: Callable[[Any, int], None]) -> None:
    """tiles(j, vectors) for the columns start..end, three vectors at a time, then the two or one that are left."""
    wide = ir.Constant(start.type, _WIDEST * LANES)
    rest = builder.srem(builder.sub(end, start), wide)
    last = builder.sub(end, rest)
    with _first(cgutils.for_range_slice(builder, start, last, wide, intp=start.type)) as j:
        tiles(j, _WIDEST)
    for vectors in range(1, _WIDEST):
        with builder.if_then(builder.icmp_signed("==", rest, ir.Constant(rest.type, vectors * LANES))):
            tiles(last, vectors)


class _first:  # noqa: N801 - a context manager
    """The first value of a context manager that yields a pair."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __enter__(self) -> Any:
        return self._inner.__enter__()[0]

    def __exit__(self, *exc: object) -> Any:
        return self._inner.__exit__(*exc)
