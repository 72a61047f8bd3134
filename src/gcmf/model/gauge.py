"""Scale and axes that a bipartite model leaves to the priors: U_A T and U_B T⁻ᵀ predict the same cells.

Sweeps find both only slowly where the data are precise, because each side is then tied to the other: a table
with little noise takes a thousand sweeps without these steps, and fifty with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.model.hyper import update_alpha
from gcmf.model.moves import rotate, second_moments, sparsest_axes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]


def single_table(spec: Spec) -> bool:
    """Whether the closed forms for one relation with a common, vague α hold."""
    return len(spec.ends) == 1 and spec.common and spec.priors.vague and not spec.point


def rescale(spec: Spec, posterior: Posterior, *, held: int = 0) -> Posterior:
    """Set the best scale of each factor, U_A ← s U_A and U_B ← U_B/s, exactly; the cells do not notice.

    One table with common α: S_A s²/(S_B/s²) = d_A/d_B. Group factor analysis (A has α = 1, B are the views,
    whose α follow): s² = d_A/S_A. Elsewhere the bound is flat in s, or s is not free, and nothing happens. Nor does
    it to the last `held` factors, whose α stays.
    """
    sums, d = posterior.moments, spec.n_entities
    S = sums.square
    if single_table(spec):
        a, b = spec.ends[0]
        square = np.sqrt(S[b] * d[a] / (S[a] * d[b]))
    elif spec.priors.vague and not spec.point and spec.unit_variance[spec.ends[0][0]] and _one_row_set(spec):
        a = spec.ends[0][0]
        square = d[a] / S[a]
    else:
        return posterior
    square[len(square) - held :] = 1.0
    factors = np.stack([square if e == a else 1.0 / square for e in range(len(d))])
    # These are the best scales under a vague prior, which b₀ is not for a factor that is nearly gone.
    worse = _profile(spec, posterior.on, S * factors, factors) < _profile(spec, posterior.on, S, np.ones_like(S))
    factors[:, worse] = 1.0
    for e, factor in enumerate(factors):
        posterior.state.mean[e] *= np.sqrt(factor)
        posterior.state.var[e] *= factor
    known = sums._replace(square=S * factors, log_var=sums.log_var + d[:, None] * np.log(factors))
    return update_alpha(spec, posterior._replace(known=known), held=held)


def _profile(spec: Spec, on: NDArray[np.bool_], S: Floats, factors: Floats) -> Floats:
    """What the bound has of each factor once α has followed: Σ_e { d/2 log s² − (a₀ + d/2) log(b₀ + S/2) }, (K,).

    The sum is over the sets that hold the factor. Where α = 1, the last term is −S/2; with a common α, d and S are
    summed first.
    """
    d, prior = spec.n_entities[:, None] * on, spec.priors
    entropy = (0.5 * d * np.log(factors)).sum(axis=0)
    if spec.common:
        S, d = S.sum(axis=0, keepdims=True), d.sum(axis=0, keepdims=True)
    followed = np.where(d > 0, -(prior.alpha_shape + d / 2.0) * np.log(prior.alpha_rate + S / 2.0), 0.0)
    return np.asarray(entropy + np.where(spec.unit_variance[: len(S), None], -S / 2.0, followed).sum(axis=0))


def _one_row_set(spec: Spec) -> bool:
    """Whether all relations share their rows, as views share their samples."""
    return len({r for r, _ in spec.ends}) == 1


def turns(spec: Spec, posterior: Posterior, *, bold: bool) -> Iterator[Posterior]:
    """Yield factors turned towards the group sparsity; the first that raises the bound is to be kept.

    `bold` tries shears before it settles for a rotation.
    """
    if single_table(spec):
        yield principal_axes(spec, posterior)
        return
    for sheared in (True, False) if bold and free_axes(spec) else (False,):
        yield update_alpha(spec, rotate(posterior, sparsest_axes(spec, posterior, sheared=sheared)))


def free_axes(spec: Spec) -> bool:
    """Whether U_A T and U_B T⁻ᵀ leave all cells as they are for any T, and α is free to follow in every set."""
    return spec.two_colors is not None and not spec.common and not spec.unit_variance.any()


def principal_axes(spec: Spec, posterior: Posterior) -> Posterior:
    """Turn one table's factors to where M_A and M_B are diagonal and in the ratio d_A : d_B.

    With M_A = L Lᵀ and Lᵀ M_B L = Q Λ Qᵀ, that is T = L⁻ᵀ Q Λ^¼ (d_A/d_B)^¼. The variances take the diagonal
    of the turned covariance, which is only exact if they are alike: keep the result if the bound rises.
    """
    a, b = spec.ends[0]
    try:
        T = _axes(*second_moments(posterior)[[a, b]], ratio=spec.n_entities[a] / spec.n_entities[b])
        both = (a, T), (b, np.linalg.inv(T).T)
    except np.linalg.LinAlgError:
        # Factors whose sizes are further apart than float64 can hold: there is nothing to turn.
        return posterior
    mean, var = list(posterior.state.mean), list(posterior.state.var)
    for e, turn in both:
        mean[e] = (mean[e].astype(np.float64) @ turn).astype(mean[e].dtype)
        var[e] = (var[e].astype(np.float64) @ (turn * turn)).astype(var[e].dtype)
    return update_alpha(spec, posterior.with_factors(mean, var))


def _axes(M_a: Floats, M_b: Floats, *, ratio: float) -> Floats:
    L = np.linalg.cholesky(M_a)
    values, Q = np.linalg.eigh(L.T @ M_b @ L)
    return np.asarray(np.linalg.solve(L.T, Q) * (np.maximum(values, 0.0) * ratio) ** 0.25)
