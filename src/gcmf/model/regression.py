"""Prior means that regress on what is known of entities: u_ik ~ N(f_iᵀ w_k, 1/α_k) and b_i ~ N(μ + f_iᵀ c, σ²).

Coefficients have a posterior q(w) = N(w̄, C) and a prior N(0, v), v = a_g b_k: what the features of source column g say,
times how much factor k depends on features. Both are learned. A column that tells nothing goes to a = 0, and a factor
of which features tell nothing to b = 0, where the model is the one without them. Biases of each layer have a_g alone.
Nothing here goes over cells: all that is needed of the rows is H = Fᵀ ū, which the engine sums up. See docs/model.md,
"Covariates".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Engine
    from gcmf.model.posterior import Moments, Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]

#: Updates of q(w) and of the precision that it meets, after each sweep; and steps of conjugate gradients in each.
ROUNDS = 2
STEPS = 10
#: No variance that something is divided by is smaller.
TINY = 1e-200


@dataclass(frozen=True, eq=False)
class Design:
    """What the factors of an entity set, or its biases of one layer, regress on."""

    e: int
    layer: int | None
    """The bias layer; None: the factors."""
    block: int
    """Which block of the set that layer is of; 0 for the factors."""
    features: Any
    """F: an array or a sparse array, (d, p)."""
    group: NDArray[np.intp]
    """The source column of each feature, (p,)."""
    seen: NDArray[np.bool_]
    """Entities with data, which alone count, (d,)."""

    @cached_property
    def rows(self) -> Any:  # noqa: ANN401 - an array or a sparse array
        """The rows of F that count, (n, p)."""
        return self.features if self.seen.all() else self.features[self.seen]

    @cached_property
    def turned(self) -> Any:  # noqa: ANN401 - an array or a sparse array
        """The same, turned over, (p, n): of a sparse array that takes longer than a product of a small one."""
        return self.rows.T

    @cached_property
    def gram(self) -> Floats | None:
        """G = FᵀF, (p, p), where features are few, in an array; where they are many, in a sparse one, C is diagonal."""
        return None if sparse.issparse(self.features) else np.asarray(self.rows.T @ self.rows)

    @cached_property
    def squares(self) -> Floats:
        """The diagonal of G, (p,)."""
        return np.asarray((self.rows * self.rows).sum(axis=0)).ravel()

    @cached_property
    def totals(self) -> Floats:
        """Σ_i f_i, (p,)."""
        return np.asarray(self.rows.sum(axis=0)).ravel()

    @cached_property
    def sizes(self) -> Floats:
        """Features of each source column, (G, 1)."""
        return np.bincount(self.group).astype(float)[:, None]

    def norm(self, mean: Floats) -> Floats:
        """|F w̄|² over the rows that count, (T,)."""
        if self.gram is not None:
            return np.asarray((mean * (self.gram @ mean)).sum(axis=0))
        return np.asarray(((self.rows @ mean) ** 2).sum(axis=0))

    def norms(self, mean: Floats) -> Floats:
        """|F_g w̄_g|² over the rows that count, by the features of each source column alone, (G, T)."""
        alone = self.summed(self.squares[:, None] * mean**2)
        columns = self.rows.tocsc() if sparse.issparse(self.rows) else self.rows
        for g in np.flatnonzero(self.sizes[:, 0] > 1).tolist():
            at = np.flatnonzero(self.group == g)
            alone[g] = ((columns[:, at] @ mean[at]) ** 2).sum(axis=0)
        return alone

    def summed(self, values: Floats) -> Floats:
        """Sum over the features of each source column, (p, T) → (G, T)."""
        out = np.zeros((len(self.sizes), values.shape[1]))
        np.add.at(out, self.group, values)
        return out


class Coefficients(NamedTuple):
    """q(w) of T parameters, and what the bound needs of it."""

    mean: Floats
    """w̄, (p, T)."""
    var: Floats
    """The diagonal of C, (p, T)."""
    by_column: Floats
    """a, (G,)."""
    by_target: Floats
    """b, (T,): the prior variance is a b; 0 where there is no regression."""
    spread: Floats
    """tr(G C), (T,)."""
    divergence: Floats
    """KL(q(w) ‖ p(w)), (T,); of a point, −log p(w)."""

    def turned(self, T: Floats) -> Coefficients:
        """As factors are turned, ū ← ū T. The divergence is right if T copies, scales and drops, else until updated."""
        square = T * T
        share = square / np.maximum(square.sum(axis=0), TINY)
        return Coefficients(
            self.mean @ T, self.var @ square, self.by_column, self.by_target @ square, self.spread @ square,
            self.divergence @ share,
        )  # fmt: skip


class Regression(NamedTuple):
    """A design, q(w), and what the engine has told of the parameters that regress: H = Fᵀ ū, (p, T)."""

    design: Design
    q: Coefficients
    products: Floats

    @property
    def taken(self) -> Floats:
        """What Σ [(ū − f_iᵀ w)² + ũ] has more than Σ (ū² + ũ), on average over q(w), (T,)."""
        shared = (self.q.mean * self.products).sum(axis=0)
        return np.asarray(self.design.norm(self.q.mean) - 2.0 * shared + self.q.spread)


def begin(
    design: Design, precision: Floats, on: NDArray[np.bool_], *, point: bool, by_column: Floats | None = None
) -> Regression:
    """No effect yet, and a prior by which the features together would say as much as is left open, 1/precision."""
    a = np.ones(len(design.sizes)) if by_column is None else by_column
    row = float(design.squares @ a[design.group]) / max(float(design.seen.sum()), 1.0)
    b = on / (precision * max(row, TINY))
    nothing = np.zeros((len(design.group), len(precision)))
    return Regression(design, solve(design, precision, (a, b), nothing, nothing, point=point), nothing)


def solve(  # noqa: PLR0913 - what a regression is made of
    design: Design, precision: Floats, scales: tuple[Floats, Floats], products: Floats, start: Floats, *, point: bool
) -> Coefficients:
    """q(w) = N(α C H, C), C = (α G + 1/v)⁻¹: the maximum of the bound given α (`precision`, (T,)) and v = a b.

    In units of √v, B = I + α √v G √v is never singular, also where v = 0. With many columns q is factorized: C has the
    inverse of the diagonal, and w̄ is improved from `start` by a few steps of conjugate gradients.
    """
    scale = np.outer(*scales)
    root = np.sqrt(scale)[design.group]
    right = precision * root * products
    if design.gram is not None:
        y, share, log_det = _whole(design.gram, precision, root, right)
    else:
        share = 1.0 / (1.0 + precision * root**2 * design.squares[:, None])
        log_det = -np.log(share).sum(axis=0)
        y = _gradients(design, precision, root, right, start=np.divide(start, root, out=0.0 * root, where=root > 0))
    if point:
        used = np.log(2.0 * np.pi * scale, out=np.zeros_like(scale), where=scale > 0)
        divergence = 0.5 * ((y**2).sum(axis=0) + (design.sizes * used).sum(axis=0))
        return Coefficients(root * y, 0.0 * y, *scales, 0.0 * precision, divergence)
    divergence = 0.5 * ((y**2 + share - 1.0).sum(axis=0) + log_det)
    var = root**2 * share
    spread = design.squares @ var if design.gram is None else (1.0 - share).sum(axis=0) / precision
    return Coefficients(root * y, var, *scales, spread, divergence)


def _whole(G: Floats, precision: Floats, root: Floats, right: Floats) -> tuple[Floats, Floats, Floats]:
    """B⁻¹ `right`, the diagonal of B⁻¹ and log det B, of every parameter: (p, T), (p, T) and (T,)."""
    B = whitened(G, precision, root)
    inverse = inverted(B)
    y = (inverse @ right.T[:, :, None])[:, :, 0].T
    return y, np.diagonal(inverse, axis1=1, axis2=2).T, np.linalg.slogdet(B)[1]


def whitened(G: Floats, precision: Floats, root: Floats) -> Floats:
    """B = I + α √v G √v of every parameter, (T, p, p)."""
    return np.asarray(np.eye(len(G)) + precision[:, None, None] * root.T[:, :, None] * G * root.T[:, None, :])


def inverted(B: Floats) -> Floats:
    """B⁻¹ of every parameter; NaN where α v is so large that rounding has made one singular: nobody stays there."""
    try:
        return np.asarray(np.linalg.inv(B), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.full_like(B, np.nan)


def _gradients(design: Design, precision: Floats, root: Floats, right: Floats, *, start: Floats) -> Floats:
    """Steps of conjugate gradients towards B y = `right`, each of which raises the bound; all T systems at once."""
    rows, turned, y = design.rows, design.turned, start
    if not root.any():
        return y

    def product(x: Floats) -> Floats:
        return np.asarray(x + precision * root * (turned @ (rows @ (root * x))))

    scaled = 1.0 / (1.0 + precision * root**2 * design.squares[:, None])
    left = right - product(y)
    z = scaled * left
    direction, size = z, (left * z).sum(axis=0)
    for _ in range(STEPS):
        image = product(direction)
        curved = (direction * image).sum(axis=0)
        step = np.divide(size, curved, out=np.zeros_like(size), where=curved > 0)
        y, left = y + step * direction, left - step * image
        z, old = scaled * left, size
        size = (left * z).sum(axis=0)
        direction = z + np.divide(size, old, out=np.zeros_like(size), where=old > 0) * direction
    return y


def update(spec: Spec, posterior: Posterior, *, biases: bool) -> Posterior:
    """First the prior variance, then q(w); of the factors, or of the biases.

    The sums of squares that precisions are learned from follow. In a MAP fit, where v would collapse, it stays.
    """
    regressions, moments = list(posterior.regressions), posterior.moments
    for n, (design, q, products) in enumerate(regressions):
        if (design.layer is not None) != biases:
            continue
        scales = (q.by_column, q.by_target) if spec.point else _scales(design, q)
        better = refit(spec, posterior, regressions[n], scales)
        moments = added(moments, regressions[n], -1.0)
        regressions[n] = Regression(design, better, products)
        moments = added(moments, regressions[n], 1.0)
    return posterior._replace(regressions=tuple(regressions), moments=moments)


def refit(spec: Spec, posterior: Posterior, regression: Regression, scales: tuple[Floats, Floats]) -> Coefficients:
    """q(w) given all else, and this prior variance."""
    design, products = regression.design, products_of(posterior, regression)
    return solve(design, precision_of(posterior, design), scales, products, regression.q.mean, point=spec.point)


def products_of(posterior: Posterior, regression: Regression) -> Floats:
    """Fᵀ ū of the factors, or Fᵀ (b̄ − ⟨μ⟩) of the biases, that regress, (p, T)."""
    design, _, products = regression
    if design.layer is None:
        return products
    return np.asarray(products - posterior.bias.mean[design.layer] * design.totals[:, None])


def precision_of(posterior: Posterior, design: Design) -> Floats:
    """⟨α⟩ of the factors, or 1/σ² of the biases, that regress, (T,)."""
    return posterior.alpha.mean[design.e] if design.layer is None else 1.0 / posterior.bias.scale[[design.layer]]


def _scales(design: Design, q: Coefficients) -> tuple[Floats, Floats]:
    """a_g = mean of ⟨w²⟩/b over a column's features and the factors, then b_k = mean of ⟨w²⟩/a over all features.

    Each is the maximum of the bound given the other. A single bias needs no b.
    """
    square, on, used = design.summed(q.mean**2 + q.var), q.by_target > 0, q.by_column > 0
    b = np.where(on, q.by_target, 1.0)
    a = np.maximum((square / b).sum(axis=1) / (design.sizes[:, 0] * max(on.sum(), 1)), TINY)
    if len(b) > 1:
        b = np.maximum((square / a[:, None])[used].sum(axis=0) / max(design.sizes[used].sum(), 1.0), TINY)
    return np.where(used, a, 0.0), np.where(on, b, 0.0)


def added(moments: Moments, regression: Regression, sign: float) -> Moments:
    """Σ [(ū − f_iᵀ w)² + ũ] for Σ (ū² + ũ), on average over q(w), and so for the biases and their sum."""
    design, taken = regression.design, sign * regression.taken
    if design.layer is None:
        square = moments.square.copy()
        square[design.e] += taken
        return moments._replace(square=square)
    bias_square, bias_sum = moments.bias_square.copy(), moments.bias_sum.copy()
    bias_square[design.layer] += taken[0]
    bias_sum[design.layer] -= sign * float(design.totals @ regression.q.mean[:, 0])
    return moments._replace(bias_square=bias_square, bias_sum=bias_sum)


def told(
    engine: Engine, posterior: Posterior, moments: Moments, *, swept: bool = False, biases: bool = True
) -> Posterior:
    """The posterior with sums that an engine has told, and with the products of features that it is asked for.

    After a sweep the sums of the factors are already those around the prior means of that sweep. Without `biases` those
    of the biases are as they were.
    """
    asked: dict[int, Floats] = {}
    regressions, K = [], moments.square.shape[1]
    for old in posterior.regressions:
        design, q, _ = old
        if design.layer is not None and not biases:
            regressions.append(old)
            continue
        if design.e not in asked:
            asked[design.e] = engine.regress(design.e)
        at = slice(K) if design.layer is None else slice(K + design.block, K + design.block + 1)
        regressions.append(Regression(design, q, asked[design.e][:, at]))
        if swept and design.layer is None:
            square = moments.square.copy()
            square[design.e] += q.spread
            moments = moments._replace(square=square)
        else:
            moments = added(moments, regressions[-1], 1.0)
    return posterior._replace(regressions=tuple(regressions), moments=moments)


def divergences(posterior: Posterior) -> Floats:
    """KL(q(w) ‖ p(w)) of each factor in each set, (E, K)."""
    out = np.zeros(posterior.on.shape)
    for r in posterior.regressions:
        if r.design.layer is None:
            out[r.design.e] += r.q.divergence
    return out


def covariances(regression: Regression, precision: Floats) -> Floats | None:
    """C of every parameter, (T, p, p); None where features are many, and C is diagonal."""
    design, q = regression.design, regression.q
    if design.gram is None:
        return None
    root = np.sqrt(np.outer(q.by_column, q.by_target))[design.group]
    if not q.var.any():
        return np.zeros((root.shape[1], len(root), len(root)))
    inverse = inverted(whitened(design.gram, precision, root))
    return np.asarray(root.T[:, :, None] * inverse * root.T[:, None, :])


def expected(F: Any, mean: Floats, var: Floats, cov: Floats | None) -> tuple[Floats, Floats]:  # noqa: ANN401 - sparse
    """Mean f_iᵀ w̄ and variance f_iᵀ C f_i of what is expected of entities with features F (n, p), (n, T) each.

    `var` is the diagonal of C, which is all that there is of it where it is not known.
    """
    told = np.asarray(F @ mean)
    if cov is None:
        squares = F.multiply(F).tocsr() if sparse.issparse(F) else F * F
        return told, np.asarray(squares @ var)
    spread = np.zeros_like(told)
    for t, C in enumerate(cov):
        if C.any():
            spread[:, t] = np.einsum("ip,ip->i", F @ C, F)
    return told, np.maximum(spread, 0.0)
