"""The one pass over cells, compiled: what each row of a block sums up to. Arrays in, arrays out; no users.

Every row is summed by one thread, in one order, so results do not depend on the number of threads. All that is asked
of the cells follows from these sums: the system of a row, the bound before and after, what each factor is worth.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from gcmf.engines.cell_kernels import GAUSSIAN, JAAKKOLA, lower_bound, quadratic
from gcmf.engines.chunk_kernels import CHUNK, JIT, LISTED, WHOLE, WHOLE_ZEROS, load, n_cells, value_at
from gcmf.engines.simd import LANES, TILE, add_four, add_one, add_two, copy_row, decay, predictor, scale_row

#: Cells summed in the working precision before the sums go to float64: bounds the error of float32.
FLUSH = 512
#: The rows of a sum after the Kp rows of Σ w ū_j ū_jᵀ: Σ wt ū_j, Σ w ū_j, Σ w ũ_j, and one of scalars:
TARGET, FIRST, SPREAD, SCALARS = range(4)
#: Σ w, Σ wt, Σ wt², the bound of the cells, how many cells were seen, and Σ w b̃_j.
WEIGHT, TARGETS, SQUARES, BOUND, SEEN, BIAS_SPREAD = range(6)


@njit(**JIT)
def _set_own(own, row, chunk):
    Kp = chunk.own.shape[1]
    for k in range(Kp):
        u, u_var = own.pairs[row, k], own.pairs[row, Kp + k]
        chunk.own[0, k] = u
        chunk.own[1, k] = u * u + u_var
        chunk.own[2, k] = u_var


@njit(**JIT)
def _predict(own, partners, row, b, n, chunk):
    """Mean m and variance v of θ for n loaded cells; `own` holds the row."""
    mine, mine_var = own.bias[row, b], own.bias_var[row, b]
    for c in range(n):
        m, v = predictor(chunk.own, chunk.g, c)
        j = chunk.idx[c]
        chunk.m[c] = m + mine + partners.bias[j]
        chunk.v[c] = v + mine_var + partners.bias_var[j]


@njit(**JIT)
def _sum_unit(cells, rule, partners, start, n, chunk, scalars, sign):
    """Load n listed Gaussian cells, each of weight one, and add sign times their scalars; all in one loop."""
    center, inverse, one = rule.center, rule.inverse_scale, chunk.x[0] * 0 + 1
    sum_wt, squares, spread = one * 0, one * 0, one * 0
    for c in range(n):
        j = cells.partner[start + c]
        x = (value_at(cells, start + c) - center) * inverse
        t = one * x - partners.bias[j]
        chunk.idx[c] = j
        chunk.pair[c, 0], chunk.pair[c, 1] = t, one
        sum_wt += t
        squares += t * t
        spread += partners.bias_var[j]
    width = chunk.g.shape[1]
    for c in range(n):
        copy_row(chunk.g, c, partners.pairs, chunk.idx[c], width)
    scalars[WEIGHT] += sign * n
    scalars[TARGETS] += sign * sum_wt
    scalars[SQUARES] += sign * squares
    scalars[SEEN] += sign * n
    scalars[BIAS_SPREAD] += sign * spread


@njit(**JIT)
def _zeros_pairs(rule, partners, n, chunk, scalars):
    """Weights and targets that correct n listed cells of a row of zeros: a hole takes its zero away, others move it."""
    for c in range(n):
        seen, b = np.float64(chunk.seen[c]), np.float64(partners.bias[chunk.idx[c]])
        t, t_zero = chunk.x[c] - b, rule.fill - b
        chunk.pair[c, 0] = seen * t - t_zero
        chunk.pair[c, 1] = seen - 1.0
        scalars[SQUARES] += seen * t * t - t_zero * t_zero
        scalars[SEEN] += seen - 1.0


@njit(**JIT)
def _filled_pairs(partners, n, chunk, scalars):
    """Weights and targets of n Gaussian cells that may be holes."""
    for c in range(n):
        t = chunk.seen[c] * (chunk.x[c] - partners.bias[chunk.idx[c]])
        chunk.pair[c, 0], chunk.pair[c, 1] = t, chunk.seen[c]
        scalars[SQUARES] += np.float64(t) * t
        scalars[SEEN] += chunk.seen[c]


@njit(**JIT)
def jaakkola_pairs(rule, n, chunk):
    """Weights w = tanh(ξ/2)/(2ξ) and targets wz = x − 1/2 of n 0/1 cells, and the sum of their bounds.

    The logarithms of 1 + exp(−ξ), which lies between 1 and 2, are taken of products.
    """
    one, smooth, product, product_zeros = chunk.x[0] * 0 + 1, 0.0, 1.0, 1.0
    zero_weight = one * rule.zero_weight
    for c in range(n):
        xi = math.sqrt(chunk.m[c] * chunk.m[c] + chunk.v[c])
        e = decay(xi)
        small = xi < one / 1000
        safe = one if small else xi
        w = one / 4 - xi * xi / 48 if small else (one - e) / ((one + e) * (safe + safe))
        times = chunk.seen[c] * (zero_weight if chunk.x[c] == 0 else one)
        chunk.pair[c, 1] = times * w
        chunk.pair[c, 0] = times * (chunk.x[c] - one / 2)
        smooth += times * ((chunk.x[c] - one / 2) * chunk.m[c] - xi / 2)
        chunk.v[c] = e
    for c in range(n):
        if chunk.x[c] == 0:
            product_zeros *= 1.0 + chunk.seen[c] * chunk.v[c]
        else:
            product *= 1.0 + chunk.seen[c] * chunk.v[c]
    return smooth - math.log(product) - rule.zero_weight * math.log(product_zeros)


@njit(**JIT)
def _other_pairs(rule, n, chunk):
    """The same for the other kinds of cells, one by one."""
    one, bound = chunk.x[0] * 0 + 1, 0.0
    weight = one * rule.weight
    for c in range(n):
        times = rule.zero_weight if chunk.x[c] == 0 else 1.0
        w, wz = quadratic(rule.kind, chunk.x[c], chunk.m[c], chunk.v[c], weight, one)
        chunk.pair[c, 0], chunk.pair[c, 1] = chunk.seen[c] * times * wz, chunk.seen[c] * times * w
        if chunk.seen[c] > 0:
            # Numba's float() would keep float32.
            x, m, v = np.float64(chunk.x[c]), np.float64(chunk.m[c]), np.float64(chunk.v[c])
            bound += times * lower_bound(rule.kind, x, m, v, rule.weight)
    return bound


@njit(**JIT)
def _sum_chunk(n, unit, chunk):
    """Add n cells to Σ w ū_j ū_jᵀ, Σ wt ū_j, Σ w ū_j and Σ w ũ_j; `unit` says that every w is one."""
    Kp = chunk.sums.shape[1]
    left = chunk.g if unit else chunk.weighted
    if not unit:
        for c in range(n):
            scale_row(chunk.weighted, c, chunk.g, c, chunk.pair[c, 1], Kp)
    for k in range(0, Kp, TILE):
        # Rows of Σ w ū_j ū_jᵀ start at the diagonal.
        first = k // LANES * LANES
        add_four(chunk.sums, k, first, Kp, left, k, chunk.g, first, n)
    add_two(chunk.sums, Kp, 0, Kp, chunk.pair, 0, chunk.g, 0, n)
    add_one(chunk.sums, Kp + 2, 0, Kp, chunk.pair, 1, chunk.g, Kp, n)


@njit(**JIT)
def _flush(sign, chunk, out):
    """Move the sums of the chunks to float64."""
    Kp = chunk.sums.shape[1]
    for k in range(Kp + 3):
        for j in range(k // LANES * LANES if k < Kp else 0, Kp):
            out[k, j] += sign * chunk.sums[k, j]
            chunk.sums[k, j] = 0


@njit(**JIT)
def _sum_general(cells, rule, own, partners, row, b, start, n, chunk, scalars):
    """Load n cells of any kind and add their scalars."""
    load(cells, rule, partners, row, start, n, chunk)
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
        seen = chunk.x[0] * 0
        for c in range(n):
            chunk.pair[c, 0] -= chunk.pair[c, 1] * partners.bias[chunk.idx[c]]
            seen += chunk.seen[c]
        scalars[SEEN] += seen
    zero = chunk.x[0] * 0
    sum_w, sum_wt, spread = zero, zero, zero
    for c in range(n):
        sum_w += chunk.pair[c, 1]
        sum_wt += chunk.pair[c, 0]
        spread += chunk.pair[c, 1] * partners.bias_var[chunk.idx[c]]
    scalars[WEIGHT] += sum_w
    scalars[TARGETS] += sum_wt
    scalars[BIAS_SPREAD] += spread


@njit(**JIT)
def _sum_row(cells, rule, own, partners, row, b, sign, chunk, out):
    """Add sign times the cells that one row lists to `out`."""
    n_row, Kp, pending = n_cells(cells, row), chunk.sums.shape[1], 0
    unit = rule.kind == GAUSSIAN and cells.layout in (LISTED, WHOLE)
    scalars = out[Kp + SCALARS]
    for start in range(0, n_row, CHUNK):
        n = min(CHUNK, n_row - start)
        if unit:
            _sum_unit(cells, rule, partners, cells.indptr[row] + start, n, chunk, scalars, sign)
        else:
            _sum_general(cells, rule, own, partners, row, b, start, n, chunk, scalars)
        _sum_chunk(n, unit, chunk)
        pending += n
        if pending >= FLUSH:
            _flush(sign, chunk, out)
            pending = 0
    if pending:
        _flush(sign, chunk, out)


@njit(cache=True, nogil=True, error_model="numpy")
def sum_row(cells, rule, own, partners, whole, row, b, chunk, out):
    """Sum up the cells of one row in block b into out (Kp + 4, Kp); see TARGET and SCALARS for the places."""
    Kp, known = out.shape[1], cells.layout >= WHOLE_ZEROS and cells.covered[row]
    if known:
        out[:] = whole.base
        if cells.layout == WHOLE:
            x = whole.products[row]
            for k in range(Kp):
                out[Kp + TARGET, k] += x[k]
            out[Kp + SCALARS, SQUARES] += x[Kp + 1] - 2.0 * x[Kp]
            out[Kp + SCALARS, TARGETS] += x[Kp + 2]
    else:
        out[:] = 0.0
    if rule.kind != GAUSSIAN:
        _set_own(own, row, chunk)
    # What a whole and dense row lists are its holes.
    _sum_row(cells, rule, own, partners, row, b, -1.0 if known and cells.layout == WHOLE else 1.0, chunk, out)


@njit(cache=True, nogil=True, error_model="numpy")
def measure_row(cells, rule, own, partners, row, b, chunk):
    """Cell by cell: the bound of one row's cells (Gaussian: Σ (x − m)² + v) at its present parameters."""
    _set_own(own, row, chunk)
    n_row, total = n_cells(cells, row), 0.0
    for start in range(0, n_row, CHUNK):
        n = min(CHUNK, n_row - start)
        load(cells, rule, partners, row, start, n, chunk)
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
