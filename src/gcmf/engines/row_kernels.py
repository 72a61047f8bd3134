"""One pass over the rows of an entity set, compiled: sums, system, solution, bound; what Python calls.

A row is worked on in float64, whatever the working precision: only its cells (cell_kernels.py) are not. Each kernel is
given a PASS and the SCRATCH of its thread, and takes one range of rows after the other until none is left.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from gcmf.engines.base import MAX_HALVINGS
from gcmf.engines.cell_kernels import (
    BIAS_SPREAD,
    FIRST,
    SCALARS,
    SPREAD,
    SQUARES,
    TARGET,
    TARGETS,
    VALUE,
    WEIGHT,
)
from gcmf.engines.compiled import address_of, inlined, kernel, part
from gcmf.engines.random_kernels import philox, unit
from gcmf.engines.records import BLOCK, FILLED, LISTED, PASS, SCRATCH
from gcmf.engines.simd import (
    LANES,
    add_row,
    array_at,
    array_of,
    call,
    dot_row,
    place_of,
    record_at,
    subtract_four,
    subtract_one,
    take,
)

#: A pivot is at least this share of its diagonal: what float64 can tell from zero.
PIVOT = 4e-16
#: What rounding may take from a row's share of the bound, as a fraction of the values of its cells.
SLACK_SINGLE, SLACK_DOUBLE = 1e-6, 1e-13
#: Residuals below this share of the squares are not left to the sums, in float32 and in float64.
PRECISE_SINGLE, PRECISE_DOUBLE = 2e-2, 1e-6


def row_functions(*, guarded: bool = False, proposing: bool = False) -> dict[str, int]:
    """Where the functions of this file that kernels call by address lie, by name, compiled if they are not yet.

    `hold_row` and `propose_row` only where some rows need them: a newcomer waits for whatever is compiled.
    """
    word, number = types.intp, types.float64
    signatures = {
        sum_row: number(word, word, word, word, word),
        form_row: number(word, word, word, word),
        solve_row: number(word, word, word),
        sum_moments: number(word, word, word),
    }
    if guarded:
        signatures[hold_row] = number(word, word, word)
    if proposing:
        signatures[propose_row] = number(word, word, word)
    return {function.__name__: address_of(function, signature) for function, signature in signatures.items()}


@kernel
def sweep_rows(passes, scratches):
    """Update the rows, and bound the cells of those blocks which they complete (`wanted`).

    Writes the rows' parameters, `totals`, and what `sum_moments` finds in each range.
    """
    rows, scratch = passes[0], scratches[0]
    rows_at, scratch_at, width = place_of(rows), place_of(scratch), rows.width
    edges, turn = array_of(rows.edges, None, np.int64), array_of(rows.turn, None, np.int64)
    blocks, wanted = array_of(rows.blocks, None, BLOCK), array_of(rows.wanted, None, np.bool_)
    totals = array_of(rows.totals, (edges[-1], len(blocks)), np.float64)
    sums = array_of(scratch.row_sums, (len(blocks), width + 4, width), np.float64)
    before, present = array_of(scratch.before, None, np.float64), array_of(rows.present, None, np.bool_)
    groups, scaled = array_of(rows.groups, None, np.int64), rows.scaling.size > 0
    order, last = array_of(rows.order, None, np.int64), rows.last_group
    scaling = array_of(rows.scaling, (len(groups) - 1, len(blocks), width + 2, width), np.float64)
    g = take(turn)
    while g < last:
        for r in range(groups[g], groups[g + 1]):
            for n in range(edges[r], edges[r + 1]):
                row = order[n] if len(order) > 0 else n
                if not present[row]:
                    continue  # an entity without data: its zeros stand for "see the prior"
                call(rows.copy_row, (rows_at, row, scratch_at, False))
                for b in range(len(blocks)):
                    sums_at = place_of(sums[b])
                    call(rows.sum_row, (rows_at, b, row, scratch_at, sums_at))
                    if rows.guarded or (wanted[b] and not blocks[b].least_squares):
                        before[b] = call(rows.form_row, (rows_at, b, scratch_at, sums_at))
                if rows.guarded:
                    call(rows.hold_row, (rows_at, row, scratch_at))
                elif rows.proposing:
                    call(rows.propose_row, (rows_at, row, scratch_at))
                else:
                    call(rows.solve_row, (rows_at, row, scratch_at))
                    call(rows.copy_row, (rows_at, row, scratch_at, True))
                for b in range(len(blocks)):
                    if wanted[b] or blocks[b].precision.size > 0:
                        totals[row, b] = _bound_row(rows, b, row, before[b], scratch, sums[b])
                        if not rows.drawing:
                            _update_noise(blocks[b], row, totals[row, b])
                    if scaled and wanted[b]:
                        _add_scaling(rows, b, row, scratch, sums[b], scaling[g, b])
            call(rows.sum_moments, (rows_at, r, scratch_at))
        g = take(turn)


@part
def _scale_of(block, row):
    """τ ρ_i: what multiplies the sums of a row."""
    return block.scale if block.precision.size == 0 else block.scale * array_of(block.precision, None, np.float64)[row]


@part
def _update_noise(block, row, total):
    """⟨ρ_i⟩ = (ν/2 + n/2)/(ν/2 + ½ τ Σ_j σ_j e_ij) of a row that has noise of its own."""
    if block.noise_cells.size > 0:
        n, half = array_of(block.noise_cells, None, np.float64)[row], block.noise_half
        if n > 0.0:
            array_of(block.precision, None, np.float64)[row] = (half + 0.5 * n) / (half + 0.5 * block.scale * total)


@part
def _add_scaling(rows, b, row, scratch, sums, out):
    """Add what the cells of a row say of their relation's scales: Σ w p pᵀ (upper part), Σ w r p, Σ w ⟨p²⟩.

    With p_k the factor's part of θ, and r = z − b̄_i − b̄_j.
    """
    width, w = rows.width, _scale_of(array_of(rows.blocks, None, BLOCK)[b], row)
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    bias = array_of(scratch.row_bias, None, np.float64)[b]
    for k in range(rows.n_factors):
        u = w * mean[k]
        for other in range(k // LANES * LANES, width):
            out[k, other] += u * mean[other] * sums[k, other]
        out[width, k] += u * (sums[width + TARGET, k] - bias * sums[width + FIRST, k])
        out[width + 1, k] += w * (mean[k] * mean[k] + var[k]) * (sums[k, k] + sums[width + SPREAD, k])


def sum_row(rows_at, b, row, scratch_at, out_at):
    """Sum up the cells of one row in block b into the sums (Kp + 4, Kp) at `out_at`."""
    rows = record_at(rows_at, PASS)
    block, width = array_of(rows.blocks, None, BLOCK)[b], rows.width
    cells, covered = block.summed, array_of(block.summed.covered, None, np.bool_)
    out, n, sign = array_at(out_at, (width + 4, width), np.float64), _n_cells(cells, row), 1.0
    if cells.layout != FILLED and len(covered) > 0 and covered[row]:
        # The sums of a whole row are known. Its values are added, and then what it lists corrects them.
        base = array_of(block.base, (width + 4, width), np.float64)
        for k in range(width + 4):
            for j in range(width):
                out[k, j] = base[k, j]
        if cells.layout == LISTED:
            x = array_of(block.products, (row + 1, width + 3), np.float64)[row]
            for k in range(width):
                out[width + TARGET, k] += x[k]
            out[width + SCALARS, SQUARES] += x[width + 1] - 2.0 * x[width]
            out[width + SCALARS, TARGETS] += x[width + 2]
            sign = -1.0
    else:
        for k in range(width + 4):
            for j in range(width):
                out[k, j] = 0.0
        if n > rows.longest:
            pieces = array_of(rows.pieces, (rows.pieces.size // 4, 4), np.int64)
            parts = array_of(rows.parts, (len(pieces), width + 4, width), np.float64)
            for p in range(len(pieces)):
                if pieces[p, 0] == row and pieces[p, 1] == b:
                    for k in range(width + 4):
                        add_row(out, k, parts[p], k, 1.0, 0, width)
            return 0.0
    return call(rows.visit_cells, (rows_at, b, row, 0, n, sign, False, scratch_at, out_at))


@part
def _n_cells(cells, row):
    """Cells of one row to be looked at, holes included."""
    if cells.layout == FILLED:
        return cells.members.size if array_of(cells.covered, None, np.bool_)[row] else 0
    indptr = array_of(cells.indptr, None, np.int64)
    return indptr[row + 1] - indptr[row]


def form_row(rows_at, b, scratch_at, sums_at):
    """Σ w [(z − m)² + v] less Σ w (t² + b̃_j): the quadratic form of a row's cells at its parameters."""
    rows, scratch = record_at(rows_at, PASS), record_at(scratch_at, SCRATCH)
    width, sums = rows.width, array_at(sums_at, (rows.width + 4, rows.width), np.float64)
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    bias = array_of(scratch.row_bias, None, np.float64)[b]
    bias_var = array_of(scratch.row_bias_var, None, np.float64)[b]
    s, square, linear = sums[width + SCALARS], 0.0, 0.0
    for k in range(rows.n_factors):
        u, u_var = mean[k], var[k]
        # Of the symmetric matrix only the blocks of LANES on and right of the diagonal are there.
        begin = k // LANES * LANES
        within, beyond = dot_row(sums, k, mean, begin, begin + LANES), dot_row(sums, k, mean, begin + LANES, width)
        square += u * (within + 2.0 * beyond) + (u * u + u_var) * sums[width + SPREAD, k] + u_var * sums[k, k]
        linear += u * (sums[width + TARGET, k] - bias * sums[width + FIRST, k])
    return square - 2.0 * (linear + bias * s[TARGETS]) + (bias * bias + bias_var) * s[WEIGHT]


@part
def _bound_row(rows, b, row, before, scratch, sums):
    """The value of a row's cells in block b after the step.

    Least squares: Σ [(x − m)² + v + ε²], which cancellation spoils where the residuals are small. Others: the value
    before, less half of what the quadratic form has grown by; or, where `hold_row` has been, what it found.
    """
    block = array_of(rows.blocks, None, BLOCK)[b]
    s = sums[rows.width + SCALARS]
    after = call(rows.form_row, (place_of(rows), b, place_of(scratch), place_of(sums)))
    if block.least_squares:
        total = s[SQUARES] + s[BIAS_SPREAD] + after
        if total >= (PRECISE_SINGLE if rows.single else PRECISE_DOUBLE) * s[SQUARES]:
            return total + block.floor * s[WEIGHT]
    elif rows.guarded:
        return array_of(scratch.after, None, np.float64)[b]
    else:
        return s[VALUE] - 0.5 * (after - before) / block.slope
    return _measure_row(rows, b, row, scratch)


def hold_row(rows_at, row, scratch_at):
    """Solve for a row; where that lowers its share of the bound, go back halfway, some times, and then altogether.

    Cells are looked at again after each step, except least squares, of which the sums tell, and where the step is too
    short to lower anything: then only those whose value is wanted.
    """
    rows, scratch = record_at(rows_at, PASS), record_at(scratch_at, SCRATCH)
    width, n_blocks, blocks = rows.width, rows.blocks.size, array_of(rows.blocks, None, BLOCK)
    sums = array_of(scratch.row_sums, (n_blocks, width + 4, width), np.float64)
    before, after = array_of(scratch.before, None, np.float64), array_of(scratch.after, None, np.float64)
    wanted = array_of(rows.wanted, None, np.bool_)
    _keep_row(rows, scratch)
    call(rows.solve_row, (rows_at, row, scratch_at))
    if _is_short(rows, row, scratch):
        call(rows.copy_row, (rows_at, row, scratch_at, True))
        for b in range(n_blocks):
            if wanted[b] and not blocks[b].least_squares:
                after[b] = _measure_row(rows, b, row, scratch)
        return 0.0
    size = 0.0
    for b in range(n_blocks):
        if blocks[b].mild:
            _swap_row(rows, scratch)
            sums[b, width + SCALARS, VALUE] = _measure_row(rows, b, row, scratch)
            _swap_row(rows, scratch)
        size += abs(blocks[b].slope * sums[b, width + SCALARS, VALUE])
    slack = (SLACK_SINGLE if rows.single else SLACK_DOUBLE) * size
    for n in range(MAX_HALVINGS + 2):
        call(rows.copy_row, (rows_at, row, scratch_at, True))
        gain = _gain_of_prior(rows, row, scratch)
        for b in range(n_blocks):
            if blocks[b].least_squares:
                grown = call(rows.form_row, (rows_at, b, scratch_at, place_of(sums[b]))) - before[b]
                gain -= 0.5 * _scale_of(blocks[b], row) * grown
            else:
                after[b] = _measure_row(rows, b, row, scratch)
                gain += blocks[b].slope * (after[b] - sums[b, width + SCALARS, VALUE])
        if gain >= -slack:
            break
        _go_back(rows, scratch, 0.5 if n < MAX_HALVINGS else 1.0)
    return 0.0


@part
def _is_short(rows, row, scratch):
    """Whether a row's full step raises its share of the bound for sure, by what its sums tell; all blocks must be mild.

    A step moves each cell's m by δ and v by ε. With f as in `Likelihood.mild`, the quadratic form overestimates the
    value by at most Σ w [e^r (|δ| + |ε|/2)² − δ²]/2, r being the largest |δ| + |ε|/2; and it gains
    Σ w δ²/2 by the means, as they solve its system, and [s − 1 − log s]/2 >= (s − 1)²/(4 max(s, 1)) by each variance
    that was s times what it is. Cauchy and Schwarz for Σ w |δ| |ε|.
    """
    width, n_u, blocks = rows.width, rows.n_factors, array_of(rows.blocks, None, BLOCK)
    sums = array_of(scratch.row_sums, (len(blocks), width + 4, width), np.float64)
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    old_mean, old_var = array_of(scratch.old_mean, None, np.float64), array_of(scratch.old_var, None, np.float64)
    bias, bias_var = array_of(scratch.row_bias, None, np.float64), array_of(scratch.row_bias_var, None, np.float64)
    old_bias = array_of(scratch.old_bias, None, np.float64)
    old_bias_var = array_of(scratch.old_bias_var, None, np.float64)
    step = array_of(scratch.product, None, np.float64)
    length = gained = 0.0
    for k in range(width):
        step[k] = mean[k] - old_mean[k] if k < n_u else 0.0
        length += step[k] * step[k]
        if k < n_u and var[k] > 0.0:
            times = old_var[k] / var[k]
            gained += 0.5 * (times - 1.0) * (times - 1.0) / max(times, 1.0)
    length = math.sqrt(length)
    squares = spreads = farthest = widest = 0.0
    for b in range(len(blocks)):
        if blocks[b].least_squares:
            continue
        if not blocks[b].mild:
            return False
        S, moved, wider = sums[b], bias[b] - old_bias[b], abs(bias_var[b] - old_bias_var[b])
        reach, far, wide = array_of(blocks[b].reach, (4, width), np.float64), 0.0, wider
        for k in range(n_u):
            far += abs(step[k]) * math.sqrt(reach[0, k])
            # v = Σ_k [ũ_ik (ū_jk² + ũ_jk) + ū_ik² ũ_jk]: the means of the row move it too.
            wide += abs(var[k] - old_var[k]) * reach[1, k] + abs(mean[k] ** 2 - old_mean[k] ** 2) * reach[2, k]
        farthest = max(farthest, min(far, length * math.sqrt(reach[3, 0])) + abs(moved))
        widest = max(widest, wide)
        squares += moved * moved * S[width + SCALARS, WEIGHT]
        spreads += wider * S[width + SCALARS, WEIGHT]
        for k in range(n_u):
            begin = k // LANES * LANES
            beside = dot_row(S, k, step, begin, begin + LANES) + 2.0 * dot_row(S, k, step, begin + LANES, width)
            squares += step[k] * (beside + 2.0 * moved * S[width + FIRST, k])
            spreads += abs(var[k] - old_var[k]) * (S[k, k] + S[width + SPREAD, k])
            spreads += abs(mean[k] ** 2 - old_mean[k] ** 2) * S[width + SPREAD, k]
    reached = farthest + 0.5 * widest
    if reached > 1.0:
        return False
    squares = max(squares, 0.0)
    products = min(farthest * spreads, math.sqrt(squares * spreads * widest))
    return gained + squares >= math.exp(reached) * (squares + products + 0.25 * widest * spreads) - squares


@part
def _swap_row(rows, scratch):
    """Exchange the row's parameters with those before its step."""
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    old_mean, old_var = array_of(scratch.old_mean, None, np.float64), array_of(scratch.old_var, None, np.float64)
    for k in range(rows.n_factors):
        mean[k], old_mean[k] = old_mean[k], mean[k]
        var[k], old_var[k] = old_var[k], var[k]
    bias, bias_var = array_of(scratch.row_bias, None, np.float64), array_of(scratch.row_bias_var, None, np.float64)
    old_bias = array_of(scratch.old_bias, None, np.float64)
    old_bias_var = array_of(scratch.old_bias_var, None, np.float64)
    for b in range(rows.blocks.size):
        bias[b], old_bias[b] = old_bias[b], bias[b]
        bias_var[b], old_bias_var[b] = old_bias_var[b], bias_var[b]


@part
def _keep_row(rows, scratch):
    """Keep the row's parameters as they are before its step."""
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    old_mean, old_var = array_of(scratch.old_mean, None, np.float64), array_of(scratch.old_var, None, np.float64)
    for k in range(rows.n_factors):
        old_mean[k], old_var[k] = mean[k], var[k]
    bias, bias_var = array_of(scratch.row_bias, None, np.float64), array_of(scratch.row_bias_var, None, np.float64)
    old_bias = array_of(scratch.old_bias, None, np.float64)
    old_bias_var = array_of(scratch.old_bias_var, None, np.float64)
    for b in range(rows.blocks.size):
        old_bias[b], old_bias_var[b] = bias[b], bias_var[b]


@part
def _go_back(rows, scratch, share):
    """Move the row back by a share of its step: means by that much, variances in their precisions."""
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    old_mean, old_var = array_of(scratch.old_mean, None, np.float64), array_of(scratch.old_var, None, np.float64)
    for k in range(rows.n_factors):
        mean[k] += share * (old_mean[k] - mean[k])
        var[k] = _between(var[k], old_var[k], share)
    bias, bias_var = array_of(scratch.row_bias, None, np.float64), array_of(scratch.row_bias_var, None, np.float64)
    old_bias = array_of(scratch.old_bias, None, np.float64)
    old_bias_var = array_of(scratch.old_bias_var, None, np.float64)
    for b in range(rows.blocks.size):
        bias[b] += share * (old_bias[b] - bias[b])
        bias_var[b] = _between(bias_var[b], old_bias_var[b], share)


@part
def _between(new, old, share):
    """1/((1 − share)/new + share/old); where the old one is zero there is nothing to go back to."""
    return new * old / ((1.0 - share) * old + share * new) if old > 0.0 and new > 0.0 else new


@part
def _gain_of_prior(rows, row, scratch):
    """By how much −½ Σ precision [(ū − mean)² + ũ] + ½ Σ log ũ has grown in the row's step, biases included."""
    n_u = rows.n_factors
    center = array_of(rows.prior_mean, (row + 1, n_u), np.float64)[row if rows.own_means else 0]
    precision = array_of(rows.prior_precision, (row + 1, n_u), np.float64)[row if rows.own_precisions else 0]
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    old_mean, old_var = array_of(scratch.old_mean, None, np.float64), array_of(scratch.old_var, None, np.float64)
    gain, ratio = 0.0, 1.0
    for k in range(n_u):
        gain -= precision[k] * _growth(mean[k] - center[k], var[k], old_mean[k] - center[k], old_var[k])
        ratio *= var[k] / old_var[k] if old_var[k] > 0.0 else 1.0
        # One logarithm for four ratios: their product stays in the range of float64.
        if k % 4 == 3:
            gain += math.log(ratio)
            ratio = 1.0
    n_blocks = rows.blocks.size
    bias_centers = array_of(rows.bias_prior_mean, (row + 1, n_blocks), np.float64)
    bias_center = bias_centers[row if rows.own_bias_means else 0]
    bias_precisions = array_of(rows.bias_prior_precision, (row + 1, n_blocks), np.float64)
    bias_precision = bias_precisions[row if rows.own_bias_precisions else 0]
    bias, bias_var = array_of(scratch.row_bias, None, np.float64), array_of(scratch.row_bias_var, None, np.float64)
    old_bias = array_of(scratch.old_bias, None, np.float64)
    old_bias_var = array_of(scratch.old_bias_var, None, np.float64)
    for b in range(n_blocks):
        # The bias of a block without cells is zero before and after, and so is what it gains.
        away, was = bias[b] - bias_center[b], old_bias[b] - bias_center[b]
        gain -= bias_precision[b] * _growth(away, bias_var[b], was, old_bias_var[b])
        gain += math.log(bias_var[b] / old_bias_var[b]) if old_bias_var[b] > 0.0 and bias_var[b] > 0.0 else 0.0
    return 0.5 * (gain + math.log(ratio))


@part
def _growth(away, var, was, var_was):
    return away * away + var - was * was - var_was


@part
def _measure_row(rows, b, row, scratch):
    """The value of a row's cells in block b, cell by cell."""
    n, here = _n_cells(array_of(rows.blocks, None, BLOCK)[b].listed, row), place_of(scratch)
    return call(rows.visit_cells, (place_of(rows), b, row, 0, n, 1.0, True, here, scratch.row_sums.address))


def solve_row(rows_at, row, scratch_at):
    """New parameters of a row from its sums: variances 1/diag(A), and means that solve the system.

    Or, drawing, a row from N(A⁻¹h, A⁻¹), without variances; returns what `_log_weight` says of the system.
    """
    rows, scratch = record_at(rows_at, PASS), record_at(scratch_at, SCRATCH)
    biased = array_of(rows.biased, None, np.bool_)
    sums = array_of(scratch.row_sums, (rows.blocks.size, rows.width + 4, rows.width), np.float64)
    n_u, n_blocks, point = rows.n_factors, rows.blocks.size, rows.point
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    bias, bias_var = array_of(scratch.row_bias, None, np.float64), array_of(scratch.row_bias_var, None, np.float64)
    n = n_u + n_blocks
    A = array_of(scratch.system, (n + 2, n // LANES * LANES + LANES), np.float64)
    _fill_system(rows, row, scratch, A)
    for k in range(n):
        absent = A[k, k] < 0.0
        if absent:
            A[k, k] = 1.0
        spread = 0.0 if absent or point else 1.0 / A[k, k]
        if k < n_u:
            var[k] = spread
        else:
            bias_var[k - n_u] = spread
    reduce(A, n)
    weight = 0.0
    if rows.drawing:
        weight = _log_weight(A, n)
        _add_noise(rows, row, A, n)
    substitute(A, n)
    for k in range(n_u):
        mean[k] = A[n, k]
    for b in range(n_blocks):
        # Where there is none, noise may have been added all the same.
        bias[b] = A[n, n_u + b] if biased[b] and sums[b, rows.width + SCALARS, WEIGHT] > 0.0 else 0.0
    return weight


def propose_row(rows_at, row, scratch_at):
    """Propose a row from the Gaussian that quadratic forms at u make of it, q(u′|u), and take it as Metropolis does.

    With the sums S(u) of the cells that have no Gaussian form, F the form of `form_row`, f their summed values, and
    g(u) = ½ log det A − ½ hᵀA⁻¹h, the prior and all Gaussian cells cancel from the ratio that decides:
    log r = f(u′) − f(u) + ½ F(S(u), u′) − ½ F(S(u′), u) + g(u′) − g(u).
    """
    rows, scratch = record_at(rows_at, PASS), record_at(scratch_at, SCRATCH)
    width, n_blocks, blocks = rows.width, rows.blocks.size, array_of(rows.blocks, None, BLOCK)
    sums = array_of(scratch.row_sums, (n_blocks, width + 4, width), np.float64)
    _keep_row(rows, scratch)
    ratio = -call(rows.solve_row, (rows_at, row, scratch_at))
    for b in range(n_blocks):
        if blocks[b].proposed:
            sums_at, slope = place_of(sums[b]), blocks[b].slope
            ratio += 0.5 * call(rows.form_row, (rows_at, b, scratch_at, sums_at))
            ratio -= slope * sums[b, width + SCALARS, VALUE]
            call(rows.sum_row, (rows_at, b, row, scratch_at, sums_at))
            ratio += slope * sums[b, width + SCALARS, VALUE]
    ratio += _reversed_weight(rows, row, scratch)
    _swap_row(rows, scratch)
    for b in range(n_blocks):
        if blocks[b].proposed:
            ratio -= 0.5 * call(rows.form_row, (rows_at, b, scratch_at, place_of(sums[b])))
    zero = np.uint64(0)
    accepted, _ = philox(rows.key, zero, np.uint64(1), np.uint64(rows.first_row + row), zero)
    # Not a number: the proposal was absurd.
    if math.log(unit(accepted)) < ratio:
        _swap_row(rows, scratch)
    call(rows.copy_row, (rows_at, row, scratch_at, True))
    return 0.0


@part
def _reversed_weight(rows, row, scratch):
    """½ log det A − ½ hᵀA⁻¹h of the sums as they are."""
    n = rows.n_factors + rows.blocks.size
    A = array_of(scratch.system, (n + 2, n // LANES * LANES + LANES), np.float64)
    _fill_system(rows, row, scratch, A)
    for k in range(n):
        if A[k, k] < 0.0:
            A[k, k] = 1.0
    reduce(A, n)
    return _log_weight(A, n)


@part
def _log_weight(A, n):
    """½ log det A − ½ hᵀ A⁻¹ h, of a system that is reduced."""
    width, inverse, total = A.shape[1], A[n + 1], 0.0
    for k in range(n):
        total -= 0.5 * (math.log(inverse[k]) + A[k, width - 1] * A[k, width - 1] * inverse[k])
    return total


@part
def _add_noise(rows, row, A, n):
    """Add √D n to what U y is to be, A = Uᵀ D⁻¹ U and n ~ N(0, I): then y ~ N(A⁻¹ h, A⁻¹)."""
    width, inverse = A.shape[1], A[n + 1]
    zero, own = np.uint64(0), np.uint64(rows.first_row + row)
    for k in range(0, n, 2):
        first, second = philox(rows.key, np.uint64(k // 2), zero, own, zero)
        length, angle = math.sqrt(-2.0 * math.log(unit(first))), 2.0 * math.pi * unit(second)
        A[k, width - 1] += length * math.cos(angle) / math.sqrt(inverse[k])
        if k + 1 < n:
            A[k + 1, width - 1] += length * math.sin(angle) / math.sqrt(inverse[k + 1])


@inlined
def eliminate(A, n):
    """Solve [A | h] into row n by elimination, A = Uᵀ D⁻¹ U; A is symmetric, its upper part is used, h its last column.

    Row n is zero before; row n + 1 holds the inverses of the pivots.
    """
    reduce(A, n)
    substitute(A, n)


@inlined
def reduce(A, n):
    """U and, in the last column, U A⁻¹ h.

    Four rows are finished at a time and then taken off all that follow: what lies below the diagonal is left undefined.
    Row n + 1 holds the inverses of the pivots, and before them the diagonal.
    """
    width, inverse = A.shape[1], A[n + 1]
    for k in range(n):
        inverse[k] = A[k, k]
    for first in range(0, n, 4):
        last = min(first + 4, n)
        for k in range(first, last):
            for done in range(first, k):
                subtract_one(A, k, done, inverse, k // LANES * LANES, width)
            # Of a nearly collinear pair only rounding errors are left, of this size: no pivot is smaller.
            inverse[k] = 1.0 / max(A[k, k], PIVOT * inverse[k])
        for i in range(last, n):
            subtract_four(A, i, first, inverse, i // LANES * LANES, width)


@inlined
def substitute(A, n):
    """The y with U y = the last column, into row n, which is zero before."""
    width, y, inverse = A.shape[1], A[n], A[n + 1]
    for k in range(n - 1, -1, -1):
        # In the block of the diagonal what is not yet solved for is still zero.
        y[k] = (A[k, width - 1] - dot_row(A, k, y, k // LANES * LANES, width)) * inverse[k]


@inlined
def _fill_system(rows, row, scratch, A):
    """The augmented system [A | h] of a row's factors and biases; −1 on the diagonal marks an absent bias."""
    at = A.shape[1] - 1
    n_u, n_blocks, width = rows.n_factors, rows.blocks.size, rows.width
    blocks, biased = array_of(rows.blocks, None, BLOCK), array_of(rows.biased, None, np.bool_)
    mean = array_of(rows.prior_mean, (row + 1, n_u), np.float64)[row if rows.own_means else 0]
    precision = array_of(rows.prior_precision, (row + 1, n_u), np.float64)[row if rows.own_precisions else 0]
    bias_mean = array_of(rows.bias_prior_mean, (row + 1, n_blocks), np.float64)[row if rows.own_bias_means else 0]
    bias_precisions = array_of(rows.bias_prior_precision, (row + 1, n_blocks), np.float64)
    bias_precision = bias_precisions[row if rows.own_bias_precisions else 0]
    sums = array_of(scratch.row_sums, (n_blocks, width + 4, width), np.float64)
    for k in range(len(A)):
        for j in range(at + 1):
            A[k, j] = 0.0
    for b in range(n_blocks):
        S, w, i = sums[b], _scale_of(blocks[b], row), n_u + b
        for k in range(n_u):
            add_row(A, k, S, k, w, k // LANES * LANES, width)
            A[k, k] += w * S[width + SPREAD, k]
            A[k, at] += w * S[width + TARGET, k]
        fitted = biased[b] and S[width + SCALARS, WEIGHT] > 0.0
        if fitted:
            for k in range(n_u):
                A[k, i] = w * S[width + FIRST, k]
            A[i, at] = w * S[width + SCALARS, TARGETS] + bias_precision[b] * bias_mean[b]
        A[i, i] = w * S[width + SCALARS, WEIGHT] + bias_precision[b] if fitted else -1.0
    for k in range(n_u):
        A[k, k] += precision[k]
        A[k, at] += precision[k] * mean[k]


def sum_moments(rows_at, r, scratch_at):
    """Over range r of the rows: Σ [(ū − prior mean)² + ũ] and Σ log ũ of each factor, and Σ b̄, Σ (b̄² + b̃), Σ log b̃.

    Entities without a variance have no logarithm.
    """
    rows, scratch = record_at(rows_at, PASS), record_at(scratch_at, SCRATCH)
    edges = array_of(rows.edges, None, np.int64)
    start, end = edges[r], edges[r + 1]
    width, n_u, n_blocks, n_ranges = rows.width, rows.n_factors, rows.blocks.size, rows.edges.size - 1
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    bias, bias_var = array_of(scratch.row_bias, None, np.float64), array_of(scratch.row_bias_var, None, np.float64)
    product, present = array_of(scratch.product, None, np.float64), array_of(rows.present, None, np.bool_)
    sums = array_of(rows.sums, (n_ranges, 2, width), np.float64)[r]
    bias_sums = array_of(rows.bias_sums, (n_ranges, 3, n_blocks), np.float64)[r]
    centers = array_of(rows.prior_mean, (edges[-1], n_u), np.float64)
    for k in range(n_u):
        product[k] = 1.0
    order = array_of(rows.order, None, np.int64)
    for n in range(start, end):
        row = order[n] if len(order) > 0 else n
        call(rows.copy_row, (rows_at, row, scratch_at, False))
        center = centers[row if rows.own_means else 0]
        for k in range(n_u):
            # An entity without data is at zero, whatever its prior.
            away = mean[k] - center[k] if present[row] else 0.0
            sums[0, k] += away * away + var[k]
            product[k] *= var[k] if var[k] > 0.0 else 1.0
        # One logarithm for four variances: their product stays in the range of float64.
        if (n - start) % 4 == 3 or n == end - 1:
            for k in range(n_u):
                sums[1, k] += math.log(product[k])
                product[k] = 1.0
        for b in range(n_blocks):
            bias_sums[0, b] += bias[b]
            bias_sums[1, b] += bias[b] * bias[b] + bias_var[b]
            if bias_var[b] > 0.0:
                bias_sums[2, b] += math.log(bias_var[b])
    return 0.0


@kernel
def sum_pieces(passes, scratches):
    """Sum up the pieces of rows that are too long for one thread, each into its place of `parts`."""
    rows, scratch = passes[0], scratches[0]
    pieces, turn = array_of(rows.pieces, (rows.pieces.size // 4, 4), np.int64), array_of(rows.turn, None, np.int64)
    parts = array_of(rows.parts, (len(pieces), rows.width + 4, rows.width), np.float64)
    p = take(turn)
    while p < len(pieces):
        row, b, first, last = pieces[p, 0], pieces[p, 1], pieces[p, 2], pieces[p, 3]
        out = parts[p]
        call(rows.copy_row, (place_of(rows), row, place_of(scratch), False))
        call(rows.visit_cells, (place_of(rows), b, row, first, last, 1.0, False, place_of(scratch), place_of(out)))
        p = take(turn)


@kernel
def measure_rows(passes, scratches):
    """The value of the cells in the wanted blocks, at the present parameters, into `totals`.

    Least squares from their sums where those can be trusted, else cell by cell.
    """
    rows, scratch = passes[0], scratches[0]
    edges, turn = array_of(rows.edges, None, np.int64), array_of(rows.turn, None, np.int64)
    blocks, wanted = array_of(rows.blocks, None, BLOCK), array_of(rows.wanted, None, np.bool_)
    totals, n_blocks = array_of(rows.totals, (edges[-1], len(blocks)), np.float64), len(blocks)
    sums = array_of(scratch.row_sums, (rows.width + 4, rows.width), np.float64)
    r = take(turn)
    while r < len(edges) - 1:
        for row in range(edges[r], edges[r + 1]):
            call(rows.copy_row, (place_of(rows), row, place_of(scratch), False))
            for b in range(n_blocks):
                if wanted[b] and blocks[b].least_squares:
                    call(rows.sum_row, (place_of(rows), b, row, place_of(scratch), place_of(sums)))
                    totals[row, b] = _bound_row(rows, b, row, 0.0, scratch, sums)
                elif wanted[b]:
                    totals[row, b] = _measure_row(rows, b, row, scratch)
        r = take(turn)


@kernel
def settle_rows(passes, scratches):
    """The value of the cells in the wanted blocks into `totals`, and what scales need to know of them into `scaling`.

    For relations of the set with itself: only when all rows are swept do the sums of each hold.
    """
    rows, scratch = passes[0], scratches[0]
    edges, turn, width = array_of(rows.edges, None, np.int64), array_of(rows.turn, None, np.int64), rows.width
    blocks, wanted = array_of(rows.blocks, None, BLOCK), array_of(rows.wanted, None, np.bool_)
    groups, scaled = array_of(rows.groups, None, np.int64), rows.scaling.size > 0
    scaling = array_of(rows.scaling, (len(groups) - 1, len(blocks), width + 2, width), np.float64)
    totals = array_of(rows.totals, (edges[-1], len(blocks)), np.float64)
    sums = array_of(scratch.row_sums, (width + 4, width), np.float64)
    g = take(turn)
    while g < len(groups) - 1:
        for row in range(edges[groups[g]], edges[groups[g + 1]]):
            call(rows.copy_row, (place_of(rows), row, place_of(scratch), False))
            for b in range(len(blocks)):
                if not wanted[b]:
                    continue
                call(rows.sum_row, (place_of(rows), b, row, place_of(scratch), place_of(sums)))
                if blocks[b].least_squares:
                    totals[row, b] = _bound_row(rows, b, row, 0.0, scratch, sums)
                else:
                    totals[row, b] = sums[width + SCALARS, VALUE]
                if scaled:
                    _add_scaling(rows, b, row, scratch, sums, scaling[g, b])
        g = take(turn)


@kernel
def weigh_rows(passes, scratches):
    """What each factor is worth to the cells of the wanted blocks: gain and energy into `worth`, by range.

    With p = ū_ik ū_jk: gain = Σ [ p·wr + w p²/2 − w (variance of the factor's part of θ)/2 ], energy = Σ w p².
    """
    rows, scratch = passes[0], scratches[0]
    edges, turn = array_of(rows.edges, None, np.int64), array_of(rows.turn, None, np.int64)
    blocks, wanted, width = array_of(rows.blocks, None, BLOCK), array_of(rows.wanted, None, np.bool_), rows.width
    mean, var = array_of(scratch.row_mean, None, np.float64), array_of(scratch.row_var, None, np.float64)
    bias, fitted = array_of(scratch.row_bias, None, np.float64), array_of(scratch.product, (1, width), np.float64)
    S = array_of(scratch.row_sums, (width + 4, width), np.float64)
    worth = array_of(rows.worth, (len(edges) - 1, 2, len(blocks), width), np.float64)
    r = take(turn)
    while r < len(edges) - 1:
        for row in range(edges[r], edges[r + 1]):
            call(rows.copy_row, (place_of(rows), row, place_of(scratch), False))
            for b in range(len(blocks)):
                if not wanted[b]:
                    continue
                call(rows.sum_row, (place_of(rows), b, row, place_of(scratch), place_of(S)))
                # Σ w ū_j (ū_iᵀ ū_j + b_i): what the row's own parameters make of its sums.
                for k in range(width):
                    fitted[0, k] = bias[b] * S[width + FIRST, k]
                for k in range(width):
                    begin = k // LANES * LANES
                    fitted[0, k] += dot_row(S, k, mean, begin, width)
                    add_row(fitted, 0, S, k, mean[k], begin + LANES, width)
                for k in range(width):
                    u, u_var, w = mean[k], var[k], _scale_of(blocks[b], row)
                    square = S[k, k] * u * u
                    spread = (u * u + u_var) * S[width + SPREAD, k] + u_var * S[k, k]
                    gain = u * (S[width + TARGET, k] - fitted[0, k]) + 0.5 * (square - spread)
                    worth[r, 0, b, k] += w * gain
                    worth[r, 1, b, k] += w * square
        r = take(turn)


@kernel
def lean_rows(passes, scratches):
    """What the cells of each row say of its last factor, all else that the row has being integrated out: `leaning`.

    With C = A⁻¹ and y = A⁻¹h of the system with the factor's prior, N(m, 1/α): precision 1/C_kk − α, and what that
    precision times the mean would be, y_k/C_kk − α m.
    """
    rows, scratch = passes[0], scratches[0]
    edges, turn = array_of(rows.edges, None, np.int64), array_of(rows.turn, None, np.int64)
    blocks, present = array_of(rows.blocks, None, BLOCK), array_of(rows.present, None, np.bool_)
    n, last, width = rows.n_factors + len(blocks), rows.n_factors - 1, rows.width
    sums = array_of(scratch.row_sums, (len(blocks), width + 4, width), np.float64)
    A = array_of(scratch.system, (n + 2, n // LANES * LANES + LANES), np.float64)
    out, at = array_of(rows.leaning, (edges[-1], 2), np.float64), A.shape[1] - 1
    means = array_of(rows.prior_mean, (edges[-1] if rows.own_means else 1, rows.n_factors), np.float64)
    alphas = array_of(rows.prior_precision, (edges[-1] if rows.own_precisions else 1, rows.n_factors), np.float64)
    r = take(turn)
    while r < len(edges) - 1:
        for row in range(edges[r], edges[r + 1]):
            if not present[row]:
                continue
            call(rows.copy_row, (place_of(rows), row, place_of(scratch), False))
            for b in range(len(blocks)):
                call(rows.sum_row, (place_of(rows), b, row, place_of(scratch), place_of(sums[b])))
            found = 0.0
            for turned in range(2):
                _fill_system(rows, row, scratch, A)
                for k in range(n):
                    if A[k, k] < 0.0:
                        A[k, k] = 1.0
                    if turned == 1:
                        A[k, at] = 1.0 if k == last else 0.0
                reduce(A, n)
                substitute(A, n)
                found = A[n, last]
                if turned == 0:
                    out[row, 1] = found
            precision = alphas[row if rows.own_precisions else 0, last]
            out[row, 0] = max(1.0 / found - precision, 0.0)
            out[row, 1] = out[row, 1] / found - precision * means[row if rows.own_means else 0, last]
        r = take(turn)


@kernel
def base_rows(passes, scratches):
    """The sums of the first row of each wanted block, into its `base`."""
    rows, scratch = passes[0], scratches[0]
    blocks, wanted = array_of(rows.blocks, None, BLOCK), array_of(rows.wanted, None, np.bool_)
    for b in range(len(blocks)):
        if wanted[b]:
            call(rows.sum_row, (place_of(rows), b, 0, place_of(scratch), blocks[b].base.address))


@kernel
def next_range(turn):
    """The next range, for work that is not compiled."""
    return take(turn)
