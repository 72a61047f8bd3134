"""How much of each relation the biases and each factor explain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.data.cells import Triplets, holes
from gcmf.data.parts import pick
from gcmf.data.positions import Runs
from gcmf.data.split import draw
from gcmf.model.structure import reached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gcmf.data.bound import BoundRelation
    from gcmf.data.cells import Cells
    from gcmf.data.collection import Collection
    from gcmf.engines.base import State
    from gcmf.model.draws import Draws
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]
    Indices = NDArray[np.integer[Any]]

#: Cells per relation that are looked at; of larger relations so many are drawn at random, always the same ones.
MAX_CELLS = 200_000
#: Of a sampled model so many times draws, and at least so many.
MAX_DRAWN, MIN_CELLS = 8_000_000, 10_000
_SEED = 0
#: Cells at a time.
_CHUNK = 10_000


class Explained(NamedTuple):
    """Fractions of the deviance of an intercept-only model (Gaussian: of the variance), on the training cells.

    A category that is given as 0/1 columns is counted as one cell: its intercepts are the shares of its levels, and a
    factor that nothing but the category itself tells of explains nothing.
    """

    bias: Floats
    """What biases alone explain, (M,)."""
    factors: Floats
    """What each factor adds to the biases when it is added alone, (M, K)."""
    total: Floats
    """What the whole model explains, (M,)."""


def explain(spec: Spec, posterior: Posterior, state: State, data: Collection, draws: Draws | None = None) -> Explained:
    """1 − D/D₀ for biases, each factor and all together; D the deviance, D₀ that of the mean alone.

    D is taken at the expected θ, of a sampled model the mean over its draws; so are its parts.
    """
    rows = [_relation(spec, posterior, state, data, m, draws=draws) for m in range(len(spec.ends))]
    bias, factors, total = zip(*rows, strict=True)
    return Explained(np.array(bias), np.stack(factors), np.array(total))


def predictors(  # noqa: PLR0913 - what a model is made of, and of which cells
    spec: Spec, posterior: Posterior, s: State, m: int, cells: tuple[Indices, Indices], *, draws: Draws | None = None
) -> tuple[Floats, Floats]:
    """What θ of cells (i, j) of relation m is made of: biases and offset (n,), and each factor's part (n, K)."""
    (r, c), (i, j), scales = spec.ends[m], cells, posterior.scales
    if draws is not None:
        b_row, b_col, parts = draws.parts(m, i.astype(np.int64), j.astype(np.int64))
        return b_row + b_col + spec.offset[m], parts
    biases = s.bias_mean[2 * m][i].astype(np.float64) + s.bias_mean[spec.layer(m, 1)][j] + spec.offset[m]
    theirs = s.mean[c][j]
    if scales is not None:
        theirs = (theirs[:, scales.mate] if spec.directed[m] else theirs) * scales.mean[m]
    return biases, s.mean[r][i].astype(np.float64) * theirs


def _relation(  # noqa: PLR0913 - what a model is made of, and of which relation
    spec: Spec, posterior: Posterior, s: State, data: Collection, m: int, *, draws: Draws | None
) -> tuple[float, Floats, float]:
    likelihood, relation, K = spec.likelihoods[m], data.relations[spec.schema.relations[m].name], posterior.n_factors
    settled = likelihood.settled(posterior.parameters[m], spec.parameter_prior)

    def deviance(x: Floats, theta: Floats) -> Floats:
        return likelihood.deviance(x, theta, settled)

    in_category = None if relation.lead is None else np.bincount(relation.lead, minlength=relation.shape[1])
    seen = _told_of(spec, posterior, m, relation)
    base, alone, whole, plain = 0.0, np.zeros(K), 0.0, 0.0
    low, high = np.inf, -np.inf
    for (i, j, value), weight in sample(relation.cells, most_cells(draws)):
        x = (value.astype(np.float64) - spec.center[m]) / spec.scale[m]
        low, high = min(low, x.min()), max(high, x.max())
        b, p = predictors(spec, posterior, s, m, (i, j), draws=draws)
        p = np.where(seen, p, 0.0)
        chance = np.full_like(x, spec.offset[m])
        if relation.lead is not None and in_category is not None:
            chance = np.where(in_category[relation.lead[j]] > 1, b, chance)
        plain += float(weighed(weight, deviance(x, chance)))
        base += float(weighed(weight, deviance(x, b)))
        alone += weighed(weight, deviance(x[:, None], b[:, None] + p))
        whole += float(weighed(weight, deviance(x, b + p.sum(axis=1))))
    if low == high:
        return 0.0, np.zeros(K), 0.0  # every cell is the same: there is nothing to explain
    # The same sums in another order would leave a rounding error where a factor adds nothing at all.
    return 1.0 - base / plain, np.where(seen, (base - alone) / plain, 0.0), 1.0 - whole / plain


def _told_of(spec: Spec, posterior: Posterior, m: int, relation: BoundRelation) -> NDArray[np.bool_]:
    """Which factors may explain relation m, (K,): those that it sees.

    Where the columns are levels of a single category, a row has but one cell, and its factors have to be known from
    another relation of the row, or from covariates.
    """
    seen, r = reached(spec, posterior), spec.ends[m][0]
    observed = np.flatnonzero(relation.cells.cols.counts())
    if relation.lead is None or len(np.unique(relation.lead[observed])) > 1:
        return np.asarray(seen[m])
    if any(design.e == r and design.layer is None for design, _, _ in posterior.regressions):
        return np.asarray(seen[m])
    elsewhere = [seen[other] for other, ends in enumerate(spec.ends) if other != m and r in ends]
    return np.asarray(seen[m] & np.any(elsewhere, axis=0)) if elsewhere else np.zeros_like(seen[m])


def weighed(weight: float | Floats, values: Floats) -> Floats:
    """Sum values over cells that all count as so many, or each as its own number says."""
    return np.asarray(weight * values.sum(axis=0) if isinstance(weight, float) else weight @ values)


def most_cells(draws: Draws | None) -> int:
    """Cells per relation that are looked at: fewer where θ of each is a mean over many draws."""
    return MAX_CELLS if draws is None else max(min(MAX_CELLS, MAX_DRAWN // draws.n), MIN_CELLS)


def sample(cells: Cells, most: int = MAX_CELLS) -> Iterator[tuple[Triplets, float | Floats]]:
    """Yield all cells, or `most` different ones where there are more, some at a time, and how many each stands for.

    Drawn, and not every n-th one: a step that divides the width of a complete matrix would see the same columns only.
    Where unlisted cells are zeros, those and the others are drawn apart: the others may be a few in a million.
    """
    rng, n = np.random.default_rng(_SEED), cells.n_cells
    if cells.rows.weight is not None:
        numbers = draw(rng, n, most) if n > most else np.arange(n)
        yield pick(cells, numbers), cells.rows.weight[numbers].astype(np.float64)
        return
    if n <= most:
        yield from ((part, 1.0) for part in cells.chunks(_CHUNK))
        return
    drawn = pick(cells, draw(rng, n, most))
    if not cells.filled:
        yield from _parts(drawn, 1.0)
        return
    side = cells.rows
    others = np.flatnonzero((side.value != 0) & ~holes(side.value))
    chosen = others[draw(rng, len(others), most)] if len(others) > most else others
    zero = drawn.x == 0
    if len(chosen):
        listed = Triplets(Runs(side.indptr)[chosen], cells.members()[1][side.partner[chosen]], side.value[chosen])
        yield from _parts(listed, len(others) / len(chosen))
    if zero.any():
        yield from _parts(Triplets(*(a[zero] for a in drawn)), (n - len(others)) / int(zero.sum()))


def _parts(cells: Triplets, weight: float) -> Iterator[tuple[Triplets, float]]:
    for start in range(0, len(cells.x), _CHUNK):
        yield Triplets(*(a[start : start + _CHUNK] for a in cells)), weight
