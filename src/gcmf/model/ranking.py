"""The best of many: which columns suit each row best, and which entities are alike, in blocks of bounded size.

Blocks are scored by matrix products in the precision of the factors, and cut to a short list each; that is scored once
more, exactly and in float64, and put in order. Of a sampled model every candidate is scored in every draw: the product
of mean factors is not the mean of products, and a short list by it would miss some of the best.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.engines.threads import single_threaded_blas
from gcmf.model.posterior import scales_of
from gcmf.model.predict import cells_at_a_time, predict_pairs, theta_pairs
from gcmf.model.predictive import drawn_mean

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from gcmf.data.pairs import Pairs
    from gcmf.model.draws import Draws
    from gcmf.model.fitted import Fitted

    Floats = NDArray[np.float64]
    Array = NDArray[Any]
    Indices = NDArray[np.int64]

#: Scores that are held at a time by each thread: 4 MB in float32, which stay in the caches.
BLOCK = 1 << 20
#: Of a sampled model, where quantiles need all draws of a score: 64 MB.
BLOCK_OF_DRAWS = 1 << 24
#: How many more than wanted are on a short list, at least.
SPARE = 4
#: Columns that are looked at together at first.
GROUP = 32
#: Of "lower" and "upper": deviations from the mean, beyond which θ lies one time in ten; and the quantiles of draws.
TENTH = 1.2815515655446004
QUANTILE = {"lower": 0.1, "upper": 0.9}


class Ranked(NamedTuple):
    """The best partners of each entity that was asked for, one after the other, the best of each first."""

    of: Indices
    """Which of those asked."""
    rank: Indices
    """From 1."""
    item: Indices
    score: Floats
    std: Floats


@dataclass(frozen=True, eq=False)
class Side:
    """Entities on one side of a relation: θ = Σ_k u_k p_k + b + d is a product of one row of each side."""

    mean: Array
    var: Array
    """(n, K)."""
    bias: Array
    bias_var: Array
    """(n,)."""

    def factors(self, *, left: bool) -> Array:
        """(u, b, 1) or (p, 1, d), whose products are the means of θ."""
        one = np.ones_like(self.bias)
        return np.column_stack([self.mean, *((self.bias, one) if left else (one, self.bias))])

    def spreads(self, *, left: bool) -> Array:
        """(u² + ũ, ũ, b̃, 1) or (p̃, p², 1, d̃), whose products are the variances of θ."""
        one, square = np.ones_like(self.bias), self.mean**2
        parts = (square + self.var, self.var, self.bias_var, one) if left else (self.var, square, one, self.bias_var)
        return np.column_stack(parts)


def sides(fitted: Fitted, m: int, i: Indices, j: Indices, *, of_q: bool = False) -> tuple[Side, Side]:
    """Rows i and columns j of relation m; the columns as rows see them, times the relation's scales.

    `of_q`: with the variances of q, by which cells are expected, where predictions have others.
    """
    (r, c), mean, var, terms = fitted.ends[m], fitted.mean, fitted.var, fitted.terms
    biases = (fitted.bias_mean, fitted.bias_var)
    if of_q and terms is not None and terms.var is not None and terms.bias_var is not None:
        var, biases = terms.var, (fitted.bias_mean, terms.bias_var)
    p, p_var = mean[c][j], var[c][j]
    if fitted.scales is not None:
        wide = p.astype(np.float64), p_var.astype(np.float64)
        scaled = scales_of(fitted.scales, fitted.directed).scaled(m, 0, *wide)
        p, p_var = (a.astype(p.dtype) for a in scaled)
    rows = Side(mean[r][i], var[r][i], *(b[2 * m][i] for b in biases))
    return rows, Side(p, p_var, *(b[2 * m + 1][j] for b in biases))


def drawn(fitted: Fitted, m: int, i: Indices, j: Indices, rng: np.random.Generator) -> tuple[Side, Side]:
    """One draw of rows i, columns j and the scales of relation m from the posterior; nothing is uncertain then."""
    r, c = fitted.ends[m]
    same = r == c
    own, other = (np.arange(len(fitted.mean[r])),) * 2 if same else (i, j)
    u, b = _draw(fitted, r, 2 * m, own, rng)
    p, d = _draw(fitted, c, 2 * m + 1, other, rng)
    if same:
        # An entity is one, on either side.
        p = u
        u, p, b, d = u[i], p[j], b[i], (b if fitted.schema.relations[m].symmetric else d)[j]
    if fitted.scales is not None:
        scales = scales_of(fitted.scales, fitted.directed)
        p = p[:, scales.mates[m]] * rng.normal(scales.mean[m], np.sqrt(scales.var[m]))
    none = np.zeros(1)
    return Side(u, none, b, none), Side(p, none, d, none)


def _draw(fitted: Fitted, e: int, layer: int, at: Indices, rng: np.random.Generator) -> tuple[Floats, Floats]:
    u = rng.normal(fitted.mean[e][at], np.sqrt(fitted.var[e][at]))
    return u, rng.normal(fitted.bias_mean[layer][at], np.sqrt(fitted.bias_var[layer][at]))


@dataclass(frozen=True, eq=False)
class Question:
    """Who is asked about, what may be recommended, and by what it is ranked."""

    m: int
    asked: Indices
    candidates: Indices
    """Positions within their sets; no candidate comes twice."""
    n: int
    by: str
    """"mean", "lower", "upper" or "sample"."""
    to_rows: bool = True
    """Whether rows are asked about and columns recommended, or the other way round."""

    def cells(self, asked: Indices, items: Indices) -> tuple[Indices, Indices]:
        """Rows and columns."""
        return (asked, items) if self.to_rows else (items, asked)


def recommend(
    fitted: Fitted, question: Question, seen: Pairs | None, rng: np.random.Generator, n_threads: int
) -> Ranked:
    """The n candidates with the highest score for each that is asked, without those that were seen."""
    q, (i, j) = question, question.cells(question.asked, question.candidates)
    plain = q.by != "mean" or fitted.likelihoods[q.m].least_squares or fitted.draws is not None
    which_draw = int(rng.integers(fitted.draws.n)) if fitted.draws is not None and q.by == "sample" else None
    if fitted.draws is None:
        both = drawn(fitted, q.m, i, j, rng) if q.by == "sample" else sides(fitted, q.m, i, j, of_q=q.by == "mean")
        left, right = both if q.to_rows else both[::-1]
        score = _scorer(fitted, q, (left, right), j)
        queries, items = left.factors(left=True), right.factors(left=False)
    else:
        score = _draw_scorer(fitted, fitted.draws, q, which_draw)
    hide = _hider(fitted, q, seen)

    def best(part: slice) -> Ranked:
        values = score(part)
        hide(part, values)
        of, which = _shortlist(values, q.n + SPARE if plain else 2 * q.n + SPARE)
        theta = None
        if q.by == "sample" and fitted.draws is None:
            theta = np.einsum("nk,nk->n", queries[of + part.start], items[which]) + fitted.offset[q.m]
        return _in_order(fitted, q, of + part.start, which, theta=theta, which_draw=which_draw)

    return _in_blocks(best, (len(q.asked), len(q.candidates)), n_threads)


def _draw_scorer(fitted: Fitted, draws: Draws, q: Question, which: int | None) -> Callable[[slice], Array]:
    """What scores a block of those asked with all candidates of a sampled model, as `predict` and `sample` have it."""
    likelihood, some = fitted.likelihoods[q.m], range(draws.n) if which is None else [which]
    summed = q.by not in QUANTILE and (likelihood.least_squares or which is not None)

    def theta(asked: Indices, items: Indices, s: int) -> Array:
        """Of those asked (rows here) and items (columns), in one draw."""
        u, p, b, d = draws.sides(q.m, *q.cells(asked, items), s)
        found = u @ p.T + b[:, None] + d + np.float32(draws.offset[q.m])
        return np.asarray(found if q.to_rows else found.T)

    def some_columns(asked: Indices, items: Indices) -> Array:
        each = (theta(asked, items, s) for s in some)
        if summed:
            values = np.asarray(sum(each)) / len(some)
        elif q.by in QUANTILE:
            values = np.asarray(np.quantile(np.stack(list(each)), QUANTILE[q.by], axis=0, overwrite_input=True))
        else:
            values = drawn_mean(likelihood, np.stack(list(each)).astype(np.float64))
        if fitted.units[q.m] is None or not q.to_rows:
            return values
        center, scale = fitted.measure(q.m, items)
        return np.asarray(values * scale + center)

    def score(part: slice) -> Array:
        asked = q.asked[part]
        step = max(BLOCK_OF_DRAWS // ((1 if summed else len(some)) * len(asked)), 1)
        return np.concatenate([some_columns(asked, q.candidates[start : start + step])
                               for start in range(0, len(q.candidates), step)], axis=1)  # fmt: skip

    return score


def _scorer(fitted: Fitted, q: Question, both: tuple[Side, Side], j: Indices) -> Callable[[slice], Array]:
    """What scores a block of those asked with all candidates, higher for better; the same order as what is told."""
    left, right = both
    likelihood, offset = fitted.likelihoods[q.m], fitted.offset[q.m]
    dtype = fitted.mean[0].dtype
    queries = left.factors(left=True).astype(dtype)
    items = np.ascontiguousarray(right.factors(left=False).T, dtype)
    plain = q.by == "sample" or (q.by == "mean" and likelihood.least_squares)
    wide = None if plain else (left.spreads(left=True), np.ascontiguousarray(right.spreads(left=False).T))
    own_units = fitted.units[q.m] is not None and q.to_rows
    center, scale = fitted.measure(q.m, j) if own_units else (0.0, 1.0)

    def score(part: slice) -> Array:
        theta = queries[part] @ items
        if wide is not None:
            var = wide[0][part] @ wide[1]
            if offset:
                theta += theta.dtype.type(offset)
            if q.by == "mean":
                theta = np.asarray(likelihood.rank(theta, var))
            else:
                np.sqrt(var, out=var)
                theta += theta.dtype.type(TENTH if q.by == "upper" else -TENTH) * var
        return np.asarray(theta * scale + center) if own_units else theta

    return score


def _hider(fitted: Fitted, q: Question, seen: Pairs | None) -> Callable[[slice, Array], None]:
    """What makes the worst of what may not be recommended: what was seen, and an entity to itself."""
    of_candidate = np.full(len(fitted.mean[fitted.ends[q.m][1 if q.to_rows else 0]]), -1)
    of_candidate[q.candidates] = np.arange(len(q.candidates))
    itself = fitted.ends[q.m][0] == fitted.ends[q.m][1]
    ends, items = (None, None) if seen is None else (seen if q.to_rows else seen.transposed()).by_row

    def hide(part: slice, values: Array) -> None:
        asked = q.asked[part]
        if ends is not None and items is not None:
            lengths = ends[asked + 1] - ends[asked]
            of = np.repeat(np.arange(len(asked)), lengths)
            at = np.arange(len(of)) + np.repeat(ends[asked] - np.cumsum(lengths) + lengths, lengths)
            where = of_candidate[items[at]]
            values[of[where >= 0], where[where >= 0]] = -np.inf
        if itself:
            own = of_candidate[asked]
            values[np.flatnonzero(own >= 0), own[own >= 0]] = -np.inf

    return hide


def _in_blocks(best: Callable[[slice], Ranked], shape: tuple[int, int], n_threads: int) -> Ranked:
    """Put together what is best in each block of rows of a matrix, of which only blocks exist."""
    n_rows, width = shape
    step = max(BLOCK // max(width, 1), 1)
    parts = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows if width else 0, step)]
    with single_threaded_blas(), ThreadPoolExecutor(n_threads) as pool:
        found = list(pool.map(best, parts))
    if not found:
        return Ranked(*(np.empty(0, np.int64),) * 3, *(np.empty(0),) * 2)
    return Ranked(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def _shortlist(values: Array, n: int) -> tuple[Indices, Indices]:
    """Row and column of the n highest of each row at least, in their order; without those that are hidden.

    Columns are put in groups. As many elements as groups are at least the n-th highest maximum of a group, so that
    whoever is lower is not among the n highest: a few passes over the values, where a partition takes three times as
    long.
    """
    height, width = values.shape
    n_groups = width // GROUP
    cut = np.full((height, 1), -np.inf, values.dtype)
    if n < n_groups:
        whole = values[:, : GROUP * n_groups].reshape(height, GROUP, n_groups).max(axis=1)
        cut = np.partition(whole, n_groups - n, axis=1)[:, n_groups - n, None]
    # Of one dimension NumPy finds what is not zero ten times as fast as of two.
    row, col = np.divmod(np.flatnonzero(values >= np.maximum(cut, np.finfo(values.dtype).min)), width)
    return row, col


def _in_order(  # noqa: PLR0913 - a short list, and what it is ordered by
    fitted: Fitted, q: Question, of: Indices, which: Indices, *, theta: Floats | None, which_draw: int | None
) -> Ranked:
    """Score a short list once more, exactly, and keep the n best of each that was asked."""
    items = q.candidates[which]
    i, j = q.cells(q.asked[of], items)
    expected = predict_pairs(fitted, q.m, i, j)
    score = expected.mean
    if q.by != "mean":
        theta = _theta(fitted, q, (i, j), which_draw) if theta is None else theta
        center, scale = fitted.measure(q.m, j)
        score = np.asarray(fitted.likelihoods[q.m].mean(theta, np.zeros_like(theta)) * scale + center)
    order, rank = _ordered(of, score)
    kept = order[rank < q.n]
    return Ranked(of[kept], rank[rank < q.n] + 1, items[kept], score[kept], expected.std[kept])


def _theta(fitted: Fitted, q: Question, cells: tuple[Indices, Indices], which_draw: int | None) -> Floats:
    """θ a tenth above or below what is expected: deviations of a normal, or quantiles of draws; or that of one draw."""
    if fitted.draws is None:
        theta, var = theta_pairs(fitted, q.m, *cells)
        return np.asarray(theta + (TENTH if q.by == "upper" else -TENTH) * np.sqrt(var))
    step, parts = cells_at_a_time(fitted), [np.empty(0)]
    for start in range(0, len(cells[0]), step):
        i, j = (at[start : start + step] for at in cells)
        if which_draw is not None:
            parts.append(fitted.draws.one(q.m, i, j, which_draw))
        else:
            parts.append(np.quantile(fitted.draws.linear_predictors(q.m, i, j), QUANTILE[q.by], axis=0))
    return np.concatenate(parts)


# --- entities that are alike --------------------------------------------------------------------------------


def metric(fitted: Fitted, e: int, relation: int | None = None) -> Floats:
    """M = Σ_m w_m ⟨(d∘p)(d∘p)ᵀ⟩ over the partners of set e, (K, K), in all its relations or one.

    w_m is the weight of a cell at the mean of its relation (Gaussian: ⟨τ⟩). (u − u′)ᵀ M (u − u′)/2 is then how far
    apart the cells of two entities are expected to be: the divergence of their distributions, averaged over partners.
    """
    M = np.zeros((fitted.on.shape[1],) * 2)
    for m, ends in enumerate(fitted.ends):
        for side in (0, 1):
            if ends[side] != e or (relation is not None and m != relation) or (side and _symmetric(fitted, m)):
                continue
            p, var = (a[ends[1 - side]].astype(np.float64) for a in (fitted.mean, fitted.var))
            if fitted.scales is not None:
                p, var = scales_of(fitted.scales, fitted.directed).scaled(m, side, p, var)
            M += _weight(fitted, m) * (p.T @ p + np.diag(var.sum(axis=0))) / len(p)
    return M


def _symmetric(fitted: Fitted, m: int) -> bool:
    return bool(fitted.schema.relations[m].symmetric)


def _weight(fitted: Fitted, m: int) -> float:
    """W of a cell at θ = offset with the mean that it has there: f″, by a difference of f′ = w m − wz."""
    likelihood = fitted.likelihoods[m]
    if likelihood.standardized:
        return 1.0 / float(likelihood.noise_variance(fitted.parameters[m]))
    theta = fitted.offset[m] + np.array([-0.01, 0.0, 0.01])
    mean = likelihood.mean(theta, np.zeros(3))
    return float((mean[2] - mean[0]) / 0.02)


def loadings(fitted: Fitted, e: int, M: Floats) -> Floats:
    """Rows whose products are ūᵀ M ū′/√(⟨uᵀMu⟩⟨u′ᵀMu′⟩), (d, K): who is known badly is not much like anybody."""
    mean, var = fitted.mean[e].astype(np.float64), fitted.var[e].astype(np.float64)
    values, vectors = np.linalg.eigh(M)
    z = mean @ (vectors * np.sqrt(np.maximum(values, 0.0)))
    norm = np.sqrt((z**2).sum(axis=1) + var @ np.diag(M))
    return np.asarray(z / np.where(norm > 0, norm, 1.0)[:, None])


def similar(asked: Floats, of: Floats, itself: Indices, n: int, n_threads: int) -> Ranked:
    """The n rows of `of` whose products with each row asked are highest; `itself` is its own position there, or −1."""
    items = np.ascontiguousarray(of.T, dtype=np.float32)
    queries = asked.astype(np.float32)

    def best(part: slice) -> Ranked:
        values = queries[part] @ items
        own = itself[part]
        values[np.flatnonzero(own >= 0), own[own >= 0]] = -np.inf
        row, item = _shortlist(values, n + SPARE)
        score = np.einsum("nk,nk->n", asked[row + part.start], of[item])
        order, rank = _ordered(row, score)
        kept = order[rank < n]
        return Ranked(row[kept] + part.start, rank[rank < n] + 1, item[kept], score[kept], np.zeros(len(kept)))

    return _in_blocks(best, (len(asked), len(of)), n_threads)


def _ordered(row: Indices, score: Floats) -> tuple[NDArray[np.intp], Indices]:
    """The order by row and falling score, and the rank of each that comes, from 0; equals stay as they come."""
    order = np.lexsort((-score, row))
    return order, np.arange(len(order)) - np.searchsorted(row[order], row[order])
