"""How uncertain the factors and biases of an entity are, each by itself: wider than a factorized q says.

The q of a fit has ũ_ik = 1/A_kk, the variance of u_ik were all else known. Three things are missing in that: the other
factors and the biases of the row are not known either, partners are not, and partners' variances stand in A as if they
told something. Here, once a fit has ended, a cell tells of its row as noisily as its partner is known,

    x = ūⱼᵀ uᵢ + bᵢ + …,   variance 1/w + Σ_k ū²_ik ũ_jk + b̃_j,   w′ = 1/(1/w + Σ_k ū²_ik ũ_jk + b̃_j)
    C_i = (diag(⟨α⟩, 1/σ²) + Σ w′ (ūⱼ, 1)(ūⱼ, 1)ᵀ)⁻¹

and the variances are those on the diagonal of C_i. (C_i itself would be K times as many numbers in every model, and its
intervals cover no better: docs/model.md.)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.data.cells import holes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gcmf.data.cells import Side
    from gcmf.engines.base import Block, Given, Problem, RowPrior, State

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

#: Cells of a row and relation that are looked at; of a longer row so many, evenly spread, stand for all.
MOST = 512
#: Numbers of an array that is made at a time.
_BATCH = 1 << 21


class Spread(NamedTuple):
    """Variances of factors and biases, as `State.var` and `State.bias_var` hold them."""

    var: list[NDArray[Any]]
    """Per entity set (d, K)."""
    bias_var: list[NDArray[Any]]
    """Per layer (d,)."""


class _Partners(NamedTuple):
    """The partners of one block as its rows see them."""

    block: Block
    mean: Floats
    var: Floats
    """Of d u_j, (d_j, K)."""
    bias: Floats
    bias_var: Floats
    """(d_j,)."""
    biased: bool
    """Whether the rows have biases."""


def spread(problem: Problem, given: Given, state: State, *, n_threads: int = 1) -> Spread:
    """Return the variance of every factor and bias, wherever there are cells; zero where there are none."""
    var = [np.zeros_like(v) for v in state.var]
    bias_var = [np.zeros_like(v) for v in state.bias_var]
    with ThreadPoolExecutor(n_threads) as pool:
        for e, blocks in enumerate(problem.blocks):
            partners = [_partners(block, problem, given, state) for block in blocks]
            todo = list(_batches(problem, e, int(given.on[e].sum())))
            for rows, wide in zip(todo, pool.map(partial(_widths, partners, given, state, e), todo), strict=True):
                n_on = int(given.on[e].sum())
                var[e][np.ix_(rows, given.on[e])] = wide[:, :n_on]
                for b, block in enumerate(blocks):
                    bias_var[block.layer][rows] = wide[:, n_on + b]
    return Spread(var, bias_var)


def _partners(block: Block, problem: Problem, given: Given, state: State) -> _Partners:
    mean, var = (a[block.other].astype(np.float64) for a in (state.mean, state.var))
    bias, bias_var = (a[block.other_layer].astype(np.float64) for a in (state.bias_mean, state.bias_var))
    if given.scales is not None:
        mean, var = given.scales.scaled(block.relation, block.side, mean, var)
    return _Partners(block, mean, var, bias, bias_var, problem.biased[block.layer])


def _batches(problem: Problem, e: int, n_on: int) -> Iterator[Indices]:
    """Yield rows with about equally many cells: they are summed side by side, the shorter ones filled up."""
    counts = np.stack([np.minimum(block.cells.counts(), MOST) for block in problem.blocks[e]])
    longest = counts.max(axis=0)
    order = np.argsort(longest, kind="stable")
    order = order[longest[order] > 0]
    width = n_on + len(counts)
    while len(order):
        # As many as fit, and none more than twice as long as the first.
        alike = np.searchsorted(longest[order], 2 * longest[order[0]], side="right")
        n = max(1, min(int(alike), _BATCH // (int(2 * longest[order[0]]) * width + width * width)))
        yield order[:n]
        order = order[n:]


def _widths(partners: list[_Partners], given: Given, state: State, e: int, rows: Indices) -> Floats:
    """diag C_i of some rows: factors that are on, then the biases by block; zero for a bias without cells."""
    on, prior = given.on[e], given.priors[e]
    n_on = int(on.sum())
    A = np.zeros((len(rows), n_on + len(partners), n_on + len(partners)))
    A[:, np.arange(n_on), np.arange(n_on)] = _of_rows(prior, rows, len(on))[:, on]
    own, own_var = (a[e][rows].astype(np.float64) for a in (state.mean, state.var))
    there = np.zeros((len(rows), len(partners)), dtype=bool)
    for b, seen in enumerate(partners):
        at = n_on + b
        j, x, times, lengths = _cells(seen.block.cells, rows)
        there[:, b] = seen.biased & (lengths > 0)
        A[:, at, at] = np.where(there[:, b], prior.bias_precision[b], 1.0)
        if not j.size:
            continue
        w = _weights(seen, given, (own, own_var), (state, rows), (j, x, times))
        p = seen.mean[j][:, :, on]
        weighed = w[:, :, None] * p
        A[:, :n_on, :n_on] += weighed.transpose(0, 2, 1) @ p
        A[:, :n_on, at] = A[:, at, :n_on] = there[:, b, None] * weighed.sum(axis=1)
        A[:, at, at] += there[:, b] * w.sum(axis=1)
    widths = np.diagonal(np.linalg.inv(A), axis1=1, axis2=2)
    return np.asarray(widths * np.concatenate([np.ones((len(rows), n_on)), there], axis=1))


def _of_rows(prior: RowPrior, rows: Indices, n_factors: int) -> Floats:
    return np.broadcast_to(prior.precision, (max(int(rows.max()) + 1, len(prior.precision)), n_factors))[rows]


def _weights(
    seen: _Partners, given: Given, own: tuple[Floats, Floats], at: tuple[State, Indices], cells: tuple[Any, ...]
) -> Floats:
    """w′ = 1/(1/w + Σ_k ū²_ik ũ_jk + b̃_j) of the cells of some rows, (rows, cells); zero where there is none."""
    (u, u_var), (state, rows), (j, x, times) = own, at, cells
    block, p = seen.block, seen.mean[j]
    bias, bias_var = (a[block.layer][rows].astype(np.float64)[:, None] for a in (state.bias_mean, state.bias_var))
    theta = np.matmul(p, u[:, :, None])[:, :, 0] + seen.bias[j] + bias + block.offset
    blur = np.matmul(seen.var[j], (u**2)[:, :, None])[:, :, 0] + seen.bias_var[j]
    var = blur + np.matmul(seen.var[j] + p**2, u_var[:, :, None])[:, :, 0] + bias_var
    z = (x - block.center) / block.scale
    w = times * block.likelihood.quadratic(z, theta, var, given.parameters[block.relation])[0]
    return np.asarray(w / (1.0 + w * blur))


# --- cells of rows, side by side ----------------------------------------------------------------------------


def _cells(side: Side, rows: Indices) -> tuple[Indices, Floats, Floats, Indices]:
    """Partners, values and how many cells each stands for, (rows, most cells) each, and how many cells a row has.

    Places that are filled up stand for no cell.
    """
    if side.members is None or side.covered is None:
        return _listed(side, rows)
    return _between_members(side, rows)


def _listed(side: Side, rows: Indices) -> tuple[Indices, Floats, Floats, Indices]:
    start, lengths = side.indptr[rows], side.indptr[rows + 1] - side.indptr[rows]
    place, times = _places(lengths)
    at = np.minimum(start[:, None] + place, max(len(side.value) - 1, 0))
    if not len(side.value) or not place.shape[1]:
        return np.zeros((len(rows), 0), np.int64), times[:, :0], times[:, :0], lengths
    if side.weight is not None:
        times = times * side.weight[at]
    return side.partner[at].astype(np.int64), side.value[at].astype(np.float64), times, lengths


def _between_members(side: Side, rows: Indices) -> tuple[Indices, Floats, Floats, Indices]:
    """Of filled and dense relations: members spread evenly, the same for all rows, and zero where nothing is listed."""
    assert side.members is not None  # as `_cells` has seen
    assert side.covered is not None
    n = len(side.members)
    chosen = np.arange(n) if n <= MOST else np.random.default_rng(n).choice(n, MOST, replace=False)
    if side.stride:
        value = side.value[side.indptr[rows][:, None] + side.stride * chosen]
    else:
        value = np.zeros((len(rows), n), side.value.dtype)
        lengths = side.indptr[rows + 1] - side.indptr[rows]
        which = np.repeat(np.arange(len(rows)), lengths)
        first = np.repeat(side.indptr[rows] - np.cumsum(lengths) + lengths, lengths)
        listed = first + np.arange(len(which))
        value[which, side.partner[listed]] = side.value[listed]
        value = value[:, chosen]
    seen = ~holes(value) & side.covered[rows][:, None]
    times = np.where(seen, n / len(chosen), 0.0)
    j = np.broadcast_to(side.members[chosen].astype(np.int64), value.shape)
    return j, np.where(seen, value, 0).astype(np.float64), times, np.asarray(seen.sum(axis=1))


def _places(lengths: Indices) -> tuple[Indices, Floats]:
    """Numbers of the cells looked at in rows of these lengths, and how many each stands for; zero beyond the end."""
    taken = np.minimum(lengths, MOST)
    number = np.arange(int(taken.max(initial=0)))
    there = number < taken[:, None]
    step = lengths / np.maximum(taken, 1)
    return np.where(there, (number * step[:, None]).astype(np.int64), 0), np.where(there, step[:, None], 0.0)
