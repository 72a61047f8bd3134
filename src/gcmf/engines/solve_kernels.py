"""What follows from the sums of a row, compiled: its new parameters, its bound, what its factors are worth.

Kernels that Python calls take the arrays of a Table and of an Own one by one: a NamedTuple costs as much to hand over
as a small set to sweep.
"""

from __future__ import annotations

import math

import numpy as np

from gcmf.engines.cell_kernels import GAUSSIAN, QUADRATURE
from gcmf.engines.chunk_kernels import JIT, MAKER, ONE_BY_ONE, SUMMED, Own, Table, block_at, new_chunk
from gcmf.engines.compiled import compiled
from gcmf.engines.row_kernels import (
    BIAS_SPREAD,
    BOUND,
    FIRST,
    SCALARS,
    SEEN,
    SPREAD,
    SQUARES,
    TARGET,
    TARGETS,
    WEIGHT,
    add_cells,
    measure_row,
    sum_row,
)
from gcmf.engines.simd import LANES, add_row, dot_row, subtract_four, subtract_one, take

#: A pivot is at least this share of its diagonal: what float64 can tell from zero.
PIVOT = 4e-16


@compiled(**JIT)
def _form(sums, n_u, pairs, bias, bias_var):
    """Σ w [(z − m)² + v] less Σ w (t² + b̃_j): the quadratic form of a row's cells at its parameters."""
    Kp = sums.shape[1]
    s, square, linear = sums[Kp + SCALARS], 0.0, 0.0
    for k in range(n_u):
        u, u_var = np.float64(pairs[k]), np.float64(pairs[Kp + k])
        # Of the symmetric matrix only the blocks of LANES on and right of the diagonal are there.
        block = k // LANES * LANES
        within, beyond = dot_row(sums, k, pairs, block, block + LANES), dot_row(sums, k, pairs, block + LANES, Kp)
        square += u * (within + 2.0 * beyond) + (u * u + u_var) * sums[Kp + SPREAD, k] + u_var * sums[k, k]
        linear += u * (sums[Kp + TARGET, k] - bias * sums[Kp + FIRST, k])
    return square - 2.0 * (linear + bias * s[TARGETS]) + (bias * bias + bias_var) * s[WEIGHT]


@compiled(**JIT)
def _times(sums, pairs, bias, out):
    """Σ w ū_j (ū_iᵀ ū_j + b_i): what a row's own parameters make of its sums, into out (1, Kp)."""
    Kp = sums.shape[1]
    for k in range(Kp):
        out[0, k] = bias * sums[Kp + FIRST, k]
    for k in range(Kp):
        block = k // LANES * LANES
        out[0, k] += dot_row(sums, k, pairs, block, Kp)
        add_row(out, 0, sums, k, np.float64(pairs[k]), block + LANES, Kp)


@compiled(**JIT)
def _fill(sums, scale, alpha, n_u, layers, A, at):
    """The augmented system [A | h] of a row's factors and biases; −1 on the diagonal marks an absent bias."""
    B, Kp = sums.shape[0], sums.shape[2]
    A[:] = 0.0
    for b in range(B):
        S, w, i = sums[b], scale[b], n_u + b
        for k in range(n_u):
            add_row(A, k, S, k, w, k // LANES * LANES, Kp)
            A[k, k] += w * S[Kp + SPREAD, k]
            A[k, at] += w * S[Kp + TARGET, k]
        fitted = layers[b, 0] > 0.0 and S[Kp + SCALARS, WEIGHT] > 0.0
        if fitted:
            for k in range(n_u):
                A[k, i] = w * S[Kp + FIRST, k]
            A[i, at] = w * S[Kp + SCALARS, TARGETS] + layers[b, 2] * layers[b, 1]
        A[i, i] = w * S[Kp + SCALARS, WEIGHT] + layers[b, 2] if fitted else -1.0
    for k in range(n_u):
        A[k, k] += alpha[k]


@compiled(**JIT)
def _solve(A, n, at):
    """Solve into column `at` by elimination, A = Uᵀ D⁻¹ U; A is symmetric positive definite, its upper part is used.

    Four rows are finished at a time and then taken off all that follow: what lies below the diagonal is left undefined.
    The last row of A holds the inverses of the pivots (before them, the diagonal), the one before it the solution while
    it is found.
    """
    width, inverse, y = A.shape[1], A[n + 1], A[n]
    for k in range(n):
        inverse[k] = A[k, k]
    for first in range(0, n, 4):
        last = min(first + 4, n)
        for k in range(first, last):
            for row in range(first, k):
                subtract_one(A, k, row, inverse, k // LANES * LANES, width)
            # Of a nearly collinear pair only rounding errors are left, of this size: no pivot is smaller.
            inverse[k] = 1.0 / max(A[k, k], PIVOT * inverse[k])
        for i in range(last, n):
            subtract_four(A, i, first, inverse, i // LANES * LANES, width)
    y[:] = 0.0
    for k in range(n - 1, -1, -1):
        # In the block of the diagonal what is not yet solved for is still zero.
        y[k] = (A[k, at] - dot_row(A, k, y, k // LANES * LANES, width)) * inverse[k]
    for k in range(n):
        A[k, at] = y[k]


@compiled(**JIT)
def _newton(A, n_u, B, damping, pairs, bias, at):
    """The paper's step, into column `at`: u − λ ũ g for all columns at once, then the biases given the new u."""
    for k in range(n_u):
        g = -A[k, at]
        for j in range(n_u):
            g += A[min(k, j), max(k, j)] * pairs[j]
        for i in range(B):
            g += A[k, n_u + i] * bias[i]
        A[k, at] = pairs[k] - damping * g / A[k, k]
    for i in range(n_u, n_u + B):
        for k in range(n_u):
            A[i, at] -= A[k, i] * A[k, at]
        A[i, at] /= A[i, i]


@compiled(**JIT)
def _write(A, n_u, B, damping, point, pairs, bias, bias_var):
    """Variances 1/diag(A), means from the system."""
    Kp, at = len(pairs) // 2, A.shape[1] - 1
    for k in range(n_u):
        pairs[Kp + k] = 0.0 if point else 1.0 / A[k, k]
    for b in range(B):
        fitted = A[n_u + b, n_u + b] > 0.0
        bias_var[b] = 1.0 / A[n_u + b, n_u + b] if fitted and not point else 0.0
        if not fitted:
            A[n_u + b, n_u + b] = 1.0
    if damping > 0.0:
        _newton(A, n_u, B, damping, pairs, bias, at)
    else:
        _solve(A, n_u + B, at)
    for k in range(n_u):
        pairs[k] = A[k, at]
    for b in range(B):
        bias[b] = A[n_u + b, at]


@compiled(**JIT)
def _bound(sums, kind, n_u, pairs, bias, bias_var, before, precise):
    """The bound of a row's cells in one block after the step, and whether it can be trusted.

    Gaussian: Σ [(x − m)² + v], which cancellation spoils where the residuals are small. Others: the bound before,
    less half of what the quadratic form has grown by, if that form is a bound.
    """
    Kp = sums.shape[1]
    s, after = sums[Kp + SCALARS], _form(sums, n_u, pairs, bias, bias_var)
    if kind != GAUSSIAN:
        return s[BOUND] - 0.5 * (after - before), kind != QUADRATURE
    total = s[SQUARES] + s[BIAS_SPREAD] + after
    return total, total >= precise * s[SQUARES]


@compiled(**JIT)
def _precise(own):
    """Residuals below this share of the squares are not left to the sums."""
    return 2e-2 if own.pairs.itemsize == 4 else 1e-6


@compiled(**JIT)
def _sum_moments(lo, hi, own, product, sums, bias_sums):
    """Σ (ū² + ũ) and Σ log ũ of each column over rows lo..hi, and Σ b̄, Σ (b̄² + b̃) and Σ log b̃ of each block.

    Entities without a variance have no logarithm.
    """
    Kp, B = len(product), own.bias.shape[1]
    for first in range(lo, hi, 4):
        # One logarithm for four variances: their product stays in the range of float64.
        product[:] = 1.0
        for row in range(first, min(first + 4, hi)):
            for k in range(Kp):
                u, v = np.float64(own.pairs[row, k]), np.float64(own.pairs[row, Kp + k])
                sums[0, k] += u * u + v
                product[k] *= v if v > 0.0 else 1.0
        for k in range(Kp):
            sums[1, k] += math.log(product[k])
    for row in range(lo, hi):
        for b in range(B):
            mean, var = np.float64(own.bias[row, b]), np.float64(own.bias_var[row, b])
            bias_sums[0, b] += mean
            bias_sums[1, b] += mean * mean + var
            if var > 0.0:
                bias_sums[2, b] += math.log(var)


@compiled(**JIT)
def _is_piece(pieces, piece, row, b):
    return piece < len(pieces) and pieces[piece, 0] == row and pieces[piece, 1] == b


@compiled(**JIT)
def _sweep_range(lo, hi, table, scale, layers, alpha, own, damping, point, measured, pieces, parts, totals, scratch):
    """Update rows lo..hi and bound what they complete."""
    B, Kp, n_u, dtype = len(scale), own.pairs.shape[1] // 2, len(alpha), own.pairs.dtype
    chunk, S, A, before = scratch
    at, piece = A.shape[1] - 1, 0
    while piece < len(pieces) and pieces[piece, 0] < lo:
        piece += 1
    for row in range(lo, hi):
        present = False
        pairs, bias, bias_var = own.pairs[row], own.bias[row], own.bias_var[row]
        for b in range(B):
            cells, rule, partners, whole = block_at(table, b, Kp, dtype, SUMMED)
            if _is_piece(pieces, piece, row, b):
                S[b] = 0.0
                while _is_piece(pieces, piece, row, b):
                    for k in range(Kp + 4):
                        add_row(S[b], k, parts[piece], k, 1.0, 0, Kp)
                    piece += 1
            else:
                sum_row(cells, rule, own, partners, whole, row, b, chunk, S[b])
            present |= S[b, Kp + SCALARS, SEEN] > 0.0
            if measured[b] and rule.kind != GAUSSIAN:
                before[b] = _form(S[b], n_u, pairs, bias[b], bias_var[b])
        if not present:
            continue  # an entity without data: its zeros stand for "see the prior"
        _fill(S, scale, alpha, n_u, layers, A, at)
        _write(A, n_u, B, damping, point, pairs, bias, bias_var)
        for b in range(B):
            if measured[b]:
                kind = table.codes[b, 1]
                total, trusted = _bound(S[b], kind, n_u, pairs, bias[b], bias_var[b], before[b], _precise(own))
                if not trusted:
                    cells, rule, partners, _ = block_at(table, b, Kp, dtype, ONE_BY_ONE)
                    total = measure_row(cells, rule, own, partners, row, b, chunk)
                totals[row, b] = total


@compiled(**MAKER)
def sweep_rows(
    edges, turn, places, codes, numbers, own_pairs, own_bias, own_bias_var, scale, layers, alpha, damping, point,
    measured, pieces, parts, totals, sums, bias_sums,
):  # fmt: skip
    """Update rows exactly, or by a damped Newton step where damping > 0; bound what they complete.

    Range r of the rows begins at edges[r]; threads share the counter `turn` and take one range after the other. scale
    (B,) multiplies the sums; layers (B, 3): whether a block has biases, their prior mean and precision; alpha (n_u,)
    the precisions of the active columns; pieces and parts: see `sum_pieces`. totals (d, B) receives the bound of each
    row's cells in the measured blocks, sums (R, 2, Kp) and bias_sums (R, 3, B) what `_sum_moments` finds in each range.
    """
    table, own = Table(places, codes, numbers), Own(own_pairs, own_bias, own_bias_var)
    B, Kp, n_u = len(scale), own.pairs.shape[1] // 2, len(alpha)
    S, A = np.zeros((B, Kp + 4, Kp)), np.zeros((n_u + B + 2, (n_u + B + LANES) // LANES * LANES))
    scratch, product = (new_chunk(Kp, own.pairs.dtype), S, A, np.zeros(B)), np.zeros(Kp)
    r = take(turn)
    while r < len(edges) - 1:
        lo, hi = edges[r], edges[r + 1]
        _sweep_range(lo, hi, table, scale, layers, alpha, own, damping, point, measured, pieces, parts, totals, scratch)
        _sum_moments(lo, hi, own, product, sums[r], bias_sums[r])
        r = take(turn)


@compiled(**JIT)
def _sum_piece(table, own, piece, chunk, out):
    """The cells of one piece of a row into out (Kp + 4, Kp)."""
    row, b, first, last = piece
    cells, rule, partners, _ = block_at(table, b, own.pairs.shape[1] // 2, own.pairs.dtype, SUMMED)
    add_cells(cells, rule, own, partners, row, b, (first, last), 1.0, chunk, out)


@compiled(**MAKER)
def sum_pieces(edges, turn, places, codes, numbers, own_pairs, own_bias, own_bias_var, pieces, parts):
    """Sum up the pieces of rows that are too long for one thread, each into its place of parts (P, Kp + 4, Kp).

    pieces (P, 4): row, block, first and last cell, ordered by row and block.
    """
    table, own = Table(places, codes, numbers), Own(own_pairs, own_bias, own_bias_var)
    chunk = new_chunk(own.pairs.shape[1] // 2, own.pairs.dtype)
    r = take(turn)
    while r < len(edges) - 1:
        for p in range(edges[r], edges[r + 1]):
            piece = pieces[p, 0], pieces[p, 1], pieces[p, 2], pieces[p, 3]
            _sum_piece(table, own, piece, chunk, parts[p])
        r = take(turn)


@compiled(**JIT)
def _measure_range(lo, hi, table, own, wanted, rows, totals, scratch):
    """The bound of the cells of rows lo..hi, into totals."""
    Kp, dtype = own.pairs.shape[1] // 2, own.pairs.dtype
    chunk, sums = scratch
    for row in range(lo, hi):
        if len(rows) and not rows[row]:
            continue
        pairs, bias, bias_var = own.pairs[row], own.bias[row], own.bias_var[row]
        for b in range(len(wanted)):
            if not wanted[b]:
                continue
            cells, rule, partners, whole = block_at(table, b, Kp, dtype, SUMMED)
            total, trusted = 0.0, False
            if rule.kind == GAUSSIAN:
                sum_row(cells, rule, own, partners, whole, row, b, chunk, sums)
                total, trusted = _bound(sums, rule.kind, Kp, pairs, bias[b], bias_var[b], 0.0, _precise(own))
            if not trusted:
                cells, rule, partners, _ = block_at(table, b, Kp, dtype, ONE_BY_ONE)
                total = measure_row(cells, rule, own, partners, row, b, chunk)
            totals[row, b] = total


@compiled(**MAKER)
def measure_rows(edges, turn, places, codes, numbers, own_pairs, own_bias, own_bias_var, wanted, rows, totals):
    """The bound of the cells of rows in the wanted blocks, at the present parameters, into totals (d, B).

    Gaussian blocks from their sums where those can be trusted, else cell by cell. rows (d,): which rows; none: all.
    """
    table, own = Table(places, codes, numbers), Own(own_pairs, own_bias, own_bias_var)
    Kp = own.pairs.shape[1] // 2
    scratch = new_chunk(Kp, own.pairs.dtype), np.zeros((Kp + 4, Kp))
    r = take(turn)
    while r < len(edges) - 1:
        _measure_range(edges[r], edges[r + 1], table, own, wanted, rows, totals, scratch)
        r = take(turn)


@compiled(**JIT)
def _weigh_range(lo, hi, table, scale, own, wanted, worth, scratch):
    """What each factor is worth to the cells of rows lo..hi, added to worth (2, B, Kp)."""
    Kp, dtype = own.pairs.shape[1] // 2, own.pairs.dtype
    chunk, S, fitted = scratch
    for row in range(lo, hi):
        pairs = own.pairs[row]
        for b in range(len(wanted)):
            if not wanted[b]:
                continue
            cells, rule, partners, whole = block_at(table, b, Kp, dtype, SUMMED)
            sum_row(cells, rule, own, partners, whole, row, b, chunk, S)
            _times(S, pairs, own.bias[row, b], fitted)
            for k in range(Kp):
                u, u_var = np.float64(pairs[k]), np.float64(pairs[Kp + k])
                own_square = S[k, k] * u * u
                spread = (u * u + u_var) * S[Kp + SPREAD, k] + u_var * S[k, k]
                gain = u * (S[Kp + TARGET, k] - fitted[0, k]) + 0.5 * (own_square - spread)
                worth[0, b, k] += scale[b] * gain
                worth[1, b, k] += scale[b] * own_square


@compiled(**MAKER)
def weigh_rows(edges, turn, places, codes, numbers, own_pairs, own_bias, own_bias_var, scale, wanted, worth):
    """What each factor is worth to the cells of the wanted blocks: gain and energy into worth (R, 2, B, Kp), by range.

    With p = ū_ik ū_jk: gain = Σ [ p·wr + w p²/2 − w (variance of the factor's part of θ)/2 ], energy = Σ w p².
    """
    table, own = Table(places, codes, numbers), Own(own_pairs, own_bias, own_bias_var)
    Kp = own.pairs.shape[1] // 2
    scratch = new_chunk(Kp, own.pairs.dtype), np.zeros((Kp + 4, Kp)), np.zeros((1, Kp))
    r = take(turn)
    while r < len(edges) - 1:
        _weigh_range(edges[r], edges[r + 1], table, scale, own, wanted, worth[r], scratch)
        r = take(turn)


@compiled(**MAKER)
def base_rows(places, codes, numbers, own_pairs, own_bias, own_bias_var, wanted, out):
    """The sums of one row that each wanted block holds, into out (B, Kp + 4, Kp)."""
    table, own = Table(places, codes, numbers), Own(own_pairs, own_bias, own_bias_var)
    Kp, dtype = own.pairs.shape[1] // 2, own.pairs.dtype
    chunk = new_chunk(Kp, dtype)
    for b in range(len(wanted)):
        if wanted[b]:
            cells, rule, partners, whole = block_at(table, b, Kp, dtype, SUMMED)
            sum_row(cells, rule, own, partners, whole, 0, b, chunk, out[b])


@compiled(**MAKER)
def moment_rows(edges, turn, own_pairs, own_bias, own_bias_var, sums, bias_sums):
    """The sums of `sweep_rows` alone, for rows that were changed since."""
    own, product = Own(own_pairs, own_bias, own_bias_var), np.zeros(own_pairs.shape[1] // 2)
    r = take(turn)
    while r < len(edges) - 1:
        _sum_moments(edges[r], edges[r + 1], own, product, sums[r], bias_sums[r])
        r = take(turn)


@compiled(**MAKER)
def next_range(turn):
    """The next range, for work that is not compiled."""
    return take(turn)
