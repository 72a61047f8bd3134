"""The one pass over cells, compiled: what each row of a block sums up to. Arrays in, arrays out; no users.

Every row is summed by one thread, in one order, so results do not depend on the number of threads. All that is asked
of the cells follows from these sums: the system of a row, the bound before and after, what each factor is worth.
"""

from __future__ import annotations

import math

import numpy as np

from gcmf.engines.cell_kernels import GAUSSIAN, JAAKKOLA, lower_bound, quadratic
from gcmf.engines.chunk_kernels import CHUNK, JIT, LISTED, WHOLE, WHOLE_ZEROS, load, n_cells, read_values
from gcmf.engines.compiled import compiled
from gcmf.engines.simd import LANES, add_products, add_sums, decay, fetch_row, move_row, predictor, scale_row

#: As JIT, but called: one copy of the code is enough.
CALLED = {**JIT, "forceinline": False}
#: Numbers of partners' parameters that no near cache holds, so that it pays to ask for them ahead.
MANY_PARTNERS = 1 << 20
#: Cells that LLVM takes at a time in a plain loop over float32.
UNROLLED = 32
#: Cells summed in the working precision before the sums go to float64: bounds the error of float32.
FLUSH = 512
#: The rows of a sum after the Kp rows of Σ w ū_j ū_jᵀ: Σ wt ū_j, Σ w ū_j, Σ w ũ_j, and one of scalars:
TARGET, FIRST, SPREAD, SCALARS = range(4)
#: Σ w, Σ wt, Σ wt², the bound of the cells, how many cells were seen, and Σ w b̃_j.
WEIGHT, TARGETS, SQUARES, BOUND, SEEN, BIAS_SPREAD = range(6)


@compiled(**JIT)
def _set_own(own, row, chunk):
    Kp = chunk.own.shape[1]
    for k in range(Kp):
        u, u_var = own.pairs[row, k], own.pairs[row, Kp + k]
        chunk.own[0, k] = u
        chunk.own[1, k] = u * u + u_var
        chunk.own[2, k] = u_var


@compiled(**JIT)
def _predict(own, partners, row, b, n, chunk):
    """Mean m and variance v of θ for n loaded cells; `own` holds the row."""
    mine, mine_var = own.bias[row, b], own.bias_var[row, b]
    for c in range(n):
        j = chunk.idx[c]
        m, v = predictor(chunk.own, partners.pairs, j)
        chunk.m[c] = m + mine + partners.bias[j]
        chunk.v[c] = v + mine_var + partners.bias_var[j]


@compiled(**JIT)
def _sum_unit(cells, rule, partners, start, n, chunk, scalars, sign):
    """Load n listed Gaussian cells, each of weight one, and add sign times their scalars; all in one loop."""
    real = chunk.x.dtype.type
    one, sum_wt, squares, spread = real(1), real(0), real(0), real(0)
    read_values(cells, rule, start, n, chunk.x)
    partner = cells.partner[start : start + n]
    for c in range(n):
        j = np.uint64(partner[c])
        t = chunk.x[c] - partners.bias[j]
        chunk.idx[c] = j
        chunk.target[c], chunk.weight[c] = t, one
        sum_wt += t
        squares += t * t
        spread += partners.bias_var[j]
    scalars[WEIGHT] += sign * n
    scalars[TARGETS] += sign * sum_wt
    scalars[SQUARES] += sign * squares
    scalars[SEEN] += sign * n
    scalars[BIAS_SPREAD] += sign * spread


@compiled(**JIT)
def _zeros_pairs(rule, partners, n, chunk, scalars):
    """Weights and targets that correct n listed cells of a row of zeros: a hole takes its zero away, others move it."""
    for c in range(n):
        seen, b = np.float64(chunk.seen[c]), np.float64(partners.bias[chunk.idx[c]])
        t, t_zero = chunk.x[c] - b, rule.fill - b
        chunk.target[c] = seen * t - t_zero
        chunk.weight[c] = seen - 1.0
        scalars[SQUARES] += seen * t * t - t_zero * t_zero
        scalars[SEEN] += seen - 1.0


@compiled(**JIT)
def _filled_pairs(partners, n, chunk, scalars):
    """Weights and targets of n Gaussian cells that may be holes."""
    for c in range(n):
        t = chunk.seen[c] * (chunk.x[c] - partners.bias[chunk.idx[c]])
        chunk.target[c], chunk.weight[c] = t, chunk.seen[c]
        scalars[SQUARES] += np.float64(t) * t
        scalars[SEEN] += chunk.seen[c]


@compiled(**JIT)
def jaakkola_pairs(rule, n, chunk):
    """Weights w = tanh(ξ/2)/(2ξ) and targets wz = x − 1/2 of n 0/1 cells, and the sum of their bounds.

    The logarithms of 1 + exp(−ξ), which lies between 1 and 2, are taken of products.
    """
    real = chunk.x.dtype.type
    one, half, zero_weight, smooth = real(1), real(0.5), real(rule.zero_weight), real(0)
    # Holes up to a whole number of vectors: a remainder would be done one by one.
    padded = (n + UNROLLED - 1) // UNROLLED * UNROLLED
    for c in range(n, padded):
        chunk.seen[c], chunk.m[c], chunk.v[c] = 0, 0, 0
    for c in range(padded):
        m, sign = chunk.m[c], chunk.x[c] - half
        xi = math.sqrt(m * m + chunk.v[c])
        e = decay(xi)
        # For small ξ the series of tanh: 1 − exp(−ξ) would cancel.
        y = xi * xi * real(0.25)
        series = real(-1382 / 155925 / 4)
        for coefficient in (62 / 2835 / 4, -17 / 315 / 4, 2 / 15 / 4, -1 / 3 / 4, 1 / 4):
            series = series * y + real(coefficient)
        small = xi < real(0.25)
        safe = one if small else xi
        w = series if small else (one - e) / ((one + e) * (safe + safe))
        times = chunk.seen[c] * (zero_weight if chunk.x[c] == 0 else one)
        chunk.weight[c], chunk.target[c] = times * w, times * sign
        smooth += times * (sign * m - xi * half)
        chunk.v[c] = e
    product, product_zeros = 1.0, 1.0
    for c in range(padded):
        factor = 1.0 + np.float64(chunk.seen[c] * chunk.v[c])
        zero = chunk.x[c] == 0
        product *= 1.0 if zero else factor
        product_zeros *= factor if zero else 1.0
    return smooth - math.log(product) - rule.zero_weight * math.log(product_zeros)


@compiled(**JIT)
def _other_pairs(rule, n, chunk):
    """The same for the other kinds of cells, one by one and in float64."""
    bound = 0.0
    for c in range(n):
        # Numba's float() would keep float32.
        x, m, v = np.float64(chunk.x[c]), np.float64(chunk.m[c]), np.float64(chunk.v[c])
        times = chunk.seen[c] * (rule.zero_weight if x == 0.0 else 1.0)
        w, wz = quadratic(rule.kind, x, m, v, rule.weight)
        chunk.target[c], chunk.weight[c] = times * wz, times * w
        if times > 0.0:
            bound += times * lower_bound(rule.kind, x, m, v, rule.weight)
    return bound


@compiled(**JIT)
def _sum_chunk(n, unit, partners, chunk):
    """Add n cells to Σ w ū_j ū_jᵀ, Σ wt ū_j, Σ w ū_j and Σ w ũ_j; `unit` says that every w is one."""
    Kp, idx = chunk.sums.shape[1], chunk.idx
    if unit:
        for k in range(0, Kp, LANES):
            add_products(chunk.sums, k, Kp, partners.pairs, idx, partners.pairs, idx, n)
    else:
        for c in range(n):
            scale_row(chunk.weighted, c, partners.pairs, idx[c], chunk.weight[c], Kp)
        for k in range(0, Kp, LANES):
            add_products(chunk.sums, k, Kp, chunk.weighted, chunk.place, partners.pairs, idx, n)
    add_sums(chunk.sums, Kp, chunk.target, chunk.weight, partners.pairs, idx, n)


@compiled(**JIT)
def _flush(sign, chunk, out):
    """Move the sums of the chunks to float64."""
    Kp = chunk.sums.shape[1]
    for k in range(Kp + 3):
        move_row(out, k, chunk.sums, sign, k // LANES * LANES if k < Kp else 0, Kp)


@compiled(**JIT)
def _sum_general(cells, rule, own, partners, row, b, start, n, chunk, scalars):
    """Load n cells of any kind and add their scalars."""
    load(cells, rule, row, start, n, chunk)
    if rule.kind == GAUSSIAN:
        if cells.layout == WHOLE_ZEROS:
            _zeros_pairs(rule, partners, n, chunk, scalars)
        else:
            _filled_pairs(partners, n, chunk, scalars)
    else:
        _predict(own, partners, row, b, n, chunk)
        if rule.kind == JAAKKOLA:
            scalars[BOUND] += jaakkola_pairs(rule, n, chunk)
        else:
            scalars[BOUND] += _other_pairs(rule, n, chunk)
        seen = chunk.x.dtype.type(0)
        for c in range(n):
            chunk.target[c] -= chunk.weight[c] * partners.bias[chunk.idx[c]]
            seen += chunk.seen[c]
        scalars[SEEN] += seen
    zero = chunk.x.dtype.type(0)
    sum_w, sum_wt, spread = zero, zero, zero
    for c in range(n):
        sum_w += chunk.weight[c]
        sum_wt += chunk.target[c]
        spread += chunk.weight[c] * partners.bias_var[chunk.idx[c]]
    scalars[WEIGHT] += sum_w
    scalars[TARGETS] += sum_wt
    scalars[BIAS_SPREAD] += spread


@compiled(**CALLED)
def add_cells(cells, rule, own, partners, row, b, span, sign, chunk, out):
    """Add sign times the listed cells span[0]..span[1] of one row to out (Kp + 4, Kp)."""
    Kp, pending, (first, last) = chunk.sums.shape[1], 0, span
    unit = rule.kind == GAUSSIAN and cells.layout in (LISTED, WHOLE)
    scalars = out[Kp + SCALARS]
    far = cells.layout == LISTED and partners.pairs.size > MANY_PARTNERS
    if rule.kind != GAUSSIAN:
        _set_own(own, row, chunk)
    for start in range(first, last, CHUNK):
        n = min(CHUNK, last - start)
        if far:
            # While these are summed, the next ones come nearer, be they of this row or the next.
            following = cells.indptr[row] + start + n
            for j in cells.partner[following : following + CHUNK]:
                fetch_row(partners.pairs, j)
        if unit:
            _sum_unit(cells, rule, partners, cells.indptr[row] + start, n, chunk, scalars, sign)
        else:
            _sum_general(cells, rule, own, partners, row, b, start, n, chunk, scalars)
        _sum_chunk(n, unit, partners, chunk)
        pending += n
        if pending >= FLUSH:
            _flush(sign, chunk, out)
            pending = 0
    if pending:
        _flush(sign, chunk, out)


@compiled(**JIT)
def sum_row(cells, rule, own, partners, whole, row, b, chunk, out):
    """Sum up the cells of one row in block b into out (Kp + 4, Kp); see TARGET and SCALARS for the places."""
    Kp, known = out.shape[1], cells.layout >= WHOLE_ZEROS and cells.covered[row]
    if known:
        for k in range(Kp + 4):
            for j in range(Kp):
                out[k, j] = whole.base[k, j]
        if cells.layout == WHOLE:
            x = whole.products[row]
            for k in range(Kp):
                out[Kp + TARGET, k] += x[k]
            out[Kp + SCALARS, SQUARES] += x[Kp + 1] - 2.0 * x[Kp]
            out[Kp + SCALARS, TARGETS] += x[Kp + 2]
    else:
        out[:] = 0.0
    # What a whole and dense row lists are its holes.
    sign = -1.0 if known and cells.layout == WHOLE else 1.0
    add_cells(cells, rule, own, partners, row, b, (0, n_cells(cells, row)), sign, chunk, out)


@compiled(**CALLED)
def measure_row(cells, rule, own, partners, row, b, chunk):
    """Cell by cell: the bound of one row's cells (Gaussian: Σ (x − m)² + v) at its present parameters."""
    _set_own(own, row, chunk)
    n_row, total = n_cells(cells, row), 0.0
    for start in range(0, n_row, CHUNK):
        n = min(CHUNK, n_row - start)
        load(cells, rule, row, start, n, chunk)
        _predict(own, partners, row, b, n, chunk)
        if rule.kind == GAUSSIAN:
            for c in range(n):
                away, v = np.float64(chunk.x[c]) - chunk.m[c], np.float64(chunk.v[c])
                total += (away * away + v) * chunk.seen[c]
        elif rule.kind == JAAKKOLA:
            total += jaakkola_pairs(rule, n, chunk)
        else:
            total += _other_pairs(rule, n, chunk)
    return total
