"""Closed-form updates of α, of the likelihoods' parameters and of the bias priors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gcmf.gamma import Gamma, shape_of
from gcmf.model import regression
from gcmf.model.posterior import BiasPrior
from gcmf.model.regression import ROUNDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.model.posterior import Posterior, RelationScales
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]

#: The largest shape of a learned prior of α: as good as one common α.
MAX_POOLING = 1e4
#: σ² of a bias layer never falls below this: at zero the layer could not come back (the data have unit scale).
MIN_BIAS_SCALE = 1e-6
#: σ² of a bias layer has the density e^(−σ²): as good as flat where many biases tell of it. Where few do, or their
#: cells weigh next to nothing, a flat one lets σ² grow without end; and e^b of a count has a mean, E e^(σ²/2), only if
#: the density falls faster than e^(−σ²/2). Cells of real numbers have unit variance, so that σ² is below 1.
BIAS_SCALE_RATE = 1.0


def update_alpha(spec: Spec, posterior: Posterior, *, pooled: bool = False, held: int = 0) -> Posterior:
    """a = a₀ + d_e/2, b = b₀ + S_ek/2, in turn with the coefficients of factors that regress on covariates.

    `pooled` and `held` as in `_update_alpha`.
    """
    posterior = _update_alpha(spec, posterior, pooled=pooled, held=held)
    for _ in range(ROUNDS if posterior.regressions else 0):
        posterior = _update_alpha(spec, regression.update(spec, posterior, biases=False), pooled=pooled, held=held)
    return posterior


def _update_alpha(spec: Spec, posterior: Posterior, *, pooled: bool, held: int) -> Posterior:
    """With common α, d and S are summed over the entity sets.

    `pooled` holds α equal for all factors of a set, the best such value: no factor is singled out yet. The last
    `held` factors keep the α they have.
    """
    on, S, d, prior = posterior.on, posterior.moments.square, spec.n_entities[:, None], posterior.alpha_prior
    if spec.common:
        S, d, prior = S.sum(axis=0), (d * on).sum(axis=0), Gamma(prior.shape[0], prior.rate[0])
    # The mode of a Gamma is (shape − 1)/rate: a MAP fit holds that shape, so that its "mean" is the mode.
    shape = prior.shape + d / 2.0 - spec.point
    rate = prior.rate + S / 2.0
    if pooled:
        # Capped at the precision of the start (unit variance over all factors): with many factors to share the
        # signal, the pooled α would otherwise grow until all of them are gone.
        n_on = np.maximum(on.sum(axis=1, keepdims=True), 1)
        mean = (rate * on).sum(axis=1, keepdims=True) / n_on
        rate = np.maximum(mean, shape / np.sqrt(n_on))
    free = on & ~spec.unit_variance[:, None]
    free[:, free.shape[1] - held :] = False
    old = posterior.alpha
    return posterior._replace(alpha=Gamma(np.where(free, shape, old.shape), np.where(free, rate, old.rate)))


def update_alpha_prior(spec: Spec, posterior: Posterior) -> Posterior:
    """Learn the Gamma(a, b) of which the α of a set are drawn: log a − ψ(a) = log⟨α⟩ − ⟨log α⟩, b = a/⟨α⟩, on average.

    Where the factors of a set are alike it pools their α; where they differ (a → 0) it leaves them alone.
    """
    shape, rate = posterior.alpha_prior.shape.copy(), posterior.alpha_prior.rate.copy()
    for e, on in enumerate(posterior.on):
        if on.any() and not spec.unit_variance[e]:
            mean = float(posterior.alpha.mean[e, on].mean())
            gap = np.log(mean) - float(posterior.alpha.mean_log[e, on].mean())
            shape[e] = shape_of(gap, MAX_POOLING)
            rate[e] = shape[e] / mean
    return posterior._replace(alpha_prior=Gamma(shape, rate))


class ScaleStep(NamedTuple):
    """A step of the scales of all relations, and what it does to the bound as far as quadratic forms tell, (M,)."""

    mean: Floats
    var: Floats
    cells: Floats
    """What the cells gain."""
    prior: Floats
    """What ⟨log p(d)⟩ and the entropy gain."""


def step_scales(spec: Spec, scales: RelationScales, sums: Floats) -> ScaleStep:
    """d̃ = 1/(⟨β⟩ + Σ w ⟨u_i²⟩⟨u_j²⟩), and the means of a relation jointly, d̄ = A⁻¹ h.

    A is diag(1/d̃) + Σ w ū_ik ū_jk ū_il ū_jl for l ≠ k, and h_k = Σ w (z − b̄_i − b̄_j) ū_ik ū_jk. `sums` has these sums
    with d̄ ū_j in place of ū_j (see `Swept`), so that what is solved for is by how many times each mean changes.
    """
    beta = np.ones_like(scales.mean) if spec.point else scales.beta.mean
    mean, var = scales.mean.copy(), scales.var.copy()
    cells, prior = np.zeros(len(mean)), np.zeros(len(mean))
    for m, (S, h, Q) in enumerate(zip(sums[:, :-2], sums[:, -2], sums[:, -1], strict=True)):
        k = np.flatnonzero(scales.on[m] & (Q > 0.0) & (scales.mean[m] != 0.0))
        if not len(k):
            continue
        d, square, precision = scales.mean[m, k], scales.square[m, k], beta[m, k]
        weight = Q[k] / square
        A = S[np.ix_(k, k)]
        np.fill_diagonal(A, d**2 * (weight + precision))
        times = _solved(A, h[k])
        mean[m, k], var[m, k] = times * d, 0.0 if spec.point else 1.0 / (weight + precision)
        # Differences, and not differences of sums: what is left of large numbers would be noise.
        step = times - 1.0
        grown = d**2 * step * (times + 1.0) + var[m, k] - scales.var[m, k]
        np.fill_diagonal(A, 0.0)
        cells[m] = step @ (h[k] - A @ np.ones(len(k)) - 0.5 * A @ step) - 0.5 * weight @ grown
        logs = 0.0 if spec.point else np.log(var[m, k] / scales.var[m, k])
        prior[m] = 0.5 * float(np.sum(logs - precision * grown))
    return ScaleStep(mean, var, cells, prior)


def _solved(A: Floats, h: Floats) -> Floats:
    """A⁻¹ h of a positive definite A; where rounding leaves it indefinite, one after the other from all ones."""
    size = np.sqrt(A.diagonal())
    try:
        L = np.linalg.cholesky(A / np.outer(size, size))
        return np.asarray(np.linalg.solve(L.T, np.linalg.solve(L, h / size)) / size)
    except np.linalg.LinAlgError:
        x = np.ones(len(h))
        for k in range(len(h)):
            x[k] += (h[k] - A[k] @ x) / A[k, k]
        return x


def update_scale_prior(spec: Spec, scales: RelationScales) -> RelationScales:
    """β: a = a₀ + ½, b = b₀ + ⟨d²⟩/2. Scales of a MAP fit have β = 1: with it free their density has no maximum."""
    shape = np.full(scales.mean.shape, spec.priors.alpha_shape + 0.5)
    return scales._replace(beta=Gamma(shape, shape if spec.point else spec.priors.alpha_rate + scales.square / 2.0))


def update_parameters(spec: Spec, posterior: Posterior, measured: Floats) -> Posterior:
    """Let every likelihood learn from the summed values of its relation, such as τ from the squared residuals."""
    learned = [
        likelihood.learn(p, float(total), float(n), spec.parameter_prior)
        for likelihood, p, total, n in zip(spec.likelihoods, posterior.parameters, measured, spec.n_cells, strict=True)
    ]
    return posterior._replace(parameters=tuple(learned))


def update_bias_prior(spec: Spec, posterior: Posterior) -> Posterior:
    """μ and σ² of every bias layer, in turn with the coefficients of biases that regress on covariates."""
    posterior = _update_bias_prior(spec, posterior)
    for _ in range(ROUNDS if posterior.regressions else 0):
        posterior = _update_bias_prior(spec, regression.update(spec, posterior, biases=True))
    return posterior


def _update_bias_prior(spec: Spec, posterior: Posterior) -> Posterior:
    """Var μ = 1/(1 + n/σ²), mean μ = var Σ b̄/σ²; then σ² as S = Σ[(b̄ − μ̄)² + b̃] + n var μ has it.

    It is the maximum of −n/2 log σ² − S/(2σ²) − λσ²: S/n, or less where n is small.
    """
    n, scale, sums, biased = spec.n_bias, posterior.bias.scale, posterior.moments, spec.has_bias
    var = 1.0 / (1.0 + n / scale)
    mean = var * sums.bias_sum / scale
    if spec.point:
        # With σ² free the density of a point estimate is unbounded (σ² → 0): it stays as initialised.
        return posterior._replace(bias=BiasPrior(np.where(biased, mean, 0.0), np.zeros_like(var), scale))
    # Entities without a cell hold b = 0 and do not count: Σ (b̄ − μ̄)² is over the n that have one.
    squares = sums.bias_square - 2.0 * mean * sums.bias_sum + n * mean**2
    S = np.maximum(squares + n * var, 0.0)
    wide = np.maximum(S / (n / 2.0 + np.sqrt(n**2 / 4.0 + 2.0 * BIAS_SCALE_RATE * S)), MIN_BIAS_SCALE)
    prior = BiasPrior(np.where(biased, mean, 0.0), np.where(biased, var, 0.0), np.where(biased, wide, 1.0))
    return posterior._replace(bias=prior)
