"""What the cells of one row sum up to, compiled for each working precision and called by address.

`visit_cells` is the one pass over cells: it loads a chunk of them, asks their likelihood for weights and targets, and
adds up what the row's system needs. Every row is summed by one thread, in one order, so results do not depend on the
number of threads. All else follows from these sums: see row_kernels.py.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types

from gcmf.engines.compiled import address_of, inlined, kernel
from gcmf.engines.records import BLOCK, BYTES, CHUNK, DOUBLE, LISTED, PASS, SCRATCH, SINGLE, ZEROS
from gcmf.engines.simd import (
    LANES,
    add_products,
    add_sums,
    array_at,
    array_of,
    call,
    fetch_row,
    move_row,
    place_of,
    predictor,
    record_at,
    scale_row,
)

#: Numbers of partners' parameters that no near cache holds, so that it pays to ask for them ahead.
MANY_PARTNERS = 1 << 20
#: Cells summed in the working precision before the sums go to float64: bounds the error of float32.
FLUSH = 512
#: The rows of a sum after the Kp rows of Σ w ū_j ū_jᵀ: Σ wt ū_j, Σ w ū_j, Σ w ũ_j, and one of scalars:
TARGET, FIRST, SPREAD, SCALARS = range(4)
#: Σ w, Σ wt, Σ wt², the value of the cells, and Σ w b̃_j.
WEIGHT, TARGETS, SQUARES, VALUE, BIAS_SPREAD = range(5)
#: The working precision: `cell_functions` compiles for either.
real = np.float32


def cell_functions(dtype: np.dtype[Any]) -> dict[str, int]:
    """Where the functions that kernels call by address lie, compiled for a working precision if they are not yet."""
    word, number, flag = types.intp, types.float64, types.boolean
    copy, visit = number(word, word, word, flag), number(word, word, word, word, word, number, flag, word, word)
    return {
        "copy_row": address_of(copy_row, copy, dtype.name, real=dtype.type),
        "visit_cells": address_of(visit_cells, visit, dtype.name, real=dtype.type),
    }


@kernel
def pack(mean, var, active, pairs):
    """The active columns of means and of variances side by side, each padded with zeros: pairs (n, 2 Kp)."""
    width = pairs.shape[1] // 2
    for i in range(len(mean)):
        for k in range(len(active)):
            pairs[i, k] = mean[i, active[k]]
            pairs[i, width + k] = var[i, active[k]]
        for k in range(len(active), width):
            pairs[i, k] = pairs[i, width + k] = 0


def copy_row(rows_at, row, scratch_at, writing):
    """Copy the parameters of a row to the scratch, or back, and then what the working precision has left of them."""
    rows, scratch = record_at(rows_at, PASS), record_at(scratch_at, SCRATCH)
    mean = array_of(rows.mean, (row + 1, rows.n_columns), real)[row]
    var = array_of(rows.var, (row + 1, rows.n_columns), real)[row]
    row_mean, row_var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    row_bias, row_bias_var = (
        array_of(scratch.row_bias, None, np.float64),
        array_of(scratch.row_bias_var, None, np.float64),
    )
    active, blocks = array_of(rows.active, None, np.int64), array_of(rows.blocks, None, BLOCK)
    for k in range(rows.n_factors):
        if writing:
            mean[active[k]], var[active[k]] = row_mean[k], row_var[k]
        row_mean[k], row_var[k] = mean[active[k]], var[active[k]]
    for k in range(rows.n_factors, rows.width):
        row_mean[k] = row_var[k] = 0.0
    for b in range(len(blocks)):
        bias, bias_var = array_of(blocks[b].bias, None, real), array_of(blocks[b].bias_var, None, real)
        if writing:
            bias[row], bias_var[row] = row_bias[b], row_bias_var[b]
        row_bias[b], row_bias_var[b] = bias[row], bias_var[row]
    return 0.0


class Chunk(NamedTuple):
    """Arrays of SCRATCH for up to CHUNK cells of one row."""

    place: Any
    order: Any
    x: Any
    seen: Any
    m: Any
    v: Any
    weight: Any
    target: Any
    weighted: Any
    sums: Any
    moments: Any


class Partners(NamedTuple):
    """Parameters of the other side of a block."""

    pairs: Any
    bias: Any
    bias_var: Any


@inlined
def _chunk_of(scratch, width, real):
    return Chunk(
        array_of(scratch.place, None, np.uint64),
        array_of(scratch.order, None, np.uint64),
        array_of(scratch.x, None, real),
        array_of(scratch.seen, None, real),
        array_of(scratch.m, None, real),
        array_of(scratch.v, None, real),
        array_of(scratch.weight, None, real),
        array_of(scratch.target, None, real),
        array_of(scratch.weighted, (CHUNK, width), real),
        array_of(scratch.chunk_sums, (width + 3, width), real),
        array_of(scratch.moments, (3, width), real),
    )


@inlined
def _partners_of(block, width, real):
    n = block.partner_bias.size
    return Partners(
        array_of(block.pairs, (n, 2 * width), real),
        array_of(block.partner_bias, None, real),
        array_of(block.partner_bias_var, None, real),
    )


@inlined
def _load(cells, row, start, n, chunk):
    """Cells start..start+n of one row: the partner's row, the standardised value, observed or not."""
    place, x, seen = chunk.place, chunk.x, chunk.seen
    partner, members = array_of(cells.partner, None, np.int32), array_of(cells.members, None, np.int32)
    single, double = array_of(cells.value, None, np.float32), array_of(cells.value, None, np.float64)
    coded, kind = array_of(cells.value, None, np.uint8), cells.value_type
    indptr, center, inverse = array_of(cells.indptr, None, np.int64), cells.center, cells.inverse_scale
    fill, first, last = cells.fill, indptr[row], indptr[row + 1]
    if cells.layout == LISTED:
        first += start
        # One plain loop for each way to hold values.
        if kind == SINGLE:
            for c in range(n):
                x[c] = (np.float64(single[first + c]) - center) * inverse
        elif kind == DOUBLE:
            for c in range(n):
                x[c] = (double[first + c] - center) * inverse
        else:
            for c in range(n):
                x[c] = (np.float64(coded[first + c]) - center) * inverse
        for c in range(n):
            place[c] = partner[first + c]
            seen[c] = 1
    else:
        if cells.layout == ZEROS:
            first += start
            last = first + n
        else:
            for c in range(n):
                place[c] = members[start + c]
                seen[c] = 1
                x[c] = fill
            end = last
            while first < end:
                middle = (first + end) // 2
                if partner[middle] < start:
                    first = middle + 1
                else:
                    end = middle
        for p in range(first, last):
            c = p - first if cells.layout == ZEROS else partner[p] - start
            if c >= n:
                break
            value = np.float64(coded[p]) if kind == BYTES else np.float64(single[p]) if kind == SINGLE else double[p]
            # fastmath says nothing of NaN here: `nnan` is not among its flags.
            hole = value == 255.0 if kind == BYTES else math.isnan(value)
            place[c] = members[partner[p]]
            seen[c] = 0 if hole else 1
            x[c] = fill if hole else (value - center) * inverse


@inlined
def _predict(scratch, partners, b, start, n, chunk, real):
    """Mean m and variance v of θ for n loaded cells of the row at hand."""
    if start == 0:
        mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
        for k in range(len(mean)):
            u, u_var = real(mean[k]), real(var[k])
            chunk.moments[0, k] = u
            chunk.moments[1, k] = u * u + u_var
            chunk.moments[2, k] = u_var
    bias = real(array_of(scratch.row_bias, None, np.float64)[b])
    bias_var = real(array_of(scratch.row_bias_var, None, np.float64)[b])
    for c in range(n):
        j = chunk.place[c]
        m, v = predictor(chunk.moments, partners.pairs, j)
        chunk.m[c] = m + bias + partners.bias[j]
        chunk.v[c] = v + bias_var + partners.bias_var[j]


@inlined
def _add_unit(partners, n, chunk, scalars, sign, real):
    """Targets of n observed cells of least squares, each of weight one, and sign times their scalars."""
    one, sum_wt, squares, spread = real(1), real(0), real(0), real(0)
    for c in range(n):
        j = chunk.place[c]
        t = chunk.x[c] - partners.bias[j]
        chunk.target[c], chunk.weight[c] = t, one
        sum_wt += t
        squares += t * t
        spread += partners.bias_var[j]
    scalars[WEIGHT] += sign * n
    scalars[TARGETS] += sign * sum_wt
    scalars[SQUARES] += sign * squares
    scalars[BIAS_SPREAD] += sign * spread


@inlined
def _add_others(block, partners, n, chunk, scalars, real):
    """Targets of n other cells, and their scalars.

    Of least squares some cells are holes. Where they correct a row of zeros, a hole takes its zero away, and another
    cell moves it. Others have been weighed already, and their targets lack the partners' biases.
    """
    least_squares, fill, corrects = block.least_squares, block.summed.fill, 1.0 if block.summed.layout == ZEROS else 0.0
    squares, sum_w, sum_wt, spread = 0.0, real(0), real(0), real(0)
    for c in range(n):
        j = chunk.place[c]
        if least_squares:
            seen, bias = np.float64(chunk.seen[c]), np.float64(partners.bias[j])
            t, t_zero = chunk.x[c] - bias, fill - bias
            chunk.target[c] = seen * t - corrects * t_zero
            chunk.weight[c] = seen - corrects
            squares += seen * t * t - corrects * t_zero * t_zero
        else:
            chunk.target[c] -= chunk.weight[c] * partners.bias[j]
        sum_w += chunk.weight[c]
        sum_wt += chunk.target[c]
        spread += chunk.weight[c] * partners.bias_var[j]
    scalars[SQUARES] += squares
    scalars[WEIGHT] += sum_w
    scalars[TARGETS] += sum_wt
    scalars[BIAS_SPREAD] += spread


@inlined
def _sum_chunk(n, unit, partners, chunk):
    """Add n cells to Σ w ū_j ū_jᵀ, Σ wt ū_j, Σ w ū_j and Σ w ũ_j; `unit` says that every w is one."""
    width, weighted, place = chunk.sums.shape[1], partners.pairs, chunk.place
    if not unit:
        weighted, place = chunk.weighted, chunk.order
        for c in range(n):
            scale_row(weighted, c, partners.pairs, chunk.place[c], chunk.weight[c], width)
    for k in range(0, width, LANES):
        add_products(chunk.sums, k, width, weighted, place, partners.pairs, chunk.place, n)
    add_sums(chunk.sums, width, chunk.target, chunk.weight, partners.pairs, chunk.place, n)


def visit_cells(rows_at, b, row, first, last, sign, measuring, scratch_at, out_at):
    """Add sign times the cells first..last of one row in block b to the sums (Kp + 4, Kp) at `out_at`.

    Or, measuring, sum up nothing and return the value of the listed cells (least squares: Σ (x − m)² + v).
    """
    rows, scratch = record_at(rows_at, PASS), record_at(scratch_at, SCRATCH)
    block, width = array_of(rows.blocks, None, BLOCK)[b], rows.width
    cells, squares = block.listed if measuring else block.summed, block.least_squares
    chunk, partners = _chunk_of(scratch, width, real), _partners_of(block, width, real)
    pending, total, out = 0, 0.0, array_at(out_at, (width + 4, width), np.float64)
    scalars, unit = out[width + SCALARS], squares and cells.layout == LISTED
    far = cells.layout == LISTED and block.pairs.size > MANY_PARTNERS
    begin = array_of(cells.indptr, None, np.int64)[row]
    for start in range(first, last, CHUNK):
        n = min(CHUNK, last - start)
        if far:
            # While these are summed, the next ones come nearer, be they of this row or the next.
            for j in array_of(cells.partner, None, np.int32)[begin + start + n : begin + start + n + CHUNK]:
                fetch_row(partners.pairs, j)
        _load(cells, row, start, n, chunk)
        if measuring or not squares:
            _predict(scratch, partners, b, start - first, n, chunk, real)
        if not squares:
            total += call(
                block.weigh_chunk,
                (n, place_of(chunk.x), place_of(chunk.m), place_of(chunk.v), place_of(chunk.seen), block.zero_weight,
                 block.parameters.size, block.parameters.address, place_of(chunk.weight), place_of(chunk.target)),
            )  # fmt: skip
        elif measuring:
            for c in range(n):
                away, v = np.float64(chunk.x[c]) - chunk.m[c], np.float64(chunk.v[c])
                total += (away * away + v) * chunk.seen[c]
        if measuring:
            continue
        if unit:
            _add_unit(partners, n, chunk, scalars, sign, real)
        else:
            _add_others(block, partners, n, chunk, scalars, real)
        _sum_chunk(n, unit, partners, chunk)
        pending += n
        if pending >= FLUSH or start + n == last:
            for k in range(width + 3):
                move_row(out, k, chunk.sums, sign, k // LANES * LANES if k < width else 0, width)
            pending = 0
    if not measuring:
        scalars[VALUE] += total
    return total
