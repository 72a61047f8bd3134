"""What the row kernels read: cells, the numbers of their blocks, packed parameters, and chunks of one row."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from gcmf.engines.simd import TILE

#: Cells gathered at once: the chunk stays in the first-level cache.
CHUNK = 128
JIT = {
    "forceinline": True,
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
}


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
    zero_weight: Any
    """How many cells each observed zero stands for."""
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
    """(n,), with the offset of the relation."""
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
    m: Any
    v: Any
    """Mean and variance of θ."""
    weighted: Any
    """(CHUNK, Kp + TILE): w ū_j, then w t (t the target less the partner's bias), then w."""
    sums: Any
    """(Kp + TILE, Kp): Σ w ū_j ū_jᵀ (upper triangle by tiles), then Σ wt ū_j, then Σ w ū_j."""
    sum_var: Any
    """(1, Kp): Σ w ũ_j."""
    own: Any
    """(3, Kp): ū_i, ū_i² + ũ_i and ũ_i of the row at hand."""
    pending: Any
    """(1,): cells in the sums since they were last flushed."""


@njit(**JIT)
def new_chunk(Kp, dtype):
    """Room for one chunk of cells of Kp padded factors."""
    return Chunk(
        np.empty(CHUNK, np.int64),
        np.empty(CHUNK, dtype),
        np.empty(CHUNK, dtype),
        np.empty(CHUNK, dtype),
        np.empty(CHUNK, dtype),
        np.zeros((CHUNK, Kp + TILE), dtype),
        np.zeros((Kp + TILE, Kp), dtype),
        np.zeros((1, Kp), dtype),
        np.zeros((3, Kp), dtype),
        np.zeros(1, np.int64),
    )


@njit(**JIT)
def n_cells(cells, b, row):
    """Cells of one row in one block, holes included."""
    if cells.filled[b]:
        return (cells.members_ptr[b + 1] - cells.members_ptr[b]) if cells.covered[b, row] else 0
    return cells.indptr[b, row + 1] - cells.indptr[b, row]


@njit(**JIT)
def load(cells, terms, b, row, start, n, chunk):
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
