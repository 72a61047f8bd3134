"""What is global, drawn given factors and biases: α, scales, coefficients, the likelihoods' parameters, bias priors.

A `Posterior` holds a draw as it holds the point of a MAP fit: means are the numbers, and variances are zero. All
conditionals are conjugate; what has none is in methods/walk.py. See docs/model.md, "Sampling".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import gammaln
from scipy.stats import geninvgauss

from gcmf.gamma import Gamma, log_density
from gcmf.model.centers import expected_sizes, log_prior
from gcmf.model.hyper import BIAS_SCALE_RATE, MIN_BIAS_SCALE
from gcmf.model.posterior import BiasPrior
from gcmf.model.regression import Coefficients, Regression, added, precision_of, products_of, whitened
from gcmf.options import VAGUE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy import sparse

    from gcmf.engines.base import State
    from gcmf.likelihoods.base import ParameterPrior
    from gcmf.model.posterior import Posterior, RelationScales
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]

#: Prior shape of the precision of a scale, and of the variance of a source column's coefficients: the prior's center is
#: what variational Bayes found, and weighs as much as one number.
WEAK_SHAPE = 0.5
#: By how much the logarithm of the shape of a prior of α may differ from what variational Bayes found; and steps of its
#: walk in each sweep.
POOLING_DEVIATION, N_TRIES = 1.5, 5
#: Prior shape of the precision of noise, around what variational Bayes found: as much as four cells say. With less, the
#: variance of a new cell, a mean over draws, has no mean where the cells of a relation weigh nothing.
NOISE_SHAPE = 2.0
#: Scales of this share of a relation's typical one are as good as none: chains start there, and not at less.
DEAD = 1e-3
#: Conjugate gradients for many coefficients end at this share of the first residual, or after so many steps.
CLOSE, MAX_STEPS = 1e-6, 200


class Hyper(NamedTuple):
    """Priors of the precisions that a chain draws beside α and τ, whose priors the posterior and the spec have."""

    bias: Gamma
    """Of 1/σ² of a bias layer, beside e^(−σ²): shape −1 and rate 0 add nothing to that."""
    pooling: Gamma | None
    """Where the shapes and rates of the priors of α lie, (E, 1); None: those that a user gave stay."""
    beta: Gamma | None
    """Of the precisions of scales, (M, 1)."""
    columns: tuple[Gamma, ...]
    """Of 1/a of the source columns of each regression, (G,)."""
    patterns: bool = True
    """Whether it is drawn which factors live in which sets, where that can be."""
    centers: Floats | None = None
    """Prior variance of the centers of factors of each set, zero where they have none, (E, 1)."""
    parameters: tuple[ParameterPrior, ...] | None = None
    """Of what the likelihood of each relation learns; None: that of the spec for all."""


def begin(spec: Spec, posterior: Posterior, state: State) -> tuple[Spec, Posterior, State, Hyper]:
    """Where chains start: the means of a variational fit as points, and priors that its estimates center."""
    start = state.copy()
    for array in (*start.var, *start.bias_var):
        array[:] = 0.0
    beta, scales = None, posterior.scales
    if scales is not None:
        size = np.array([max(square[on].mean(), DEAD**2) if on.any() else 1.0
                         for square, on in zip(scales.square, scales.on, strict=True)])[:, None]  # fmt: skip
        beta = Gamma(np.full_like(size, WEAK_SHAPE), WEAK_SHAPE * size)
        # Sums over cells are taken times the scales: of one that is next to nothing, they would tell nothing.
        mean = np.where(np.abs(scales.mean) < DEAD * np.sqrt(size), DEAD * np.sqrt(size), scales.mean)
        precision = 1.0 / np.maximum(scales.square, (DEAD * np.sqrt(size)) ** 2)
        scales = scales._replace(mean=np.where(scales.on, mean, 0.0), var=np.zeros_like(scales.var),
                                 beta=points(np.where(scales.on, precision, scales.beta.mean)))  # fmt: skip
    columns = tuple(Gamma(WEAK_SHAPE, WEAK_SHAPE * r.q.by_column) for r in posterior.regressions)
    regressions = tuple(r._replace(q=_point(r.q, r.q.mean)) for r in posterior.regressions)
    posterior = posterior._replace(
        alpha=points(_first_alpha(spec, posterior, state)), scales=scales, regressions=regressions,
        parameters=tuple(lik.pinned(p) for lik, p in zip(spec.likelihoods, posterior.parameters, strict=True)),
        bias=posterior.bias._replace(var=np.zeros_like(posterior.bias.var)),
    )  # fmt: skip
    sizes = expected_sizes(spec, posterior)
    pooling = posterior.alpha_prior if spec.priors.vague else None
    hyper = Hyper(Gamma(-1.0, 0.0), pooling, beta, columns, centers=sizes, parameters=_noise_priors(spec, posterior))
    center = np.zeros(posterior.on.shape) if sizes.any() else None
    return replace(spec, point=True), posterior._replace(center=center), start, hyper


def _noise_priors(spec: Spec, posterior: Posterior) -> tuple[ParameterPrior, ...]:
    """Of each relation; under a vague prior that of a few cells with the noise that variational Bayes found.

    Cells of tiny weights say next to nothing of their noise, and it could be anything, or beyond numbers.
    """
    prior = spec.parameter_prior._replace(point=True)
    if max(prior.shape, prior.rate) > VAGUE:
        return (prior,) * len(spec.ends)
    noise = (
        likelihood.noise_variance(likelihood.settled(p, spec.parameter_prior))
        for likelihood, p in zip(spec.likelihoods, posterior.parameters, strict=True)
    )
    return tuple(prior._replace(shape=NOISE_SHAPE, rate=NOISE_SHAPE * s) if s > 0.0 else prior for s in noise)


def _first_alpha(spec: Spec, posterior: Posterior, state: State) -> Floats:
    """⟨α⟩ given the means as points, (E, K): S without what variances had in it.

    With the α of variational Bayes, the first draws would fill weak factors with noise, which then takes long to find
    what the data say of them; so they grow towards it.
    """
    square = posterior.moments.square - np.stack([var.sum(axis=0, dtype=np.float64) for var in state.var])
    for r in posterior.regressions:
        if r.design.layer is None:
            square[r.design.e] -= r.q.spread
    S, d, prior = np.maximum(square, 0.0), spec.n_entities[:, None] * posterior.on, posterior.alpha_prior
    if spec.common:
        S, d = (np.broadcast_to(sums.sum(axis=0), S.shape) for sums in (S, d))
    free = posterior.on & ~spec.unit_variance[:, None]
    return np.asarray(np.where(free, (prior.shape + d / 2.0) / (prior.rate + S / 2.0), posterior.alpha.mean))


def points(values: Floats) -> Gamma:
    """Numbers as Gammas hold them of which only the mean is looked at."""
    return Gamma(np.ones_like(values), 1.0 / values)


def _point(q: Coefficients, mean: Floats) -> Coefficients:
    return q._replace(mean=mean, var=np.zeros_like(mean), spread=np.zeros_like(q.spread))


def draw_alpha(spec: Spec, posterior: Posterior, rng: np.random.Generator) -> Posterior:
    """α_ek ~ Gamma(a_e + d_e/2, b_e + S_ek/2); with common α, d and S are summed over the sets."""
    on, S, d, prior = posterior.on, posterior.moments.square, spec.n_entities[:, None], posterior.alpha_prior
    if spec.common:
        S, d, prior = S.sum(axis=0), (d * on).sum(axis=0), Gamma(prior.shape[0], prior.rate[0])
    drawn = rng.gamma(np.broadcast_to(prior.shape + d / 2.0, S.shape)) / (prior.rate + S / 2.0)
    free = on & ~spec.unit_variance[:, None]
    return posterior._replace(alpha=points(np.where(free, drawn, posterior.alpha.mean)))


def draw_alpha_prior(spec: Spec, posterior: Posterior, hyper: Hyper, rng: np.random.Generator) -> Posterior:
    """The Gamma(a_e, b_e) of which the α of a set are drawn: log a by Metropolis' rule with b integrated out, then b.

    b ~ Gamma(½, ½/b₀) and log a ~ N(log a₀, POOLING_DEVIATION²), around what variational Bayes found.
    """
    if hyper.pooling is None:
        return posterior
    shape, rate = posterior.alpha_prior.shape.copy(), posterior.alpha_prior.rate.copy()
    on = np.where(spec.common, posterior.on.any(axis=0), posterior.on)
    for e in np.flatnonzero(on.any(axis=1) & ~spec.unit_variance).tolist():
        alpha, first = posterior.alpha.mean[e, on[e]], WEAK_SHAPE / float(hyper.pooling.rate[e, 0])
        n, here = len(alpha), float(np.log(shape[e, 0]))
        for step, luck in rng.random((N_TRIES, 2)):
            there = here + 2.0 * POOLING_DEVIATION * (2.0 * step - 1.0) / np.sqrt(n)
            away, was = ((at - np.log(hyper.pooling.shape[e, 0])) / POOLING_DEVIATION for at in (there, here))
            gain = _pooled(alpha, there, first) - _pooled(alpha, here, first) - 0.5 * (away**2 - was**2)
            here = there if np.log(luck) < gain else here
        shape[e] = np.exp(here)
        rate[e] = rng.gamma(shape[e, 0] * n + WEAK_SHAPE) / (alpha.sum() + first)
    if spec.common:
        shape[:], rate[:] = shape[0], rate[0]
    return posterior._replace(alpha_prior=Gamma(shape, rate))


def _pooled(alpha: Floats, log_a: float, first: float) -> float:
    """Log p(α|a), b ~ Gamma(½, first) integrated out: Πα^a Γ(an + ½) / (Γ(a)ⁿ (Σα + first)^(an + ½)), n of them."""
    a, n = np.exp(log_a), len(alpha)
    total = a * n + WEAK_SHAPE
    return float(a * np.log(alpha).sum() + gammaln(total) - n * gammaln(a) - total * np.log(alpha.sum() + first))


def draw_scales(
    posterior: Posterior, hyper: Hyper, sums: Floats, relations: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Posterior, Floats]:
    """d_m ~ N(A⁻¹h, A⁻¹) of these relations, jointly over the factors, and what cells gain, (M,); then all β.

    `sums` are of cells times the scales that there were (see `Swept`): what is drawn is by how many times each changes.
    """
    scales, gain = posterior.scales, np.zeros(len(relations))
    assert scales is not None
    mean = scales.mean.copy()
    for m in np.flatnonzero(relations).tolist():
        k = np.flatnonzero(scales.on[m] & (mean[m] != 0.0))
        S, h, d = sums[m][np.ix_(k, k)], sums[m, -2, k], mean[m, k]
        if not len(k):
            continue
        times = _drawn(S + np.diag(d**2 * scales.beta.mean[m, k]), h, rng)
        step = times - 1.0
        gain[m] = step @ (h - S @ np.ones(len(k)) - 0.5 * S @ step)
        mean[m, k] = times * d
    return posterior._replace(scales=draw_scale_prior(scales._replace(mean=mean), hyper, rng)), gain


def _drawn(A: Floats, h: Floats, rng: np.random.Generator) -> Floats:
    """x ~ N(A⁻¹h, A⁻¹), in units of the diagonal; where rounding leaves A indefinite, one after the other from ones."""
    unit, noise = np.sqrt(np.maximum(A.diagonal(), 1e-300)), rng.standard_normal(len(h))
    try:
        L = np.linalg.cholesky(A / np.outer(unit, unit))
    except np.linalg.LinAlgError:
        x = np.ones(len(h))
        for k in range(len(h)):
            x[k] += (h[k] - A[k] @ x) / unit[k] ** 2 + noise[k] / unit[k]
        return x
    return np.asarray(np.linalg.solve(L.T, np.linalg.solve(L, h / unit) + noise) / unit)


def draw_scale_prior(scales: RelationScales, hyper: Hyper, rng: np.random.Generator) -> RelationScales:
    """β_mk ~ Gamma(a + ½, b_m + d²/2)."""
    assert hyper.beta is not None
    rate = hyper.beta.rate + scales.mean**2 / 2.0
    return scales._replace(beta=points(rng.gamma(hyper.beta.shape + 0.5, size=rate.shape) / rate))


def draw_parameters(
    spec: Spec, posterior: Posterior, hyper: Hyper, measured: Floats, rng: np.random.Generator
) -> Posterior:
    """What likelihoods can draw from the summed values of their relation, such as τ from the squared residuals."""
    values = zip(measured.tolist(), spec.n_cells.tolist(), _priors(spec, hyper), strict=True)
    drawn = [
        likelihood.drawn(p, *value, rng)
        for likelihood, p, value in zip(spec.likelihoods, posterior.parameters, values, strict=True)
    ]
    return posterior._replace(parameters=tuple(drawn))


def _priors(spec: Spec, hyper: Hyper) -> tuple[ParameterPrior, ...]:
    return hyper.parameters or (spec.parameter_prior,) * len(spec.ends)


def draw_bias_prior(spec: Spec, posterior: Posterior, hyper: Hyper, rng: np.random.Generator) -> Posterior:
    """μ ~ N(Σb/σ²/(1 + n/σ²), 1/(1 + n/σ²)), then σ² given Σ(b − μ)².

    With λ = `BIAS_SCALE_RATE` its density is that of a generalized inverse Gaussian, (σ²)^(p − 1) e^(−λσ² − R/σ²), of
    p = −a − n/2 and R = b + Σ(b − μ)²/2.
    """
    n, scale, sums, biased = spec.n_bias, posterior.bias.scale, posterior.moments, spec.has_bias
    var = 1.0 / (1.0 + n / scale)
    mean = np.where(biased, var * sums.bias_sum / scale + np.sqrt(var) * rng.standard_normal(len(n)), 0.0)
    squares = np.maximum(sums.bias_square - 2.0 * mean * sums.bias_sum + n * mean**2, 0.0)
    rate = np.maximum(hyper.bias.rate + squares / 2.0, MIN_BIAS_SCALE**2)
    power, spread = -hyper.bias.shape - n / 2.0, np.sqrt(rate / BIAS_SCALE_RATE)
    drawn = geninvgauss.rvs(power, 2.0 * BIAS_SCALE_RATE * spread, scale=spread, random_state=rng)
    wide = np.where(biased, np.maximum(drawn, MIN_BIAS_SCALE), scale)
    return posterior._replace(bias=BiasPrior(mean, np.zeros_like(var), wide))


def draw_coefficients(posterior: Posterior, hyper: Hyper, rng: np.random.Generator, *, biases: bool) -> Posterior:
    """w of every factor, or bias layer, that regresses; then the variance of each source column. Sums follow."""
    regressions, moments = list(posterior.regressions), posterior.moments
    for n, old in enumerate(regressions):
        if (old.design.layer is not None) != biases:
            continue
        moments = added(moments, old, -1.0)
        w = _coefficients(old, precision_of(posterior, old.design), products_of(posterior, old), rng)
        q = _point(old.q, w)._replace(by_column=_columns(old, w, hyper.columns[n], rng))
        regressions[n] = Regression(old.design, q, old.products)
        moments = added(moments, regressions[n], 1.0)
    return posterior._replace(regressions=tuple(regressions), moments=moments)


def _coefficients(old: Regression, precision: Floats, products: Floats, rng: np.random.Generator) -> Floats:
    """w ~ N(α C H, C), C = (α G + 1/v)⁻¹, in units of √v: B = I + α √v G √v.

    Where features are many, B y = α √v H + e with e ~ N(0, B) is solved by conjugate gradients: a draw as well.
    """
    design = old.design
    root = np.sqrt(np.outer(old.q.by_column, old.q.by_target))[design.group]
    right = precision * root * products
    noise = rng.standard_normal(root.shape)
    if design.gram is None:
        n, rows = design.rows.shape[0], design.rows
        right = right + noise + np.sqrt(precision) * root * (rows.T @ rng.standard_normal((n, len(precision))))
        return np.asarray(root * _solved(rows, precision, root, right))
    L = np.linalg.cholesky(whitened(design.gram, precision, root))
    half = np.linalg.solve(L, right.T[:, :, None]) + noise.T[:, :, None]
    y = np.linalg.solve(np.swapaxes(L, 1, 2), half)[:, :, 0].T
    return np.asarray(root * y)


def _solved(rows: sparse.sparray, precision: Floats, root: Floats, right: Floats) -> Floats:
    """B⁻¹ right by conjugate gradients, all columns at once."""
    y = np.zeros_like(right)
    left = right.copy()
    direction, size = left.copy(), (left**2).sum(axis=0)
    first = size.copy()
    for _ in range(MAX_STEPS):
        if (size <= CLOSE**2 * np.maximum(first, 1e-300)).all():
            break
        image = direction + precision * root * (rows.T @ (rows @ (root * direction)))
        curved = (direction * image).sum(axis=0)
        step = np.divide(size, curved, out=np.zeros_like(size), where=curved > 0)
        y, left = y + step * direction, left - step * image
        old, size = size, (left**2).sum(axis=0)
        direction = left + np.divide(size, old, out=np.zeros_like(size), where=old > 0) * direction
    return y


def _columns(old: Regression, w: Floats, prior: Gamma, rng: np.random.Generator) -> Floats:
    """1/a_g ~ Gamma(½ + n/2, b_g + Σ w²/(2 b_k)) over the features of a source column and the factors that regress."""
    design, on = old.design, old.q.by_target > 0
    square = (design.summed(w**2)[:, on] / old.q.by_target[on]).sum(axis=1)
    used = (old.q.by_column > 0) & on.any()
    shape, rate = prior.shape + design.sizes[:, 0] * on.sum() / 2.0, prior.rate + square / 2.0
    return np.where(used, np.where(used, rate, 1.0) / rng.gamma(shape), old.q.by_column)


def log_cells(spec: Spec, posterior: Posterior, measured: Floats) -> Floats:
    """Log density of the cells of each relation, (M,), up to a constant; `measured` are their summed values."""
    relations = zip(spec.likelihoods, measured.tolist(), spec.n_cells.tolist(), posterior.parameters, strict=True)
    return np.array([lik.expected(value, n, p, spec.parameter_prior) for lik, value, n, p in relations])


def log_joint(spec: Spec, posterior: Posterior, hyper: Hyper, cells: Floats) -> float:
    """Log density of cells (`log_cells`), factors, biases, coefficients, scales and precisions, up to a constant."""
    relations = zip(spec.likelihoods, spec.n_cells.tolist(), posterior.parameters, _priors(spec, hyper), strict=True)
    total = spec.constant + float(cells.sum())
    total += sum(lik.divergence(n, p, prior) for lik, n, p, prior in relations)
    on, alpha, d, prior = posterior.on, posterior.alpha.mean, spec.n_entities[:, None], posterior.alpha_prior
    total += 0.5 * float((d * np.log(alpha) - alpha * posterior.moments.square)[on].sum())
    free = on & ~spec.unit_variance[:, None]
    density = np.where(free, log_density(alpha, prior.shape, prior.rate), 0.0)
    total += float(density[0].sum() if spec.common else density.sum())
    if hyper.centers is not None:
        total += log_prior(posterior, hyper.centers)
    return total + _log_biases(spec, posterior, hyper) + _log_scales(posterior, hyper) + _log_coefficients(posterior)


def _log_biases(spec: Spec, posterior: Posterior, hyper: Hyper) -> float:
    sums, n, (mu, _, scale) = posterior.moments, spec.n_bias, posterior.bias
    squares = sums.bias_square - 2.0 * mu * sums.bias_sum + n * mu**2
    each = -0.5 * n * np.log(scale) - squares / (2.0 * scale) - 0.5 * mu**2
    # The density of σ², whose precision has a Gamma prior.
    each -= (hyper.bias.shape + 1.0) * np.log(scale) + hyper.bias.rate / scale + BIAS_SCALE_RATE * scale
    return float(each[spec.has_bias].sum())


def _log_scales(posterior: Posterior, hyper: Hyper) -> float:
    if posterior.scales is None or hyper.beta is None:
        return 0.0
    scales, beta = posterior.scales, posterior.scales.beta.mean
    each = 0.5 * (np.log(beta) - beta * scales.mean**2) + log_density(beta, hyper.beta.shape, hyper.beta.rate)
    return float(each[scales.on].sum())


def _log_coefficients(posterior: Posterior) -> float:
    total = 0.0
    for design, q, _ in posterior.regressions:
        var = np.outer(q.by_column, q.by_target)[design.group]
        used = var > 0
        total -= 0.5 * float((np.log(var[used]) + q.mean[used] ** 2 / var[used]).sum())
    return total
