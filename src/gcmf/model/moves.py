"""Steps along directions in which the data do not change: shift, scale, rotation; and changes of structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.model.init import start
from gcmf.model.posterior import Gamma

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Array
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec
    from gcmf.model.structure import Change

    Floats = NDArray[np.float64]


def shift(spec: Spec, posterior: Posterior) -> Posterior:
    """Move c = (μ_cols − μ_rows)/2 from the column biases to the row biases: the best split of the intercept."""
    sums, n, mean = posterior.moments, spec.n_bias, posterior.bias.mean
    sides = mean.reshape(-1, 2)
    step = (spec.two_sided * (sides[:, ::-1] - sides) / 2.0).ravel()
    for b, c, seen in zip(posterior.state.bias_mean, step, spec.in_layer, strict=True):
        if c:
            np.add(b, c, out=b, where=seen)
    square = sums.bias_square + step * (2.0 * sums.bias_sum + n * step)
    known = sums._replace(bias_sum=sums.bias_sum + n * step, bias_square=square)
    return posterior._replace(bias=posterior.bias._replace(mean=mean + step), known=known)


def rotate(posterior: Posterior, T: Floats) -> Posterior:
    """Turn the factors of every entity set, ū ← ū T_e; the variances take the diagonal of the turned covariance."""

    def turned(old: list[Array], T: Floats) -> list[Array]:
        return [np.where(on, a.astype(np.float64) @ T_e, 0.0).astype(a.dtype)
                for a, on, T_e in zip(old, posterior.on, T, strict=True)]  # fmt: skip

    return posterior.with_factors(turned(posterior.state.mean, T), turned(posterior.state.var, T * T))


def restructure(posterior: Posterior, changed: list[Change]) -> Posterior:
    """Make the changes: a cut factor continues in further columns, a dead one leaves the arrays."""
    plan: list[tuple[int, NDArray[np.bool_]]] = []
    by_factor = {change.k: change.columns for change in changed}
    for k in range(posterior.on.shape[1]):
        columns = by_factor.get(k, (tuple(posterior.on[:, k].tolist()),))
        plan += [(k, np.array(column)) for column in columns]
    source = [k for k, _ in plan]
    on = np.stack([column for _, column in plan], axis=1) if plan else posterior.on[:, :0]
    old = posterior.state
    mean = [np.where(on[e], a[:, source], 0).astype(a.dtype) for e, a in enumerate(old.mean)]
    var = [np.where(on[e], a[:, source], 0).astype(a.dtype) for e, a in enumerate(old.var)]
    alpha = Gamma(posterior.alpha.shape[:, source], posterior.alpha.rate[:, source])
    return posterior.with_factors(mean, var, alpha=alpha, on=on)


def grow(spec: Spec, posterior: Posterior, relations: list[int], rng: np.random.Generator) -> Posterior:
    """Add a factor private to each of these relations, at a random place."""
    on = posterior.on
    for m in relations:
        column = np.zeros(len(spec.sizes), dtype=bool)
        column[list(spec.ends[m])] = True
        on = np.concatenate([on, column[:, None]], axis=1)
    fresh = start(spec, on[:, posterior.on.shape[1] :], dtype=str(posterior.state.mean[0].dtype), rng=rng)
    old, new = posterior.state, fresh.state
    mean = [np.concatenate(pair, axis=1) for pair in zip(old.mean, new.mean, strict=True)]
    var = [np.concatenate(pair, axis=1) for pair in zip(old.var, new.var, strict=True)]
    alpha = Gamma(np.concatenate([posterior.alpha.shape, fresh.alpha.shape], axis=1),
                  np.concatenate([posterior.alpha.rate, fresh.alpha.rate], axis=1))  # fmt: skip
    return posterior.with_factors(mean, var, alpha=alpha, on=on)


def second_moments(posterior: Posterior) -> Floats:
    """M_e = Σ_i (ū ūᵀ + diag ũ), (E, K, K)."""
    out = []
    for mean, var in zip(posterior.state.mean, posterior.state.var, strict=True):
        wide = mean.astype(np.float64)
        out.append(wide.T @ wide + np.diag(var.sum(axis=0, dtype=np.float64)))
    return np.stack(out)


def sparsest_axes(spec: Spec, posterior: Posterior, *, sheared: bool) -> Floats:
    """Return the T_e, (E, K, K), that minimise Σ_e d_e/2 Σ_k log (T_eᵀ M_e T_e)_kk and leave every predictor as it is.

    That is the bound after α has followed, and what lines the factors up with the group sparsity. One orthogonal T for
    all sets; or, `sheared`, any T for the sets of one color and T⁻ᵀ for those of the other. Only factors that live in
    the same entity sets are mixed.
    """
    # It brings Numba, which who only loads a model need not wait for.
    from gcmf.engines.rotation_kernels import sparsest  # noqa: PLC0415

    # Where α is fixed, tr(M_e) is all that counts, and no rotation changes it.
    M, half = second_moments(posterior), np.where(spec.unit_variance, 0.0, spec.n_entities / 2.0)
    weight, E = half[:, None] * posterior.on, len(half)
    if spec.common:
        M, weight = M.sum(axis=0, keepdims=True), np.full((1, M.shape[1]), half.sum())
    same = (posterior.on[:, :, None] == posterior.on[:, None, :]).all(axis=0)
    color = spec.two_colors if sheared and spec.two_colors is not None else np.zeros(E, np.int64)
    return np.asarray(sparsest(M, weight, same, color, sheared)[color])
