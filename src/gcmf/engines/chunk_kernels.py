"""What the kernels read: the cells of a block, the rule of its likelihood, packed parameters, chunks of one row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gcmf.engines.compiled import compiled
from gcmf.engines.simd import LANES, array_at

#: Cells gathered at once: the chunk stays in the first-level cache.
CHUNK = 64
JIT = {
    "forceinline": True,
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
    # Nothing here makes an array: without this, every look at one would count a reference, millions of times.
    "_nrt": False,
}
#: For kernels that do make arrays.
MAKER = {**JIT, "_nrt": True}
#: How the cells of a block are held. LISTED: those observed. FILLED: unlisted ones of covered rows are zeros.
#: WHOLE_ZEROS: Gaussian FILLED, where the sums of a whole row of zeros are known and the listed cells correct them.
#: WHOLE: Gaussian and dense; the sums of a whole row are known, and the listed cells are its holes.
LISTED, FILLED, WHOLE_ZEROS, WHOLE = range(4)
#: Which of the cells of a block: as they are best summed, or every observed one listed.
SUMMED, ONE_BY_ONE = False, True


class Cells(NamedTuple):
    """The cells of one block, for the d rows of one entity set."""

    layout: Any
    indptr: Any
    """(d+1,) into partner."""
    partner: Any
    """Partner's row, or its position in members where unlisted cells are zeros."""
    value: Any
    """Values in the working precision, or nothing,"""
    wide: Any
    """or values in float64, or nothing,"""
    code: Any
    """or values of one byte each, or nothing."""
    members: Any
    """Partners of a row of which all cells are observed."""
    covered: Any
    """(d,) which rows those are; in the WHOLE layout the others list their observed cells."""


class Rule(NamedTuple):
    """The numbers that turn a cell into a weight and a target."""

    kind: Any
    """Likelihood code."""
    weight: Any
    """Curvature of the relation; Gaussian cells do not look at it, their ⟨τ⟩ multiplies the sums."""
    zero_weight: Any
    """How many cells each observed zero stands for."""
    center: Any
    inverse_scale: Any
    """Cells enter as (x − center)/scale."""
    fill: Any
    """What an unlisted zero enters as."""


class Partners(NamedTuple):
    """Parameters of the other side, in the working precision."""

    pairs: Any
    """(n, 2 Kp): means, then variances, of the active columns, zero-padded."""
    bias: Any
    """(n,), with the offset of the relation."""
    bias_var: Any


class Whole(NamedTuple):
    """What rows with all their cells have in common, and what is their own."""

    base: Any
    """(Kp + 4, Kp): the sums of such a row with all its cells at `fill`."""
    products: Any
    """(d, Kp + 3): what its values add, Σ x ū_j, then Σ x b_j, Σ x² and Σ x; or nothing."""


class Table(NamedTuple):
    """The blocks of an entity set, a row each: a kernel cannot be given arrays in a number that it does not know.

    Arrays go by address, so whoever makes a table must keep them alive.
    """

    places: Any
    """(B, 38) int64: address and length of the arrays of Cells, Partners and Whole, in the order of `block_at`; then
    those of the Cells that list every observed one."""
    codes: Any
    """(B, 3): layout, kind, and the layout of those that list every one."""
    numbers: Any
    """(B, 8): weight and zero weight of the rule, then center, inverse scale and fill, then those of the last Cells."""


class Own(NamedTuple):
    """Parameters of the rows being swept, in the working precision; read and written."""

    pairs: Any
    """(d, 2 Kp)."""
    bias: Any
    """(d, B), one column per block."""
    bias_var: Any


class Chunk(NamedTuple):
    """Up to CHUNK cells of one row and their sums, in the working precision; one per thread."""

    idx: Any
    """Row of each cell's partner; unsigned, or Numba would look for negative ones."""
    x: Any
    seen: Any
    """1 where the cell is observed, 0 for a hole."""
    m: Any
    v: Any
    """Mean and variance of θ."""
    weighted: Any
    """(CHUNK, Kp): w ū_j."""
    place: Any
    """0, 1, 2, …: the rows of `weighted`."""
    target: Any
    """w t, with t the target less the partner's bias."""
    weight: Any
    """w."""
    sums: Any
    """(Kp + 3, Kp): Σ w ū_j ū_jᵀ (upper triangle by tiles), Σ wt ū_j, Σ w ū_j, Σ w ũ_j."""
    own: Any
    """(3, Kp): ū_i, ū_i² + ũ_i and ũ_i of the row at hand."""


@compiled(**MAKER)
def new_chunk(Kp, dtype):
    """Room for one chunk of cells of Kp padded factors."""
    return Chunk(
        np.zeros(CHUNK, np.uint64),
        np.zeros(CHUNK, dtype),
        np.zeros(CHUNK, dtype),
        np.zeros(CHUNK, dtype),
        np.zeros(CHUNK, dtype),
        np.zeros((CHUNK, Kp), dtype),
        np.arange(CHUNK),
        np.zeros(CHUNK, dtype),
        np.zeros(CHUNK, dtype),
        np.zeros((Kp + 3, Kp), dtype),
        np.zeros((3, Kp), dtype),
    )


@compiled(**JIT)
def block_at(table, b, Kp, dtype, listed):
    """Cells (as they are summed, or every one listed), rule, partners and what is known of whole rows, of block b."""
    at, code, number = table.places[b], table.codes[b], table.numbers[b]
    own, values = (at[24:], number[5:]) if listed else (at, number[2:])
    cells = Cells(
        code[2] if listed else code[0],
        array_at(own[0], (own[1],), np.int64),
        array_at(own[2], (own[3],), np.int32),
        array_at(own[4], (own[5],), dtype),
        array_at(own[6], (own[7],), np.float64),
        array_at(own[8], (own[9],), np.uint8),
        array_at(own[10], (own[11],), np.int32),
        array_at(own[12], (own[13],), np.bool_),
    )
    rule = Rule(code[1], number[0], number[1], values[0], values[1], values[2])
    partners = Partners(
        array_at(at[14], (at[15] // (2 * Kp), 2 * Kp), dtype),
        array_at(at[16], (at[17],), dtype),
        array_at(at[18], (at[19],), dtype),
    )
    whole = Whole(
        array_at(at[20], (Kp + 4, Kp), np.float64),
        array_at(at[22], (at[23] // (Kp + 3), Kp + 3), np.float64),
    )
    return cells, rule, partners, whole


@compiled(**JIT)
def n_cells(cells, row):
    """Cells of one row to be looked at, holes included."""
    if cells.layout == FILLED:
        return len(cells.members) if cells.covered[row] else 0
    return cells.indptr[row + 1] - cells.indptr[row]


@compiled(**JIT)
def value_at(cells, p):
    """The value of listed cell p as it was brought, in float64."""
    if len(cells.wide) > 0:
        return cells.wide[p]
    return np.float64(cells.code[p]) if len(cells.code) > 0 else np.float64(cells.value[p])


@compiled(**JIT)
def read_values(cells, rule, p, n, x):
    """Standardised values of the listed cells p..p+n, none of them a hole; one plain loop for each way to hold them."""
    center, inverse = rule.center, rule.inverse_scale
    if len(cells.wide) > 0:
        wide = cells.wide[p : p + n]
        for c in range(n):
            x[c] = (wide[c] - center) * inverse
    elif len(cells.code) > 0:
        code = cells.code[p : p + n]
        for c in range(n):
            x[c] = (np.float64(code[c]) - center) * inverse
    else:
        value = cells.value[p : p + n]
        for c in range(n):
            x[c] = (np.float64(value[c]) - center) * inverse


@compiled(**JIT)
def load(cells, rule, row, start, n, chunk):
    """Cells start..start+n of one row: the partner's row, the standardised value, observed or not."""
    idx, x, seen = chunk.idx, chunk.x, chunk.seen
    coded, center, inverse = len(cells.code) > 0, rule.center, rule.inverse_scale
    lo, hi = cells.indptr[row], cells.indptr[row + 1]
    if cells.layout == FILLED:
        for c in range(n):
            idx[c] = cells.members[start + c]
            seen[c] = 1
            x[c] = rule.fill
        p = lo + np.searchsorted(cells.partner[lo:hi], start)
        while p < hi and cells.partner[p] < start + n:
            c = cells.partner[p] - start
            value = value_at(cells, p)
            hole = value == 255.0 if coded else np.isnan(value)
            seen[c] = 0 if hole else 1
            x[c] = rule.fill if hole else (value - center) * inverse
            p += 1
    else:
        for c in range(n):
            p = lo + start + c
            value = value_at(cells, p)
            idx[c] = cells.members[cells.partner[p]] if cells.layout == WHOLE_ZEROS else cells.partner[p]
            # fastmath says nothing of NaN here: `nnan` is not among the flags of JIT.
            hole = cells.layout == WHOLE_ZEROS and (value == 255.0 if coded else np.isnan(value))
            seen[c] = 0 if hole else 1
            x[c] = rule.fill if hole else (value - center) * inverse


@compiled(**MAKER)
def pack(mean, var, on):
    """Means and variances of the columns `on`, each padded to a multiple of LANES, side by side."""
    K = len(on)
    Kp = max((K + LANES - 1) // LANES, 1) * LANES
    out = np.zeros((len(mean), 2 * Kp), mean.dtype)
    for i in range(len(mean)):
        for k in range(K):
            out[i, k] = mean[i, on[k]]
            out[i, Kp + k] = var[i, on[k]]
    return out


@compiled(**MAKER)
def pack_block(own_mean, own_var, own_bias, own_bias_var, b, mean, var, on, bias, bias_var, offset, places):
    """Column b of the rows' biases, and what `Partners` holds; writes into Table.places where the latter are."""
    for i in range(len(own_mean)):
        own_bias[i, b], own_bias_var[i, b] = own_mean[i], own_var[i]
    pairs, moved = pack(mean, var, on), np.empty_like(bias)
    for i in range(len(bias)):
        moved[i] = bias[i] + offset
    places[b, 14], places[b, 15] = pairs.ctypes.data, pairs.size
    places[b, 16], places[b, 17] = moved.ctypes.data, moved.size
    places[b, 18], places[b, 19] = bias_var.ctypes.data, bias_var.size
    return pairs, moved


@compiled(**MAKER)
def unpack(pairs, on, mean, var):
    """Write the columns `on` back."""
    Kp = pairs.shape[1] // 2
    for i in range(len(mean)):
        for k in range(len(on)):
            mean[i, on[k]] = pairs[i, k]
            var[i, on[k]] = pairs[i, Kp + k]
