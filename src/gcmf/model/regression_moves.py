"""What moves of factors and biases do to their regressions on covariates: coefficients follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.model.regression import Regression, begin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.model.posterior import Posterior

    Floats = NDArray[np.float64]


def turned(posterior: Posterior, T: list[Floats]) -> tuple[Regression, ...]:
    """The regressions of factors that are turned, ū ← ū T_e; their products are still to be told."""
    return tuple(
        Regression(r.design, r.q.turned(T[r.design.e]), r.products @ T[r.design.e]) if r.design.layer is None else r
        for r in posterior.regressions
    )


def scaled(posterior: Posterior, factors: Floats) -> tuple[Regression, ...]:
    """The regressions of factors that are scaled, ū ← √f ū: with variances that follow, the divergence stays."""
    regressions = []
    for r in posterior.regressions:
        if r.design.layer is None:
            root, f = np.sqrt(factors[r.design.e]), factors[r.design.e]
            q = r.q._replace(mean=r.q.mean * root, var=r.q.var * f, by_target=r.q.by_target * f, spread=r.q.spread * f)
            regressions.append(Regression(r.design, q, r.products * root))
        else:
            regressions.append(r)
    return tuple(regressions)


def shifted(posterior: Posterior, step: Floats) -> tuple[Regression, ...]:
    """The regressions of biases to which a number is added, which is taken up by μ."""
    return tuple(
        r
        if r.design.layer is None
        else r._replace(products=r.products + step[r.design.layer] * r.design.totals[:, None])
        for r in posterior.regressions
    )


def extended(
    posterior: Posterior, alpha: Floats, on: NDArray[np.bool_], *, point: bool
) -> tuple[tuple[Regression, ...], Floats]:
    """The regressions with further factors, and by how much the sums of squares of those are larger, (E, n).

    Products with the features are still to be told.
    """
    regressions, wider = [], np.zeros(on.shape)
    for r in posterior.regressions:
        if r.design.layer is not None:
            regressions.append(r)
            continue
        new = begin(r.design, alpha[r.design.e], on[r.design.e], point=point, by_column=r.q.by_column)
        wider[r.design.e] = new.q.spread
        both = {name: np.concatenate([getattr(r.q, name), getattr(new.q, name)], axis=-1)
                for name in r.q._fields if name != "by_column"}  # fmt: skip
        products = np.concatenate([r.products, new.products], axis=1)
        regressions.append(Regression(r.design, r.q._replace(**both), products))
    return tuple(regressions), wider


def around_prior_means(posterior: Posterior, M: Floats) -> Floats:
    """Σ_i ⟨(u_i − Wᵀ f_i)(u_i − Wᵀ f_i)ᵀ⟩ for Σ_i ⟨u_i u_iᵀ⟩ = M, (E, K, K): what a turn makes larger or smaller."""
    if not posterior.regressions:
        return M
    M = M.copy()
    for r in posterior.regressions:
        if r.design.layer is None:
            both, fitted = r.q.mean.T @ r.products, r.design.rows @ r.q.mean
            M[r.design.e] += fitted.T @ fitted - both - both.T + np.diag(r.q.spread)
    return M
