"""What follows from the sums of a row, compiled: its new parameters, its bound, what its factors are worth."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from gcmf.engines.cell_kernels import GAUSSIAN, QUADRATURE
from gcmf.engines.chunk_kernels import JIT, ONE_BY_ONE, SUMMED, block_at, new_chunk
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
    measure_row,
    sum_row,
)
from gcmf.engines.simd import LANES, subtract_four, subtract_one


@njit(**JIT)
def _form(sums, n_u, pairs, bias, bias_var):
    """Σ w [(z − m)² + v] less Σ w (t² + b̃_j): the quadratic form of a row's cells at its parameters."""
    Kp = sums.shape[1]
    s, square, linear = sums[Kp + SCALARS], 0.0, 0.0
    for k in range(n_u):
        u, u_var = np.float64(pairs[k]), np.float64(pairs[Kp + k])
        cross = 0.0
        for j in range(k + 1, n_u):
            cross += sums[k, j] * pairs[j]
        square += u * (2.0 * cross + sums[k, k] * u) + (u * u + u_var) * sums[Kp + SPREAD, k] + u_var * sums[k, k]
        linear += u * (sums[Kp + TARGET, k] - bias * sums[Kp + FIRST, k])
    return square - 2.0 * (linear + bias * s[TARGETS]) + (bias * bias + bias_var) * s[WEIGHT]


@njit(**JIT)
def _fill(sums, scale, alpha, n_u, layers, A, at):
    """The augmented system [A | h] of a row's factors and biases; −1 on the diagonal marks an absent bias."""
    B, Kp = sums.shape[0], sums.shape[2]
    A[:] = 0.0
    for b in range(B):
        S, w, i = sums[b], scale[b], n_u + b
        for k in range(n_u):
            for j in range(k, n_u):
                A[k, j] += w * S[k, j]
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


@njit(**JIT)
def _solve(A, n, at):
    """Solve by Cholesky into column `at`; A is symmetric positive definite, its upper triangle is used.

    Four rows are finished at a time and then taken off all that follow: what lies below the diagonal is left undefined.
    """
    width = A.shape[1]
    for first in range(0, n, 4):
        last = min(first + 4, n)
        for k in range(first, last):
            for row in range(first, k):
                subtract_one(A, k, row, k // LANES * LANES, width)
            # A rounding error may eat a pivot of a nearly collinear pair: a tiny pivot keeps the solve finite.
            inverse = 1.0 / math.sqrt(max(A[k, k], 1e-300))
            for j in range(k + 1, width):
                A[k, j] *= inverse
            A[k, k] = inverse
        for i in range(last, n):
            subtract_four(A, i, first, i // LANES * LANES, width)
    # The last row of A holds the solution while it is found: a column would be read in strides.
    y = A[n]
    for k in range(n - 1, -1, -1):
        rest = A[k, at]
        for j in range(k + 1, n):
            rest -= A[k, j] * y[j]
        y[k] = rest * A[k, k]
    for k in range(n):
        A[k, at] = y[k]


@njit(**JIT)
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


@njit(**JIT)
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


@njit(**JIT)
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


@njit(**JIT)
def _precise(own):
    """Residuals below this share of the squares are not left to the sums."""
    return 2e-2 if own.pairs.itemsize == 4 else 1e-9


@njit(**JIT)
def sweep_rows(lo, hi, table, scale, layers, alpha, own, damping, point, measured, totals):
    """Update rows lo..hi exactly, or by a damped Newton step where damping > 0; bound what they complete.

    scale (B,) multiplies the sums; layers (B, 3): whether a block has biases, their prior mean and precision; alpha
    (n_u,) the precisions of the active columns. totals (d, B) receives the bound of each row's cells in the measured
    blocks.
    """
    B, Kp, n_u = len(scale), own.pairs.shape[1] // 2, len(alpha)
    dtype = own.pairs.dtype
    chunk, sums, before = new_chunk(Kp, dtype), np.zeros((B, Kp + 4, Kp)), np.zeros(B)
    A = np.zeros((n_u + B + 1, (n_u + B + LANES) // LANES * LANES))
    at = A.shape[1] - 1
    for row in range(lo, hi):
        present = False
        pairs, bias, bias_var = own.pairs[row], own.bias[row], own.bias_var[row]
        for b in range(B):
            cells, rule, partners, whole = block_at(table, b, Kp, dtype, SUMMED)
            sum_row(cells, rule, own, partners, whole, row, b, chunk, sums[b])
            present |= sums[b, Kp + SCALARS, SEEN] > 0.0
            if measured[b] and rule.kind != GAUSSIAN:
                before[b] = _form(sums[b], n_u, pairs, bias[b], bias_var[b])
        if not present:
            continue  # an entity without data: its zeros stand for "see the prior"
        _fill(sums, scale, alpha, n_u, layers, A, at)
        _write(A, n_u, B, damping, point, pairs, bias, bias_var)
        for b in range(B):
            if measured[b]:
                kind = table.codes[b, 1]
                total, trusted = _bound(sums[b], kind, n_u, pairs, bias[b], bias_var[b], before[b], _precise(own))
                if not trusted:
                    cells, rule, partners, _ = block_at(table, b, Kp, dtype, ONE_BY_ONE)
                    total = measure_row(cells, rule, own, partners, row, b, chunk)
                totals[row, b] = total


@njit(**JIT)
def measure_rows(lo, hi, table, own, wanted, rows, totals):
    """The bound of the cells of rows lo..hi in the wanted blocks, at the present parameters, into totals (d, B).

    Gaussian blocks from their sums where those can be trusted, else cell by cell. rows (d,): which rows; none: all.
    """
    B, Kp, dtype = len(wanted), own.pairs.shape[1] // 2, own.pairs.dtype
    chunk, sums = new_chunk(Kp, dtype), np.zeros((Kp + 4, Kp))
    for row in range(lo, hi):
        if len(rows) and not rows[row]:
            continue
        pairs, bias, bias_var = own.pairs[row], own.bias[row], own.bias_var[row]
        for b in range(B):
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


@njit(**JIT)
def weigh_rows(lo, hi, table, scale, own, wanted, gain, energy):
    """What each factor is worth to the cells of rows lo..hi in the wanted blocks, added to gain and energy (B, Kp).

    With p = ū_ik ū_jk: gain = Σ [ p·wr + w p²/2 − w (variance of the factor's part of θ)/2 ], energy = Σ w p².
    """
    B, Kp, dtype = len(wanted), own.pairs.shape[1] // 2, own.pairs.dtype
    chunk, S = new_chunk(Kp, dtype), np.zeros((Kp + 4, Kp))
    for row in range(lo, hi):
        pairs = own.pairs[row]
        for b in range(B):
            if not wanted[b]:
                continue
            cells, rule, partners, whole = block_at(table, b, Kp, dtype, SUMMED)
            sum_row(cells, rule, own, partners, whole, row, b, chunk, S)
            for k in range(Kp):
                u, u_var = np.float64(pairs[k]), np.float64(pairs[Kp + k])
                fitted = own.bias[row, b] * S[Kp + FIRST, k]
                for j in range(Kp):
                    fitted += S[min(k, j), max(k, j)] * pairs[j]
                own_square = S[k, k] * u * u
                spread = (u * u + u_var) * S[Kp + SPREAD, k] + u_var * S[k, k]
                gain[b, k] += scale[b] * (u * (S[Kp + TARGET, k] - fitted) + 0.5 * (own_square - spread))
                energy[b, k] += scale[b] * own_square


@njit(**JIT)
def base_rows(table, wanted, own, out):
    """The sums of one row that each wanted block holds, into out (B, Kp + 4, Kp)."""
    Kp, dtype = own.pairs.shape[1] // 2, own.pairs.dtype
    chunk = new_chunk(Kp, dtype)
    for b in range(len(wanted)):
        if wanted[b]:
            cells, rule, partners, whole = block_at(table, b, Kp, dtype, SUMMED)
            sum_row(cells, rule, own, partners, whole, 0, b, chunk, out[b])


@njit(cache=True, nogil=True, error_model="numpy")
def bias_moments(bias, bias_var):
    """Σ b̄, Σ (b̄² + b̃) and Σ log b̃ of each column, over the rows that have one, (3, B)."""
    out = np.zeros((3, bias.shape[1]))
    for i in range(bias.shape[0]):
        for b in range(bias.shape[1]):
            mean, var = np.float64(bias[i, b]), np.float64(bias_var[i, b])
            out[0, b] += mean
            out[1, b] += mean * mean + var
            if var > 0.0:
                out[2, b] += math.log(var)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def moments(mean, var):
    """Σ_i (ū² + ũ) and Σ_i log ũ of each column over the rows that have a variance, (2, K)."""
    K = mean.shape[1]
    out, product = np.zeros((2, K)), np.ones(K)
    for i in range(len(mean)):
        for k in range(K):
            u, v = np.float64(mean[i, k]), np.float64(var[i, k])
            out[0, k] += u * u + v
            # One logarithm for many variances, taken before their product leaves the range of float64.
            product[k] *= v if v > 0.0 else 1.0
            if product[k] < 1e-150 or product[k] > 1e150:
                out[1, k] += math.log(product[k])
                product[k] = 1.0
    for k in range(K):
        out[1, k] += math.log(product[k])
    return out
