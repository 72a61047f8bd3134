"""Why a cell is predicted as it is: parts of θ that add up, by factors, and by the cells that an entity was known from.

At the fixed point of the sweeps a row is (ū, b̄) = A⁻¹ (h₀ + Σ h_c): h₀ is what the prior says, and h_c = w t (ū_j, 1)
what cell c says (docs/model.md, "The row update"). With a = (ū_j, 1) of the partner that is asked about, a·A⁻¹ h_c is
the part of θ that is owed to the cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.model.drawn import model_at
from gcmf.model.newcomers import layers_of, swept_bias_var, swept_var, terms_of
from gcmf.model.posterior import scales_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gcmf.model.fitted import Fitted

    Floats = NDArray[np.float64]
    Indices = NDArray[np.int64]
    Covariates = Any
    """An array or a sparse array of features of one entity; None where nothing is known of it."""


class OwnCells(NamedTuple):
    """The cells of one entity in one relation, on one side of it."""

    relation: int
    side: int
    partner: Indices
    """Positions in the other set."""
    x: Floats
    """As they were fitted: standardized."""
    times: Floats
    """How many cells each counts as."""


class Reasons(NamedTuple):
    """What the θ of a cell owes to one of its entities, in parts that add up to that entity's share of θ."""

    cells: list[Floats]
    """Each of the entity's cells, in the order given."""
    prior: float
    """What was expected of it without cells."""
    linked: float
    """Its bias, where it has no cell in the relation: what other biases say."""
    rest: float
    """What remains: sweeps that had not quite settled, rounding, and cells that were not given."""


def by_factors(fitted: Fitted, m: int, i: int, j: int) -> tuple[float, float, Floats]:
    """Biases of row i and column j, and the part of every factor, in θ of relation m; of draws, their means."""
    if fitted.draws is not None:
        b, d, drawn = fitted.draws.parts(m, np.array([i]), np.array([j]))
        return float(b[0]), float(d[0]), drawn[0]
    (r, c), p = fitted.ends[m], fitted.mean[fitted.ends[m][1]][j].astype(np.float64)
    if fitted.scales is not None:
        p, _ = scales_of(fitted.scales, fitted.directed).scaled(m, 0, p, np.zeros_like(p))
    del c
    parts = fitted.mean[r][i].astype(np.float64) * p
    return float(fitted.bias_mean[2 * m][i]), float(fitted.bias_mean[2 * m + 1][j]), parts


def by_cells(
    fitted: Fitted, target: tuple[int, int, int, int], own: Sequence[OwnCells], features: Covariates
) -> Reasons:
    """What θ of the cell owes to the cells of the entity on one side; `target` is relation, side, entity, partner.

    `features` are the covariates of the entity, (1, p), or None. Of a sampled model each part is its mean over draws:
    "rest" is then also what rows differ by from their expectations, given all else.
    """
    draws = fitted.draws
    if draws is None:
        return _by_cells(fitted, target, own, features)
    m, side, _, j = target
    ends, layer = {fitted.ends[m][side]}, 2 * m + 1 - side
    ends |= {fitted.ends[cells.relation][1 - cells.side] for cells in own} | {fitted.ends[m][1 - side]}
    found = []
    for s in range(draws.n):
        model = model_at(fitted, s, sorted(ends))
        reasons = _by_cells(model, target, own, features)
        # What the center of the entity's set does is told with the partner's bias.
        moved = float(draws.biases[layer][s, j]) - float(model.bias_mean[layer][j])
        found.append(reasons._replace(prior=reasons.prior - moved))
    cells, prior, linked, rest = zip(*found, strict=True)
    means = [np.mean(parts, axis=0) for parts in zip(*cells, strict=True)]
    return Reasons(means, float(np.mean(prior)), float(np.mean(linked)), float(np.mean(rest)))


def _by_cells(
    fitted: Fitted, target: tuple[int, int, int, int], own: Sequence[OwnCells], features: Covariates
) -> Reasons:
    m, side, i, j = target
    e = fitted.ends[m][side]
    on, layers, terms = fitted.on[e], layers_of(fitted, e), terms_of(fitted)
    K, place = int(on.sum()), {layer: n for n, layer in enumerate(layers)}
    A, h0 = _prior(fitted, e, features)
    rows: list[tuple[Floats, Floats]] = []
    active = np.zeros(len(A), dtype=bool)
    active[:K] = True
    for cells in own:
        p, p_var = _seen(fitted, cells.relation, cells.side, cells.partner)
        w, wt = _form(fitted, e, i, cells, (p, p_var))
        layer = place[2 * cells.relation + cells.side]
        inner = np.zeros((len(w), len(A)))
        inner[:, :K] = p[:, on]
        if terms.biased[layers[layer]] and len(w):
            inner[:, K + layer] = 1.0
            active[K + layer] = True
        A += (inner.T * w) @ inner
        A[np.arange(K), np.arange(K)] += w @ p_var[:, on]
        rows.append((inner, wt))
    a = np.zeros(len(A))
    asked, _ = _seen(fitted, m, side, np.array([j]))
    a[:K] = asked[0, on]
    at = K + place.get(2 * m + side, place.get(2 * m, 0))
    a[at] = 1.0
    bias = float(fitted.bias_mean[2 * m + side][i])
    linked = 0.0 if active[at] else bias
    solved = np.zeros(len(A))
    solved[active] = np.linalg.solve(A[np.ix_(active, active)], a[active])
    parts = [(inner @ solved) * wt for inner, wt in rows]
    prior = float(solved @ np.where(active, h0, 0.0))
    share = float(fitted.mean[e][i].astype(np.float64) @ asked[0]) + bias
    return Reasons(parts, prior, linked, share - linked - prior - sum(float(part.sum()) for part in parts))


def _prior(fitted: Fitted, e: int, features: Covariates) -> tuple[Floats, Floats]:
    """Precision of the prior of factors that are on and of all biases, as a matrix, and precision times mean."""
    terms, layers, on = terms_of(fitted), layers_of(fitted, e), fitted.on[e]
    scale = np.where(terms.biased[layers], terms.bias_prior[1, layers], 1.0)
    precision = np.concatenate([terms.precision[e, on], 1.0 / scale])
    center = np.zeros(len(on)) if terms.center is None else terms.center[e]
    mean = np.concatenate([center[on], terms.bias_prior[0, layers]])
    if features is not None:
        effects = fitted.effects[fitted.schema.entities[e]]
        told, told_bias = (np.asarray(features @ w)[0] for w in (effects.mean, effects.bias_mean[:, layers]))
        mean += np.concatenate([told[on], told_bias])
    return np.diag(precision), precision * mean


def _seen(fitted: Fitted, m: int, side: int, partner: Indices) -> tuple[Floats, Floats]:
    """Means and variances of partners as an entity on this side of relation m sees them."""
    other = fitted.ends[m][1 - side]
    p, var = fitted.mean[other][partner].astype(np.float64), swept_var(fitted, other)[partner].astype(np.float64)
    return (p, var) if fitted.scales is None else scales_of(fitted.scales, fitted.directed).scaled(m, side, p, var)


def _form(fitted: Fitted, e: int, i: int, cells: OwnCells, partners: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """W and w t of an entity's cells, t = z less the partner's bias and the offset, at what was fitted."""
    m, side, (p, p_var) = cells.relation, cells.side, partners
    u, u_var = fitted.mean[e][i].astype(np.float64), swept_var(fitted, e)[i].astype(np.float64)
    mine, theirs, offset = 2 * m + side, 2 * m + 1 - side, fitted.offset[m]
    b, b_var = (a[cells.partner].astype(np.float64) for a in (fitted.bias_mean[theirs], swept_bias_var(fitted, theirs)))
    mean = p @ u + float(fitted.bias_mean[mine][i]) + b + offset
    var: Any = p_var @ (u**2 + u_var) + p**2 @ u_var + float(swept_bias_var(fitted, mine)[i]) + b_var
    w, wz = fitted.likelihoods[m].quadratic(cells.x, mean, var, terms_of(fitted).parameters[m])
    times: Any = cells.times
    if fitted.row_noise is not None:
        times = times * fitted.row_noise.at(mine, np.array(i)) * fitted.row_noise.at(theirs, cells.partner)
    return times * w, times * (wz - w * (b + offset))
