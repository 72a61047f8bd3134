"""What the cells of one row sum up to, compiled for each working precision and called by address.

`visit_cells` is the one pass over cells: it loads a chunk of them, asks their likelihood for weights and targets, and
adds up what the row's system needs. Every row is summed by one thread, in one order, so results do not depend on the
number of threads. All else follows from these sums: see row_kernels.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from gcmf.engines.compiled import address_of, inlined, kernel
from gcmf.engines.likelihood_kernels import BOTH, VALUES, WEIGHTS
from gcmf.engines.random_kernels import begin as begin_stream
from gcmf.engines.records import BLOCK, BYTES, CHUNK, DOUBLE, FILLED, LISTED, PASS, SCRATCH, SINGLE, ZEROS
from gcmf.engines.simd import (
    LANES,
    add_products,
    add_sums,
    array_at,
    array_of,
    call,
    fetch_row,
    move_row,
    predictor,
    record_at,
    scale_row,
)

#: Numbers of partners' parameters that no near cache holds, so that it pays to ask for them ahead.
MANY_PARTNERS = 1 << 20
#: Cells summed in the working precision before the sums go to float64: bounds the error of float32.
FLUSH = 512
#: Cells of a chunk that are enough: more are not looked for among holes.
FULL = 56
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
def pack(mean, var, active, pairs, reach):
    """The active columns of means and of variances side by side, each padded with zeros: pairs (n, 2 Kp).

    reach (4, Kp): the largest ū², ū² + ũ and ũ of each factor, and first in the last row the largest |ū_j|².
    """
    width = pairs.shape[1] // 2
    reach[:] = 0.0
    for i in range(len(mean)):
        length = 0.0
        for k in range(len(active)):
            u, u_var = mean[i, active[k]], var[i, active[k]]
            pairs[i, k], pairs[i, width + k] = u, u_var
            square = np.float64(u) * u
            length += square
            reach[0, k] = max(reach[0, k], square)
            reach[1, k] = max(reach[1, k], square + u_var)
            reach[2, k] = max(reach[2, k], u_var)
        reach[3, 0] = max(reach[3, 0], length)
        for k in range(len(active), width):
            pairs[i, k] = pairs[i, width + k] = 0


@kernel
def pack_scaled(mean, var, active, scale, scale_var, mates, pairs, reach):
    """The same of d u in place of u: means d̄ ū, variances ⟨d²⟩ũ + d̃ ū², with u the factor that each meets; (K,)."""
    width = pairs.shape[1] // 2
    reach[:] = 0.0
    for i in range(len(mean)):
        length = 0.0
        for k in range(len(active)):
            d, d_var, mate = scale[active[k]], scale_var[active[k]], mates[active[k]]
            u = np.float64(mean[i, mate])
            square, spread = d * d * u * u, (d * d + d_var) * var[i, mate] + d_var * u * u
            pairs[i, k], pairs[i, width + k] = d * u, spread
            length += square
            reach[0, k] = max(reach[0, k], square)
            reach[1, k] = max(reach[1, k], square + spread)
            reach[2, k] = max(reach[2, k], spread)
        reach[3, 0] = max(reach[3, 0], length)
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
    if writing:
        for b in range(len(blocks)):
            if blocks[b].own:
                _write_partner(rows, blocks[b], row, scratch, real)
    return 0.0


@inlined
def _write_partner(rows, block, row, scratch, real):
    """What the other rows of the set see of this one, as `pack` has it."""
    width = rows.width
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    scale, scale_var = (
        array_of(block.factor_scale, None, np.float64),
        array_of(block.factor_scale_var, None, np.float64),
    )
    pairs, mates = array_of(block.pairs, (row + 1, 2 * width), real)[row], array_of(block.mates, None, np.int64)
    for k in range(rows.n_factors):
        if mates[k] >= 0:
            u, u_var, d, d_var = mean[mates[k]], var[mates[k]], scale[k], scale_var[k]
            pairs[k] = d * u
            pairs[width + k] = (d * d + d_var) * u_var + d_var * u * u
    bias = array_of(scratch.row_bias, None, np.float64)[block.twin]
    array_of(block.partner_bias, None, real)[row] = bias + block.offset


@inlined
def _load(cells, row, start, last, scratch, real):
    """Up to CHUNK cells of one row, from start on: standardised value, the partner's row, what each stands for.

    Returns how many there are, and where the next ones start. Holes are passed over, except those that correct a row
    of zeros.
    """
    place, seen = array_of(scratch.place, None, np.uint64), array_of(scratch.seen, None, real)
    x, fill = array_of(scratch.x, None, real), cells.fill
    partner, members = array_of(cells.partner, None, np.int32), array_of(cells.members, None, np.int32)
    first, stride, there = array_of(cells.indptr, None, np.int64)[row], cells.stride, 0
    times = array_of(cells.weight, None, np.float32)
    for c in range(CHUNK):
        seen[c] = 1
    while start < last and there < FULL:
        n = min(CHUNK - there, last - start)
        if stride > 0:
            _read(cells, first + start * stride, n, there, scratch, real)
        else:
            _fill(cells, row, start, n, there, scratch, real)
        if cells.layout == FILLED:
            there = _pass_holes(members, start, n, there, scratch, real)
        else:
            at = np.uint64(first + start)
            for c in range(n):
                place[c] = partner[at + np.uint64(c)]
            if len(times) > 0:
                for c in range(n):
                    seen[c] = times[at + np.uint64(c)]
            if cells.layout == ZEROS:
                for c in range(n):
                    place[c] = members[place[c]]
                    if math.isnan(x[c]):
                        x[c], seen[c] = fill, 0
            there = n
        start += n
    return there, start


@inlined
def _read(cells, first, n, to, scratch, real):
    """Standardise n values into x, from position `to` on; holes become NaN. One plain loop for each way to hold them.

    Positions are unsigned, since a negative one would count from the end, and LLVM could take no vectors.
    """
    x, center, inverse = array_of(scratch.x, None, real), cells.center, cells.inverse_scale
    single, double = array_of(cells.value, None, np.float32), array_of(cells.value, None, np.float64)
    coded, kind = array_of(cells.value, None, np.uint8), cells.value_type
    at, stride, out = np.uint64(first), np.uint64(cells.stride), np.uint64(to)
    if kind == SINGLE:
        for c in range(n):
            x[out + np.uint64(c)] = (np.float64(single[at + np.uint64(c) * stride]) - center) * inverse
    elif kind == DOUBLE:
        for c in range(n):
            x[out + np.uint64(c)] = (double[at + np.uint64(c) * stride] - center) * inverse
    else:
        for c in range(n):
            code = coded[at + np.uint64(c) * stride]
            x[out + np.uint64(c)] = math.nan if code == 255 else (np.float64(code) - center) * inverse


@inlined
def _fill(cells, row, start, n, to, scratch, real):
    """The same for members start..start+n of a row of zeros, with what is listed of them."""
    x, partner = array_of(scratch.x, None, real), array_of(cells.partner, None, np.int32)
    single, double = array_of(cells.value, None, np.float32), array_of(cells.value, None, np.float64)
    coded, kind = array_of(cells.value, None, np.uint8), cells.value_type
    indptr, center, inverse = array_of(cells.indptr, None, np.int64), cells.center, cells.inverse_scale
    fill, first, last = cells.fill, indptr[row], indptr[row + 1]
    for c in range(n):
        x[np.uint64(to) + np.uint64(c)] = fill
    end = last
    while first < end:
        middle = (first + end) // 2
        if partner[middle] < start:
            first = middle + 1
        else:
            end = middle
    for p in range(first, last):
        c = partner[p] - start
        if c >= n:
            break
        value = np.float64(coded[p]) if kind == BYTES else np.float64(single[p]) if kind == SINGLE else double[p]
        x[to + c] = math.nan if kind == BYTES and value == 255.0 else (value - center) * inverse


@inlined
def _pass_holes(members, start, n, to, scratch, real):
    """Of n values from position `to` on, of members start..start+n, keep those that are no holes; return their end."""
    place, x = array_of(scratch.place, None, np.uint64), array_of(scratch.x, None, real)
    at, first, total = np.uint64(start), np.uint64(to), real(0)
    for c in range(n):
        place[first + np.uint64(c)] = members[at + np.uint64(c)]
    for c in range(n):
        total += x[first + np.uint64(c)]
    # The sum is NaN if any of them is. fastmath says nothing of NaN here: `nnan` is not among its flags.
    if not math.isnan(total):
        return to + n
    there = first
    for c in range(n):
        # Without a branch, which nobody could predict.
        value = x[first + np.uint64(c)]
        x[there], place[there] = value, place[first + np.uint64(c)]
        there += np.uint64(not math.isnan(value))
    for c in range(np.int64(there), to + n):
        x[c] = 0  # a likelihood may look at more cells than it counts
    return np.int64(there)


@inlined
def _predict(block, b, at_first, n, scratch, real):
    """Mean m and variance v of θ for n loaded cells of the row at hand."""
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    width, place = len(mean), array_of(scratch.place, None, np.uint64)
    moments = array_of(scratch.moments, (3, width), real)
    if at_first:
        for k in range(width):
            u, u_var = real(mean[k]), real(var[k])
            moments[0, k] = u
            moments[1, k] = u * u + u_var
            moments[2, k] = u_var
    pairs = array_of(block.pairs, (block.partner_bias.size, 2 * width), real)
    bias, bias_var = array_of(block.partner_bias, None, real), array_of(block.partner_bias_var, None, real)
    row_bias = real(array_of(scratch.row_bias, None, np.float64)[b])
    row_bias_var = real(array_of(scratch.row_bias_var, None, np.float64)[b])
    m, v = array_of(scratch.m, None, real), array_of(scratch.v, None, real)
    for c in range(n):
        j = place[c]
        theta, spread = predictor(moments, pairs, j)
        m[c] = theta + row_bias + bias[j]
        v[c] = spread + row_bias_var + bias_var[j]


@inlined
def _squared_residuals(block, n, scratch, real):
    """Σ σ_j [(x − m)² + v + ε²] of n predicted cells."""
    place, precision = array_of(scratch.place, None, np.uint64), array_of(block.partner_precision, None, np.float64)
    x, seen = array_of(scratch.x, None, real), array_of(scratch.seen, None, real)
    m, v, total = array_of(scratch.m, None, real), array_of(scratch.v, None, real), 0.0
    for c in range(n):
        away, spread = np.float64(x[c]) - m[c], np.float64(v[c])
        value = (away * away + spread + block.floor) * seen[c]
        total += value if len(precision) == 0 else precision[place[c]] * value
    return total


@inlined
def _add_unit(block, n, scratch, scalars, sign, real):
    """Targets of n cells, each of weight one, and sign times their scalars."""
    place, x = array_of(scratch.place, None, np.uint64), array_of(scratch.x, None, real)
    weight, target = array_of(scratch.weight, None, real), array_of(scratch.target, None, real)
    bias, bias_var = array_of(block.partner_bias, None, real), array_of(block.partner_bias_var, None, real)
    one, sum_wt, squares, spread = real(1), real(0), real(0), real(0)
    for c in range(n):
        j = place[c]
        t = x[c] - bias[j]
        target[c], weight[c] = t, one
        sum_wt += t
        squares += t * t
        spread += bias_var[j]
    scalars[WEIGHT] += sign * n
    scalars[TARGETS] += sign * sum_wt
    scalars[SQUARES] += sign * squares
    scalars[BIAS_SPREAD] += sign * spread


@inlined
def _add_others(block, n, scratch, scalars, sign, real):
    """Targets of n other cells, and sign times their scalars.

    Those of least squares stand for several cells, have partners with noise of their own, or correct a row of zeros: a
    hole takes its zero away, and another cell moves it. Others have been weighed already, and their targets lack the
    partners' biases.
    """
    place = array_of(scratch.place, None, np.uint64)
    x, seen = array_of(scratch.x, None, real), array_of(scratch.seen, None, real)
    weight, target = array_of(scratch.weight, None, real), array_of(scratch.target, None, real)
    bias, bias_var = array_of(block.partner_bias, None, real), array_of(block.partner_bias_var, None, real)
    least_squares, fill = block.least_squares, block.summed.fill
    zeros = 1.0 if block.summed.layout == ZEROS else 0.0
    precision = array_of(block.partner_precision, None, np.float64)
    squares, sum_w, sum_wt, spread = 0.0, real(0), real(0), real(0)
    for c in range(n):
        j = place[c]
        if least_squares:
            times, theirs = np.float64(seen[c]), np.float64(bias[j])
            t, t_zero = x[c] - theirs, fill - theirs
            p = 1.0 if len(precision) == 0 else precision[j]
            target[c] = p * (times * t - zeros * t_zero)
            weight[c] = p * (times - zeros)
            squares += p * (times * t * t - zeros * t_zero * t_zero)
        else:
            target[c] -= weight[c] * bias[j]
        sum_w += weight[c]
        sum_wt += target[c]
        spread += weight[c] * bias_var[j]
    scalars[SQUARES] += sign * squares
    scalars[WEIGHT] += sign * sum_w
    scalars[TARGETS] += sign * sum_wt
    scalars[BIAS_SPREAD] += sign * spread


@inlined
def _sum_chunk(block, width, n, unit, scratch, real):
    """Add n cells to Σ w ū_j ū_jᵀ, Σ wt ū_j, Σ w ū_j and Σ w ũ_j; `unit` says that every w is one."""
    pairs = array_of(block.pairs, (block.partner_bias.size, 2 * width), real)
    place, sums = array_of(scratch.place, None, np.uint64), array_of(scratch.chunk_sums, (width + 3, width), real)
    weight, target = array_of(scratch.weight, None, real), array_of(scratch.target, None, real)
    left, left_place = pairs, place
    if not unit:
        left, left_place = array_of(scratch.weighted, (CHUNK, width), real), array_of(scratch.order, None, np.uint64)
        for c in range(n):
            scale_row(left, c, pairs, place[c], weight[c], width)
    for k in range(0, width, LANES):
        add_products(sums, k, width, left, left_place, pairs, place, n)
    add_sums(sums, width, target, weight, pairs, place, n)


def visit_cells(rows_at, b, row, first, last, sign, measuring, scratch_at, out_at):
    """Add sign times the cells first..last of one row in block b to the sums (Kp + 4, Kp) at `out_at`.

    Or, measuring, sum up nothing and return the value of the listed cells (least squares: Σ (x − m)² + v).
    """
    rows, scratch = record_at(rows_at, PASS), record_at(scratch_at, SCRATCH)
    block, width = array_of(rows.blocks, None, BLOCK)[b], rows.width
    cells, squares = block.listed if measuring else block.summed, block.least_squares
    pending, total, out = 0, 0.0, array_at(out_at, (width + 4, width), np.float64)
    plain = cells.layout != ZEROS and cells.weight.size == 0 and block.partner_precision.size == 0
    scalars, unit = out[width + SCALARS], squares and plain
    far, begin = (
        cells.layout == LISTED and block.pairs.size > MANY_PARTNERS,
        array_of(cells.indptr, None, np.int64)[row],
    )
    # What mild cells are worth before a step is asked for later, if at all.
    wanted, start = VALUES if measuring else WEIGHTS if rows.guarded and block.mild else BOTH, first
    while start < last:
        if far:
            # While these are summed, the next ones come nearer, be they of this row or the next.
            partner, pairs = array_of(cells.partner, None, np.int32), array_of(block.pairs, (1, 2 * width), real)
            ahead = begin + min(start + CHUNK, last)
            for c in range(ahead, min(ahead + CHUNK, len(partner))):
                fetch_row(pairs, partner[c])
        at_first, chunk = start == first, start
        n, start = _load(cells, row, start, last, scratch, real)
        if measuring or not squares:
            _predict(block, b, at_first, n, scratch, real)
        if block.draw_chunk != 0 and not measuring:
            begin_stream(array_of(scratch.stream, None, np.uint64), rows.key, chunk, rows.first_row + row, b + 1)
            call(
                block.draw_chunk,
                (n, scratch.x.address, scratch.m.address, scratch.seen.address, block.zero_weight,
                 block.parameters.size, block.parameters.address, scratch.weight.address, scratch.target.address,
                 scratch.stream.address),
            )  # fmt: skip
        elif not squares:
            total += call(
                block.weigh_chunk,
                (n, scratch.x.address, scratch.m.address, scratch.v.address, scratch.seen.address, block.zero_weight,
                 block.parameters.size, block.parameters.address, scratch.weight.address, scratch.target.address,
                 wanted),
            )  # fmt: skip
        elif measuring:
            total += _squared_residuals(block, n, scratch, real)
        if measuring:
            continue
        if unit:
            _add_unit(block, n, scratch, scalars, sign, real)
        else:
            _add_others(block, n, scratch, scalars, sign, real)
        _sum_chunk(block, width, n, unit, scratch, real)
        pending += n
        if pending >= FLUSH or start == last:
            sums = array_of(scratch.chunk_sums, (width + 3, width), real)
            for k in range(width + 3):
                move_row(out, k, sums, sign, k // LANES * LANES if k < width else 0, width)
            pending = 0
    if not measuring:
        scalars[VALUE] += total
    return total
