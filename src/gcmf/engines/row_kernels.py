"""The fused pass over the rows of one entity set, compiled. Arrays in, arrays out; no options, no users.

Every row is computed by one thread, in one order, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gcmf.engines.cell_kernels import GAUSSIAN, lower_bound, quadratic

#: Cells gathered at once: the chunk stays in the first-level cache and bounds the error of float32 sums.
CHUNK = 64
#: Packed rows are padded to a multiple of this, so that inner loops have a fixed length.
LANES = 8
_JIT = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz", "arcp"}}


class Cells(NamedTuple):
    """The cells of one entity set, block after block; B blocks, d rows."""

    indptr: Any
    """(B, d+1) into partner."""
    partner: Any
    """Partner's row in the block, or its position in members where the block is filled."""
    value: Any
    """Standardised values of the blocks that hold floats, in the working precision."""
    code: Any
    """Values of the blocks that hold one byte each."""
    coded: Any
    """(B,) whether the block's values are bytes."""
    shift: Any
    """(B,) what to subtract from a cell's place in partner to find its value."""
    filled: Any
    """(B,) whether cells that are not listed are zeros."""
    members: Any
    """Partners of filled blocks."""
    members_ptr: Any
    """(B+1,) into members."""
    covered: Any
    """(B, d) whether a filled block has this row."""


class Terms(NamedTuple):
    """The numbers that belong to a block, (B,) each."""

    kind: Any
    """Likelihood code."""
    weight: Any
    """⟨τ⟩ or the curvature of the relation."""
    fill: Any
    """Value of the cells that a filled block does not list."""
    offset: Any
    """First packed partner row of the block."""
    biased: Any
    bias_mean: Any
    bias_precision: Any
    measured: Any


class Packed(NamedTuple):
    """Parameters as a sweep reads and writes them, in the working precision."""

    partner_mean: Any
    """(n, Kp) active columns, zero-padded."""
    partner_var: Any
    partner_bias: Any
    """(n,)."""
    partner_bias_var: Any
    mean: Any
    """(d, Kp), read and written."""
    var: Any
    bias: Any
    """(d, B), read and written."""
    bias_var: Any


class Chunk(NamedTuple):
    """Up to CHUNK cells of one row and their sums, in the working precision; one per thread."""

    idx: Any
    """Packed row of each cell's partner."""
    x: Any
    seen: Any
    """1 where the cell is observed, 0 for a hole."""
    w: Any
    wt: Any
    """Weight, and weight times pseudo-data less the partner's bias."""
    m: Any
    v: Any
    mean: Any
    var: Any
    """(CHUNK, Kp) the partners' parameters."""
    weighted: Any
    """w times the partners' means."""
    sum_outer: Any
    """(Kp, Kp), upper triangle by tiles."""
    sum_wt: Any
    sum_w: Any
    sum_wv: Any
    """(Kp,) Σ wt·ū_j, Σ w·ū_j and Σ w·ũ_j."""


@njit(**_JIT)
def _new_chunk(Kp, dtype):  # noqa: ANN001, ANN202 - compiled code: Numba infers the types
    return Chunk(
        np.empty(CHUNK, np.int64),
        np.empty(CHUNK, dtype),
        np.empty(CHUNK, dtype),
        np.empty(CHUNK, dtype),
        np.empty(CHUNK, dtype),
        np.empty(CHUNK, dtype),
        np.empty(CHUNK, dtype),
        np.zeros((CHUNK, Kp), dtype),
        np.zeros((CHUNK, Kp), dtype),
        np.zeros((CHUNK, Kp), dtype),
        np.zeros((Kp, Kp), dtype),
        np.zeros(Kp, dtype),
        np.zeros(Kp, dtype),
        np.zeros(Kp, dtype),
    )


@njit(**_JIT)
def _n_cells(cells, b, row):  # noqa: ANN001, ANN202
    if cells.filled[b]:
        return (cells.members_ptr[b + 1] - cells.members_ptr[b]) if cells.covered[b, row] else 0
    return cells.indptr[b, row + 1] - cells.indptr[b, row]


@njit(**_JIT)
def _load(cells, terms, b, row, start, n, chunk):  # noqa: ANN001, ANN202, PLR0913
    """Cells start..start+n of one row in one block: packed partner row, standardised value, observed or not."""
    idx, x, seen = chunk.idx, chunk.x, chunk.seen
    offset, coded, fill = terms.offset[b], cells.coded[b], terms.fill[b]
    lo, hi, shift = cells.indptr[b, row], cells.indptr[b, row + 1], cells.shift[b]
    if not cells.filled[b]:
        for c in range(n):
            p = lo + start + c
            idx[c] = offset + cells.partner[p]
            seen[c] = 1
            x[c] = cells.code[p - shift] if coded else cells.value[p - shift]
        return
    base = cells.members_ptr[b] + start
    for c in range(n):
        idx[c] = offset + cells.members[base + c]
        seen[c] = 1
        x[c] = fill
    p = lo + np.searchsorted(cells.partner[lo:hi], start)
    while p < hi and cells.partner[p] < start + n:
        c = cells.partner[p] - start
        if coded:
            hole = cells.code[p - shift] == 255
            value = fill if hole else float(cells.code[p - shift])
        else:
            hole = np.isnan(cells.value[p - shift])
            value = fill if hole else float(cells.value[p - shift])
        seen[c] = 0 if hole else 1
        x[c] = value
        p += 1


@njit(**_JIT)
def _gather(packed, n, chunk):  # noqa: ANN001, ANN202
    """Copy the partners' parameters of n cells next to each other."""
    for c in range(n):
        j = chunk.idx[c]
        for k in range(chunk.mean.shape[1]):
            chunk.mean[c, k] = packed.partner_mean[j, k]
            chunk.var[c, k] = packed.partner_var[j, k]


@njit(**_JIT)
def _predict(packed, row, b, n, chunk):  # noqa: ANN001, ANN202
    """Mean m and variance v of θ for n gathered cells."""
    u, u_var = packed.mean[row], packed.var[row]
    mine, mine_var = packed.bias[row, b], packed.bias_var[row, b]
    for c in range(n):
        m, v = mine + packed.partner_bias[chunk.idx[c]], mine_var + packed.partner_bias_var[chunk.idx[c]]
        for k in range(u.shape[0]):
            p, p_var = chunk.mean[c, k], chunk.var[c, k]
            m += u[k] * p
            v += (u[k] * u[k] + u_var[k]) * p_var + u_var[k] * p * p
        chunk.m[c] = m
        chunk.v[c] = v


@njit(**_JIT)
def _refresh(terms, packed, row, b, n, chunk):  # noqa: ANN001, ANN202, PLR0913
    """Weight and weighted target of n gathered cells, with the bound touching at the present θ."""
    kind, one = terms.kind[b], chunk.x[0] * 0 + 1
    weight = one * terms.weight[b]
    if kind == GAUSSIAN:
        for c in range(n):
            chunk.w[c] = weight * chunk.seen[c]
            chunk.wt[c] = chunk.w[c] * (chunk.x[c] - packed.partner_bias[chunk.idx[c]])
        return
    _predict(packed, row, b, n, chunk)
    for c in range(n):
        w, wz = quadratic(kind, chunk.x[c], chunk.m[c], chunk.v[c], weight, one)
        chunk.w[c] = w * chunk.seen[c]
        chunk.wt[c] = (wz - w * packed.partner_bias[chunk.idx[c]]) * chunk.seen[c]


@njit(**_JIT)
def _sum_chunk(n, chunk):  # noqa: ANN001, ANN202
    """Σ w ū_j ū_jᵀ, Σ wt ū_j, Σ w ū_j and Σ w ũ_j over n gathered cells."""
    Kp = chunk.mean.shape[1]
    chunk.sum_outer[:] = 0
    chunk.sum_wt[:] = 0
    chunk.sum_w[:] = 0
    chunk.sum_wv[:] = 0
    for c in range(n):
        w, wt = chunk.w[c], chunk.wt[c]
        for k in range(Kp):
            p = chunk.mean[c, k]
            chunk.weighted[c, k] = w * p
            chunk.sum_wt[k] += wt * p
            chunk.sum_w[k] += w * p
            chunk.sum_wv[k] += w * chunk.var[c, k]
    for c in range(n, (n + 3) // 4 * 4):
        # The last group of four is completed by cells of weight zero.
        chunk.weighted[c, :] = 0
    _sum_outer(n, chunk.mean, chunk.weighted, chunk.sum_outer)


@njit(**_JIT)
def _sum_outer(n, g, q, out):  # noqa: ANN001, ANN202
    """out += Σ_c q_c g_cᵀ: the upper triangle by tiles of LANES columns, four cells at a time."""
    Kp = g.shape[1]
    for c in range(0, n, 4):
        for k in range(Kp):
            q0, q1, q2, q3 = q[c, k], q[c + 1, k], q[c + 2, k], q[c + 3, k]
            for tile in range(k // LANES, Kp // LANES):
                for lane in range(LANES):
                    j = tile * LANES + lane
                    out[k, j] += q0 * g[c, j] + q1 * g[c + 1, j] + q2 * g[c + 2, j] + q3 * g[c + 3, j]


@njit(**_JIT)
def _accumulate(cells, terms, packed, row, b, n_u, chunk, A, h):  # noqa: ANN001, ANN202, PLR0913
    """Add one block's cells of one row to the system A y = h of the row, in float64; returns their number."""
    n_row, at = _n_cells(cells, b, row), n_u + b
    sum_w, sum_wt = 0.0, 0.0
    for start in range(0, n_row, CHUNK):
        n = min(CHUNK, n_row - start)
        _load(cells, terms, b, row, start, n, chunk)
        _gather(packed, n, chunk)
        _refresh(terms, packed, row, b, n, chunk)
        _sum_chunk(n, chunk)
        for c in range(n):
            sum_w += chunk.w[c]
            sum_wt += chunk.wt[c]
        for k in range(n_u):
            for j in range(k, n_u):
                A[j, k] += chunk.sum_outer[k, j]
            A[k, k] += chunk.sum_wv[k]
            h[k] += chunk.sum_wt[k]
        if terms.biased[b]:
            for k in range(n_u):
                A[at, k] += chunk.sum_w[k]
    if terms.biased[b] and sum_w > 0.0:
        A[at, at] = sum_w + terms.bias_precision[b]
        h[at] = sum_wt + terms.bias_precision[b] * terms.bias_mean[b]
        return n_row
    A[at, at] = -1.0  # marks a bias that this row does not have
    return n_row


@njit(**_JIT)
def _solve(A, h, n):  # noqa: ANN001, ANN202
    """Solve A y = h in place of h by Cholesky; A is symmetric positive definite, its lower triangle is read."""
    for i in range(n):
        for j in range(i):
            total = A[i, j]
            for k in range(j):
                total -= A[i, k] * A[j, k]
            A[i, j] = total * A[j, j]
        total = A[i, i]
        for k in range(i):
            total -= A[i, k] * A[i, k]
        # A rounding error may eat a pivot of a nearly collinear pair: a tiny pivot keeps the solve finite.
        A[i, i] = 1.0 / math.sqrt(max(total, 1e-14 * A[i, i]))
    for i in range(n):
        total = h[i]
        for k in range(i):
            total -= A[i, k] * h[k]
        h[i] = total * A[i, i]
    for i in range(n - 1, -1, -1):
        total = h[i] * A[i, i]
        h[i] = total
        for k in range(i):
            h[k] -= A[i, k] * total


@njit(**_JIT)
def _newton(A, h, n_u, B, damping, u, b):  # noqa: ANN001, ANN202, PLR0913
    """The paper's step, into h: u − λ ũ g for all columns at once, then the biases given the new u."""
    for k in range(n_u):
        g = -h[k]
        for j in range(n_u):
            g += A[max(k, j), min(k, j)] * u[j]
        for i in range(B):
            g += A[n_u + i, k] * b[i]
        h[k] = u[k] - damping * g / A[k, k]
    for i in range(n_u, n_u + B):
        for k in range(n_u):
            h[i] -= A[i, k] * h[k]
        h[i] /= A[i, i]


@njit(**_JIT)
def _write(A, h, row, n_u, packed, damping, point):  # noqa: ANN001, ANN202, PLR0913
    """Variances 1/diag(A), means from the system."""
    B = packed.bias.shape[1]
    for k in range(n_u):
        packed.var[row, k] = 0.0 if point else 1.0 / A[k, k]
    for b in range(B):
        fitted = A[n_u + b, n_u + b] > 0.0
        packed.bias_var[row, b] = 1.0 / A[n_u + b, n_u + b] if fitted and not point else 0.0
        if not fitted:
            A[n_u + b, n_u + b] = 1.0
    if damping > 0.0:
        _newton(A, h, n_u, B, damping, packed.mean[row], packed.bias[row])
    else:
        _solve(A, h, n_u + B)
    for k in range(n_u):
        packed.mean[row, k] = h[k]
    for b in range(B):
        packed.bias[row, b] = h[n_u + b]


@njit(**_JIT)
def _measure(cells, terms, packed, row, b, chunk):  # noqa: ANN001, ANN202, PLR0913
    """Sum of the cells' bounds of one row in one block, at its present parameters."""
    kind, weight = terms.kind[b], terms.weight[b]
    n_row, total = _n_cells(cells, b, row), 0.0
    for start in range(0, n_row, CHUNK):
        n = min(CHUNK, n_row - start)
        _load(cells, terms, b, row, start, n, chunk)
        _gather(packed, n, chunk)
        _predict(packed, row, b, n, chunk)
        for c in range(n):
            x, m, v = float(chunk.x[c]), float(chunk.m[c]), float(chunk.v[c])
            if kind == GAUSSIAN:
                total += ((x - m) * (x - m) + v) * chunk.seen[c]
            elif chunk.seen[c] > 0:
                total += lower_bound(kind, x, m, v, weight)
    return total


@njit(**_JIT)
def sweep_rows(lo, hi, cells, terms, packed, alpha, n_u, damping, point, totals):  # noqa: ANN001, ANN201, PLR0913
    """Update rows lo..hi exactly, or by a damped Newton step where damping > 0; measure what they complete.

    alpha (n_u,) precisions of the active columns; totals (d, B) receives each row's share of the bound.
    """
    B = terms.kind.shape[0]
    chunk = _new_chunk(packed.mean.shape[1], packed.mean.dtype)
    A, h = np.zeros((n_u + B, n_u + B)), np.zeros(n_u + B)
    for row in range(lo, hi):
        A[:] = 0.0
        h[:] = 0.0
        for k in range(n_u):
            A[k, k] = alpha[k]
        n_row = 0
        for b in range(B):
            n_row += _accumulate(cells, terms, packed, row, b, n_u, chunk, A, h)
        if n_row == 0:
            continue  # an entity without data: its zeros stand for "see the prior"
        _write(A, h, row, n_u, packed, damping, point)
        for b in range(B):
            if terms.measured[b]:
                totals[row, b] = _measure(cells, terms, packed, row, b, chunk)


@njit(**_JIT)
def measure_rows(lo, hi, cells, terms, packed, totals):  # noqa: ANN001, ANN201, PLR0913
    """Only the last step of `sweep_rows`: measure, move nothing."""
    chunk = _new_chunk(packed.mean.shape[1], packed.mean.dtype)
    for row in range(lo, hi):
        for b in range(terms.kind.shape[0]):
            if terms.measured[b]:
                totals[row, b] = _measure(cells, terms, packed, row, b, chunk)


@njit(**_JIT)
def weigh_rows(lo, hi, cells, terms, packed, gain, energy):  # noqa: ANN001, ANN201, PLR0913
    """What each factor is worth to the cells of each row and measured block, added to gain and energy (B, Kp).

    With p = ū_ik ū_jk: gain = Σ [ p·wr + w p²/2 − w (variance of the factor's part of θ)/2 ], energy = Σ w p².
    """
    Kp = packed.mean.shape[1]
    chunk = _new_chunk(Kp, packed.mean.dtype)
    for row in range(lo, hi):
        u, u_var = packed.mean[row], packed.var[row]
        for b in range(terms.kind.shape[0]):
            n_row = _n_cells(cells, b, row) if terms.measured[b] else 0
            for start in range(0, n_row, CHUNK):
                n = min(CHUNK, n_row - start)
                _load(cells, terms, b, row, start, n, chunk)
                _gather(packed, n, chunk)
                _predict(packed, row, b, n, chunk)
                _refresh(terms, packed, row, b, n, chunk)
                chunk.sum_wt[:] = 0
                chunk.sum_w[:] = 0
                for c in range(n):
                    w = chunk.w[c]
                    wr = chunk.wt[c] - w * (chunk.m[c] - packed.partner_bias[chunk.idx[c]])
                    for k in range(Kp):
                        g, g_var = chunk.mean[c, k], chunk.var[c, k]
                        p = u[k] * g
                        spread = (u[k] * u[k] + u_var[k]) * g_var + u_var[k] * g * g
                        chunk.sum_wt[k] += p * wr + w * (p * p - spread) / 2
                        chunk.sum_w[k] += w * p * p
                for k in range(Kp):
                    gain[b, k] += chunk.sum_wt[k]
                    energy[b, k] += chunk.sum_w[k]
