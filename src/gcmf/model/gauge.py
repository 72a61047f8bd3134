"""Scale and axes that a bipartite model leaves to the priors: U_A T and U_B T⁻ᵀ predict the same cells.

Sweeps find both only slowly where the data are precise, because each side is then tied to the other: a table
with little noise takes a thousand sweeps without these steps, and fifty with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.model.hyper import update_alpha, update_scale_prior
from gcmf.model.moves import transformed
from gcmf.model.regression_moves import scaled
from gcmf.model.spec import spanning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gcmf.engines.base import Engine
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]

#: Scales that differ by no more than this, of about one, are alike.
ALIKE = 1e-6
#: The logarithm of the largest scale that a set takes over.
LARGEST = 5.0


def single_table(spec: Spec) -> bool:
    """Whether the closed forms for one relation with a common, vague α hold."""
    one = len(spec.ends) == 1 and spec.ends[0][0] != spec.ends[0][1]
    return one and spec.common and spec.priors.vague and not spec.point


def rescale(spec: Spec, engine: Engine, posterior: Posterior, *, held: int = 0) -> Posterior:
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
    engine.scale(factors)
    moments = sums._replace(square=S * factors, log_var=sums.log_var + d[:, None] * np.log(factors))
    regressions = scaled(posterior, factors)
    return update_alpha(spec, posterior._replace(moments=moments, regressions=regressions), held=held)


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


def absorb(spec: Spec, engine: Engine, posterior: Posterior) -> Posterior:
    """Let factors take over what they can of the scales: d → d/(s_r s_c), u_r → s_r u_r, u_c → s_c u_c.

    Sizes come as near to one as may be, in logarithms, and the signs of a spanning forest become positive; no predictor
    changes, nor, with vague priors, the bound. In a triangle sizes then are one, so that factors may be turned again.
    """
    scales = posterior.scales
    if scales is None or not spec.priors.vague or spec.point or spec.common or spec.unit_variance.any():
        return posterior
    size = np.ones(posterior.on.shape)
    for k in range(posterior.n_factors):
        seen = np.flatnonzero(scales.mean[:, k])
        if len(seen) and scales.mate[k] == k:
            own = _absorbed(len(size), [spec.ends[m] for m in seen.tolist()], scales.mean[seen, k])
            # Of a factor that is nearly gone in some relation, what is left elsewhere would become too small for b₀.
            size[:, k] = own if np.abs(np.log(np.abs(own))).max() < LARGEST else 1.0
    posterior = transformed(engine, posterior, [np.diag(s) for s in size])
    rest = 1.0 / (size[spec.sides[0]] * size[spec.sides[1]])
    scales = update_scale_prior(spec, scales._replace(mean=scales.mean * rest, var=scales.var * rest**2))
    return update_alpha(spec, posterior._replace(scales=scales))


def _absorbed(n: int, ends: list[tuple[int, int]], d: Floats) -> Floats:
    """By what the n sets multiply one factor, which these relations scale by d, (n,)."""
    joins = np.zeros((len(ends), n))
    for m, pair in enumerate(ends):
        for e in pair:
            joins[m, e] += 1.0
    size = np.exp(np.linalg.pinv(joins) @ np.log(np.abs(d)))
    tree, sign = spanning(n, ends), np.zeros(n)
    for first in range(n):
        sign[first] = sign[first] or 1.0
        reached = [first]
        for e in reached:
            for m in np.flatnonzero(tree).tolist():
                other = ends[m][1] if ends[m][0] == e else ends[m][0]
                if e in ends[m] and sign[other] == 0.0:
                    sign[other] = sign[e] * np.sign(d[m])
                    reached.append(other)
    return np.asarray(size * sign)


def turns(spec: Spec, posterior: Posterior, M: Floats, *, bold: bool) -> Iterator[Floats]:
    """Yield transformations T_e towards the group sparsity, (E, K, K); the first that raises the bound is to be kept.

    M holds the second moments of all sets. `bold` tries shears before it settles for a rotation.
    """
    if single_table(spec) and posterior.scales is None:
        yield from principal_axes(spec, M)
        return
    for sheared in (True, False) if bold and free_axes(spec) else (False,):
        yield sparsest_axes(spec, posterior, M, sheared=sheared)


def free_axes(spec: Spec) -> bool:
    """Whether U_A T and U_B T⁻ᵀ leave all cells as they are for any T, and α is free to follow in every set."""
    return spec.two_colors is not None and not spec.common and not spec.unit_variance.any()


def principal_axes(spec: Spec, M: Floats) -> Iterator[Floats]:
    """Yield the T for which one table's M_A and M_B become diagonal and in the ratio d_A : d_B.

    With M_A = L Lᵀ and Lᵀ M_B L = Q Λ Qᵀ, that is T = L⁻ᵀ Q Λ^¼ (d_A/d_B)^¼. The variances take the diagonal
    of the turned covariance, which is only exact if they are alike: keep the result if the bound rises.
    """
    a, b = spec.ends[0]
    T = np.empty_like(M)
    try:
        T[a] = _axes(M[a], M[b], ratio=spec.n_entities[a] / spec.n_entities[b])
        T[b] = np.linalg.inv(T[a]).T
    except np.linalg.LinAlgError:
        return  # factors whose sizes are further apart than float64 can hold: there is nothing to turn
    yield T


def _axes(M_a: Floats, M_b: Floats, *, ratio: float) -> Floats:
    L = np.linalg.cholesky(M_a)
    values, Q = np.linalg.eigh(L.T @ M_b @ L)
    return np.asarray(np.linalg.solve(L.T, Q) * (np.maximum(values, 0.0) * ratio) ** 0.25)


def sparsest_axes(spec: Spec, posterior: Posterior, M: Floats, *, sheared: bool) -> Floats:
    """Return the T_e, (E, K, K), that minimise Σ_e d_e/2 Σ_k log (T_eᵀ M_e T_e)_kk and leave every predictor as it is.

    That is the bound after α has followed, and what lines the factors up with the group sparsity. One orthogonal T for
    all sets; or, `sheared`, any T for the sets of one color and T⁻ᵀ for those of the other. Only factors that live in
    the same entity sets are mixed.
    """
    # It brings Numba, which who only loads a model need not wait for.
    from gcmf.engines.rotation_kernels import sparsest  # noqa: PLC0415

    # Where α is fixed, tr(M_e) is all that counts, and no rotation changes it.
    half = np.where(spec.unit_variance, 0.0, spec.n_entities / 2.0)
    weight, color = half[:, None] * posterior.on, np.zeros(len(half), np.int64)
    if spec.common:
        M, weight = M.sum(axis=0, keepdims=True), np.full((1, M.shape[1]), half.sum())
    if sheared and spec.two_colors is not None:
        color = spec.two_colors
    same = (posterior.on[:, :, None] == posterior.on[:, None, :]).all(axis=0)
    if posterior.scales is not None:
        # Of factors that some relation scales differently a mixture would be seen as something else.
        d, alone = posterior.scales.mean, posterior.scales.mate == np.arange(posterior.n_factors)
        same &= (np.abs(d[:, :, None] - d[:, None, :]) <= ALIKE).all(axis=0) & alone[:, None] & alone
    return np.asarray(sparsest(M.copy(), weight, same, color, sheared)[color])
