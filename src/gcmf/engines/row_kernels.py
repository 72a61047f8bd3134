"""The fused pass over the rows of one entity set, compiled. Arrays in, arrays out; no options, no users.

Every row is computed by one thread, in one order, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from gcmf.engines.cell_kernels import GAUSSIAN, QUADRATURE, lower_bound, quadratic
from gcmf.engines.chunk_kernels import CHUNK, JIT, load, n_cells, new_chunk
from gcmf.engines.simd import LANES, TILE, add_row, add_tile, predictor, scale_row

#: Cells summed in the working precision before the sums go to float64: bounds the error of float32.
FLUSH = 512
#: Halvings of a step before a row is left as it was.
MAX_HALVINGS = 8


@njit(**JIT)
def _set_own(packed, row, chunk):
    for k in range(packed.mean.shape[1]):
        u, u_var = packed.mean[row, k], packed.var[row, k]
        chunk.own[0, k] = u
        chunk.own[1, k] = u * u + u_var
        chunk.own[2, k] = u_var


@njit(**JIT)
def _predict(packed, row, b, n, chunk):
    """Mean m and variance v of θ for n loaded cells; `own` holds the row."""
    mine, mine_var = packed.bias[row, b], packed.bias_var[row, b]
    for c in range(n):
        j = chunk.idx[c]
        m, v = predictor(chunk.own, packed.partner_mean, packed.partner_var, j)
        chunk.m[c] = m + mine + packed.partner_bias[j]
        chunk.v[c] = v + mine_var + packed.partner_bias_var[j]


@njit(**JIT)
def _refresh(terms, packed, row, b, n, chunk):
    """Weight and weighted target of n loaded cells, with the bound touching at the present θ."""
    kind, one, Kp = terms.kind[b], chunk.x[0] * 0 + 1, chunk.sums.shape[1]
    weight, zero_weight = one * terms.weight[b], one * terms.zero_weight[b]
    if kind != GAUSSIAN:
        _predict(packed, row, b, n, chunk)
    for c in range(n):
        w, wz = weight, weight * chunk.x[c]
        if kind != GAUSSIAN:
            w, wz = quadratic(kind, chunk.x[c], chunk.m[c], chunk.v[c], weight, one)
            if chunk.x[c] == 0:
                w, wz = zero_weight * w, zero_weight * wz
        chunk.weighted[c, Kp] = (wz - w * packed.partner_bias[chunk.idx[c]]) * chunk.seen[c]
        chunk.weighted[c, Kp + 1] = w * chunk.seen[c]


@njit(**JIT)
def _sum_chunk(packed, n, chunk):
    """Add n refreshed cells to Σ w ū_j ū_jᵀ, Σ wt ū_j, Σ w ū_j and Σ w ũ_j."""
    Kp = chunk.sums.shape[1]
    for c in range(n):
        scale_row(chunk.weighted, c, packed.partner_mean, chunk.idx[c], chunk.weighted[c, Kp + 1], Kp)
    for k in range(0, Kp + TILE, TILE):
        # Rows of Σ w ū_j ū_jᵀ start at the diagonal; the extra tile of vectors is wanted whole.
        for j in range(k // LANES * LANES if k < Kp else 0, Kp, LANES):
            add_tile(chunk.sums, k, j, chunk.weighted, k, packed.partner_mean, chunk.idx, n)
    for j in range(0, Kp, LANES):
        add_row(chunk.sum_var, 0, j, chunk.weighted, Kp + 1, packed.partner_var, chunk.idx, n)


@njit(**JIT)
def _flush(n_u, chunk, total, A):
    """Move the sums of the chunks to float64."""
    flat, part = total.reshape(total.size), chunk.sums.reshape(chunk.sums.size)
    for i in range(flat.size):
        flat[i] += part[i]
        part[i] = 0
    for k in range(n_u):
        A[k, k] += chunk.sum_var[0, k]
    chunk.sum_var[:] = 0
    chunk.pending[0] = 0


@njit(**JIT)
def _accumulate(cells, terms, packed, row, b, n_u, chunk, total, A, h):
    """Add one block's cells of one row to the sums, and its bias to the system A y = h; whether there are any."""
    n_row, at, Kp = n_cells(cells, b, row), n_u + b, chunk.sums.shape[1]
    sum_w, sum_wt, n_seen = 0.0, 0.0, 0.0
    for start in range(0, n_row, CHUNK):
        n = min(CHUNK, n_row - start)
        load(cells, terms, b, row, start, n, chunk)
        _refresh(terms, packed, row, b, n, chunk)
        _sum_chunk(packed, n, chunk)
        for c in range(n):
            sum_wt += chunk.weighted[c, Kp]
            sum_w += chunk.weighted[c, Kp + 1]
            n_seen += chunk.seen[c]
        chunk.pending[0] += n
        if chunk.pending[0] >= FLUSH:
            _flush(n_u, chunk, total, A)
    fitted = terms.biased[b] and sum_w > 0.0
    for k in range(n_u):
        A[k, at] = total[Kp + 1, k] + chunk.sums[Kp + 1, k] if fitted else 0.0
        total[Kp + 1, k] = 0.0
        chunk.sums[Kp + 1, k] = 0
    # −1 marks a bias that this row does not have.
    A[at, at] = sum_w + terms.bias_precision[b] if fitted else -1.0
    h[at] = sum_wt + terms.bias_precision[b] * terms.bias_mean[b] if fitted else 0.0
    return n_seen > 0.0


@njit(**JIT)
def _solve(A, h, n):
    """Solve A y = h in place of h by Cholesky; A is symmetric positive definite, its upper triangle is used."""
    for k in range(n):
        # A rounding error may eat a pivot of a nearly collinear pair: a tiny pivot keeps the solve finite.
        inverse = 1.0 / math.sqrt(max(A[k, k], 1e-300))
        A[k, k] = inverse
        for j in range(k + 1, n):
            A[k, j] *= inverse
        for i in range(k + 1, n):
            factor = A[k, i]
            for j in range(i, n):
                A[i, j] -= factor * A[k, j]
        h[k] *= inverse
        for i in range(k + 1, n):
            h[i] -= A[k, i] * h[k]
    for k in range(n - 1, -1, -1):
        y = h[k]
        for j in range(k + 1, n):
            y -= A[k, j] * h[j]
        h[k] = y * A[k, k]


@njit(**JIT)
def _newton(A, h, n_u, B, damping, u, b):
    """The paper's step, into h: u − λ ũ g for all columns at once, then the biases given the new u."""
    for k in range(n_u):
        g = -h[k]
        for j in range(n_u):
            g += A[min(k, j), max(k, j)] * u[j]
        for i in range(B):
            g += A[k, n_u + i] * b[i]
        h[k] = u[k] - damping * g / A[k, k]
    for i in range(n_u, n_u + B):
        for k in range(n_u):
            h[i] -= A[k, i] * h[k]
        h[i] /= A[i, i]


@njit(**JIT)
def _write(A, h, row, n_u, packed, damping, point):
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


@njit(**JIT)
def _measure(cells, terms, packed, row, b, chunk):
    """Sum of the cells' bounds of one row in one block, at its present parameters."""
    kind, weight = terms.kind[b], terms.weight[b]
    n_row, total = n_cells(cells, b, row), 0.0
    for start in range(0, n_row, CHUNK):
        n = min(CHUNK, n_row - start)
        load(cells, terms, b, row, start, n, chunk)
        _predict(packed, row, b, n, chunk)
        for c in range(n):
            # Numba's float() would keep float32.
            x, m, v = np.float64(chunk.x[c]), np.float64(chunk.m[c]), np.float64(chunk.v[c])
            if kind == GAUSSIAN:
                total += ((x - m) * (x - m) + v) * chunk.seen[c]
            elif chunk.seen[c] > 0:
                total += lower_bound(kind, x, m, v, weight) * (terms.zero_weight[b] if x == 0 else 1.0)
    return total


@njit(**JIT)
def _row_value(cells, terms, packed, row, alpha, n_u, point, present, chunk):
    """The terms of the bound that depend on one row: its cells, its factors and its biases."""
    value = 0.0
    for k in range(n_u):
        u, u_var = np.float64(packed.mean[row, k]), np.float64(packed.var[row, k])
        value += -0.5 * alpha[k] * (u * u + u_var) + (0.0 if point else 0.5 * math.log(u_var))
    for b in range(terms.kind.shape[0]):
        part = _measure(cells, terms, packed, row, b, chunk)
        value += part if terms.kind[b] != GAUSSIAN else -0.5 * terms.weight[b] * part
        away, b_var = packed.bias[row, b] - terms.bias_mean[b], np.float64(packed.bias_var[row, b])
        if terms.biased[b] and present[b]:
            value -= 0.5 * terms.bias_precision[b] * (away * away + b_var)
            value += 0.0 if point else 0.5 * math.log(b_var)
    return value


@njit(**JIT)
def _guard(cells, terms, packed, row, alpha, n_u, point, present, before, saved, chunk):
    """Halve a row's step until its value does not fall; `saved` holds what the row was, `before` its value.

    Only cells without a quadratic bound need it: their exact expectation may be overshot.
    """
    Kp, B = packed.mean.shape[1], packed.bias.shape[1]
    slack = 1e-6 if packed.mean.itemsize == 4 else 1e-13
    for _ in range(MAX_HALVINGS):
        after = _row_value(cells, terms, packed, row, alpha, n_u, point, present, chunk)
        if after >= before - slack * abs(before):
            return
        for k in range(Kp):
            packed.mean[row, k] = (packed.mean[row, k] + saved[0, k]) / 2
            packed.var[row, k] = _halfway(packed.var[row, k], saved[1, k])
        for b in range(B):
            packed.bias[row, b] = (packed.bias[row, b] + saved[2, b]) / 2
            packed.bias_var[row, b] = _halfway(packed.bias_var[row, b], saved[3, b])
        _set_own(packed, row, chunk)
    for k in range(Kp):
        packed.mean[row, k], packed.var[row, k] = saved[0, k], saved[1, k]
    for b in range(B):
        packed.bias[row, b], packed.bias_var[row, b] = saved[2, b], saved[3, b]
    _set_own(packed, row, chunk)


@njit(**JIT)
def _halfway(new, old):
    """Halve the step of a variance in its precision."""
    return 2 * new * old / (new + old) if new + old > 0 else new


@njit(**JIT)
def _save(packed, row, saved):
    for k in range(packed.mean.shape[1]):
        saved[0, k], saved[1, k] = packed.mean[row, k], packed.var[row, k]
    for b in range(packed.bias.shape[1]):
        saved[2, b], saved[3, b] = packed.bias[row, b], packed.bias_var[row, b]


@njit(**JIT)
def sweep_rows(lo, hi, cells, terms, packed, alpha, n_u, damping, point, totals):
    """Update rows lo..hi exactly, or by a damped Newton step where damping > 0; measure what they complete.

    alpha (n_u,) precisions of the active columns; totals (d, B) receives each row's share of the bound.
    """
    B = terms.kind.shape[0]
    chunk = new_chunk(packed.mean.shape[1], packed.mean.dtype)
    Kp = packed.mean.shape[1]
    A, h, total = np.zeros((n_u + B, n_u + B)), np.zeros(n_u + B), np.zeros((Kp + TILE, Kp))
    present = np.zeros(B, np.bool_)
    guarded, saved, before = damping == 0.0 and (terms.kind == QUADRATURE).any(), np.zeros((4, max(Kp, B))), 0.0
    for row in range(lo, hi):
        A[:] = 0.0
        total[:] = 0.0
        _set_own(packed, row, chunk)
        for b in range(B):
            present[b] = _accumulate(cells, terms, packed, row, b, n_u, chunk, total, A, h)
        _flush(n_u, chunk, total, A)
        if not present.any():
            continue  # an entity without data: its zeros stand for "see the prior"
        for k in range(n_u):
            A[k, k] += alpha[k]
            h[k] = total[Kp, k]
            for j in range(k, n_u):
                A[k, j] += total[k, j]
        if guarded:
            _save(packed, row, saved)
            before = _row_value(cells, terms, packed, row, alpha, n_u, point, present, chunk)
        _write(A, h, row, n_u, packed, damping, point)
        _set_own(packed, row, chunk)
        if guarded:
            _guard(cells, terms, packed, row, alpha, n_u, point, present, before, saved, chunk)
        for b in range(B):
            if terms.measured[b]:
                totals[row, b] = _measure(cells, terms, packed, row, b, chunk)


@njit(**JIT)
def measure_rows(lo, hi, cells, terms, packed, totals):
    """Only the last step of `sweep_rows`: measure, move nothing."""
    chunk = new_chunk(packed.mean.shape[1], packed.mean.dtype)
    for row in range(lo, hi):
        _set_own(packed, row, chunk)
        for b in range(terms.kind.shape[0]):
            if terms.measured[b]:
                totals[row, b] = _measure(cells, terms, packed, row, b, chunk)


@njit(**JIT)
def weigh_rows(lo, hi, cells, terms, packed, gain, energy):
    """What each factor is worth to the cells of each row and measured block, added to gain and energy (B, Kp).

    With p = ū_ik ū_jk: gain = Σ [ p·wr + w p²/2 − w (variance of the factor's part of θ)/2 ], energy = Σ w p².
    """
    Kp = packed.mean.shape[1]
    chunk = new_chunk(Kp, packed.mean.dtype)
    part, part_energy = np.empty(Kp, packed.mean.dtype), np.empty(Kp, packed.mean.dtype)
    for row in range(lo, hi):
        _set_own(packed, row, chunk)
        for b in range(terms.kind.shape[0]):
            n_row = n_cells(cells, b, row) if terms.measured[b] else 0
            for start in range(0, n_row, CHUNK):
                n = min(CHUNK, n_row - start)
                load(cells, terms, b, row, start, n, chunk)
                _predict(packed, row, b, n, chunk)
                _refresh(terms, packed, row, b, n, chunk)
                part[:] = 0
                part_energy[:] = 0
                for c in range(n):
                    j, w = chunk.idx[c], chunk.weighted[c, Kp + 1]
                    wr = chunk.weighted[c, Kp] - w * (chunk.m[c] - packed.partner_bias[j])
                    for k in range(Kp):
                        u, g, g_var = chunk.own[0, k], packed.partner_mean[j, k], packed.partner_var[j, k]
                        p = u * g
                        spread = chunk.own[1, k] * g_var + chunk.own[2, k] * g * g
                        part[k] += p * wr + w * (p * p - spread) / 2
                        part_energy[k] += w * p * p
                for k in range(Kp):
                    gain[b, k] += part[k]
                    energy[b, k] += part_energy[k]
