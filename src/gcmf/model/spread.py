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
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from gcmf.data.cells import Side
    from gcmf.engines.base import Block, Given, Problem, State

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]

#: Cells of a row and relation that are looked at; of a longer row so many, evenly spread, stand for all.
MOST = 256
#: What is added to the diagonal of a matrix with ones on it: far less than what is told, and it has an inverse.
ROUNDING = 1e-10
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


def spread(
    problem: Problem, given: Given, state: State, *, n_threads: int = 1, sets: Sequence[int] | None = None
) -> Spread:
    """Return the variance of every factor and bias, wherever there are cells; zero where there are none.

    `sets` are those that are looked at, all by default.
    """
    var = [np.zeros_like(v) for v in state.var]
    bias_var = [np.zeros_like(v) for v in state.bias_var]
    with ThreadPoolExecutor(n_threads) as pool:
        for e in range(len(problem.blocks)) if sets is None else sets:
            blocks = problem.blocks[e]
            partners = [_partners(block, problem, given, state) for block in blocks]
            n_on = int(given.on[e].sum())
            todo = list(_batches(problem, e, n_on))
            for rows, wide in zip(todo, pool.map(partial(_widths, partners, given, state, e), todo), strict=True):
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


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is not finite is not used
def _widths(partners: list[_Partners], given: Given, state: State, e: int, rows: Indices) -> Floats:
    """diag C_i of some rows: factors that are on, then the biases by block; zero for a bias without cells."""
    on, prior = given.on[e], given.priors[e]
    n_on = int(on.sum())
    A = np.zeros((len(rows), n_on + len(partners), n_on + len(partners)))
    A[:, np.arange(n_on), np.arange(n_on)] = _of_rows(prior.precision, rows)[:, on]
    bias_precision = _of_rows(np.atleast_2d(prior.bias_precision), rows)
    own, own_var = (a[e][rows].astype(np.float64) for a in (state.mean, state.var))
    there = np.zeros((len(rows), len(partners)), dtype=bool)
    for b, seen in enumerate(partners):
        at = n_on + b
        cells = _cells(seen.block.cells, rows)
        there[:, b] = seen.biased & (cells.times > 0).any(axis=1)
        A[:, at, at] = np.where(there[:, b], bias_precision[:, b], 1.0)
        if not cells.j.size:
            continue
        w = _weights(seen, given, (own, own_var), (state, rows), cells)
        p = seen.mean[cells.j][:, :, on]
        weighed = w[:, :, None] * p
        A[:, :n_on, :n_on] += weighed.transpose(0, 2, 1) @ p
        A[:, :n_on, at] = A[:, at, :n_on] = there[:, b, None] * weighed.sum(axis=1)
        A[:, at, at] += there[:, b] * w.sum(axis=1)
    narrow = np.concatenate(
        [own_var[:, on], *(state.bias_var[one.block.layer][rows, None] for one in partners)], axis=1
    )
    wide = _inverse_diagonal(A)
    known = np.concatenate([np.ones((len(rows), n_on), bool), there], axis=1)
    return np.where(known, np.where(np.isfinite(wide) & (wide > 0), wide, narrow), 0.0)


def _inverse_diagonal(A: Floats) -> Floats:
    """diag A⁻¹ of each matrix, in units in which A has ones on its diagonal; where A has overflowed, no number."""
    size = np.sqrt(np.diagonal(A, axis1=1, axis2=2))
    unit = A / (size[:, :, None] * size[:, None, :])
    sound = np.isfinite(unit).all(axis=(1, 2))
    unit[~sound] = np.eye(A.shape[1])
    inverse = np.linalg.inv(unit + ROUNDING * np.eye(A.shape[1]))
    return np.where(sound[:, None], np.diagonal(inverse, axis1=1, axis2=2) / size**2, np.nan)


def _of_rows(precision: Floats, rows: Indices) -> Floats:
    """Of these rows, where all rows have the same, or each its own."""
    return np.broadcast_to(precision, (len(rows), precision.shape[1])) if len(precision) == 1 else precision[rows]


def _weights(
    seen: _Partners, given: Given, own: tuple[Floats, Floats], at: tuple[State, Indices], cells: _Cells
) -> Floats:
    """w′ = 1/(1/w + Σ_k ū²_ik ũ_jk + b̃_j) of the cells of some rows, (rows, cells); zero where there is none."""
    (u, u_var), (state, rows), (j, x, times, weight) = own, at, cells
    block, p = seen.block, seen.mean[j]
    bias, bias_var = (a[block.layer][rows].astype(np.float64)[:, None] for a in (state.bias_mean, state.bias_var))
    theta = np.matmul(p, u[:, :, None])[:, :, 0] + seen.bias[j] + bias + block.offset
    blur = np.matmul(seen.var[j], (u**2)[:, :, None])[:, :, 0] + seen.bias_var[j]
    var = blur + np.matmul(seen.var[j] + p**2, u_var[:, :, None])[:, :, 0] + bias_var
    z = (x - block.center) / block.scale
    w = weight * block.likelihood.quadratic(z, theta, var, given.parameters[block.relation])[0]
    if given.is_noisy(block.layer):
        w = w * state.precision[block.layer][rows][:, None]
    if given.is_noisy(block.other_layer):
        w = w * state.precision[block.other_layer][j]
    return np.asarray(times * w / (1.0 + w * blur))


# --- cells of rows, side by side ----------------------------------------------------------------------------


class _Cells(NamedTuple):
    """Cells of some rows, (rows, most cells) each; what shorter rows are filled up with stands for no cell."""

    j: Indices
    x: Floats
    times: Floats
    """For how many other cells each stands."""
    weight: Any = 1.0
    """What each counts by itself."""


def _cells(side: Side, rows: Indices) -> _Cells:
    if side.members is None or side.covered is None:
        return _listed(side, rows)
    chosen = _some(len(side.members))
    if side.stride:
        value = side.value[side.indptr[rows][:, None] + side.stride * chosen]
        seen = ~holes(value) & side.covered[rows][:, None]
        times = np.where(seen, len(side.members) / len(chosen), 0.0)
        return _Cells(_repeated(side.members[chosen], len(rows)), np.where(seen, value, 0).astype(np.float64), times)
    # Listed ones all count, and some of the zeros stand for all of them.
    listed = _listed(side, rows)
    lengths, zero = side.indptr[rows + 1] - side.indptr[rows], np.ones((len(rows), len(chosen)), bool)
    place = np.full(len(side.members), -1)
    place[chosen] = np.arange(len(chosen))
    owner = np.repeat(np.arange(len(rows)), lengths)
    at = np.arange(len(owner)) + np.repeat(side.indptr[rows] - np.cumsum(lengths) + lengths, lengths)
    hit = place[side.partner[at]]
    zero[owner[hit >= 0], hit[hit >= 0]] = False
    times = zero * ((len(side.members) - lengths) / np.maximum(zero.sum(axis=1), 1) * side.covered[rows])[:, None]
    j = np.concatenate([side.members[listed.j], _repeated(side.members[chosen], len(rows))], axis=1)
    x = np.concatenate([listed.x, np.zeros(zero.shape)], axis=1)
    return _Cells(j, x, np.concatenate([listed.times, times], axis=1))  # which has no weights


def _listed(side: Side, rows: Indices) -> _Cells:
    """What is listed; of a long row so many cells, at equal distances, as stand for all."""
    start, lengths = side.indptr[rows], side.indptr[rows + 1] - side.indptr[rows]
    taken = np.minimum(lengths, MOST)
    number, step = np.arange(int(taken.max(initial=0))), lengths / np.maximum(taken, 1)
    there = number < taken[:, None]
    at = np.where(there, start[:, None] + (number * step[:, None]).astype(np.int64), 0)
    value = side.value[at]
    there &= ~holes(value)
    partner, x = side.partner[at].astype(np.int64), np.where(there, value, 0).astype(np.float64)
    return _Cells(partner, x, np.where(there, step[:, None], 0.0), 1.0 if side.weight is None else side.weight[at])


def _some(n: int) -> Indices:
    """All of n numbers, or MOST of them, drawn, always the same."""
    return np.arange(n) if n <= MOST else np.sort(np.random.default_rng(n).choice(n, MOST, replace=False))


def _repeated(members: NDArray[np.int32], n: int) -> Indices:
    return np.broadcast_to(members.astype(np.int64), (n, len(members)))
