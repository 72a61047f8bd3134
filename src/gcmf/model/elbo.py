"""The evidence lower bound, one function per group of terms; the driver only adds them up.

Each (entity set, factor) pair is counted relative to its switched-off state, so that switching off and
dropping factors never makes the bound jump and bounds with different numbers of factors compare. The
constant left out is `Spec.off_level`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.gamma import log_density
from gcmf.model import noise
from gcmf.model.columns import price
from gcmf.model.hyper import BIAS_SCALE_RATE
from gcmf.model.structure import reached

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]


def elbo(spec: Spec, posterior: Posterior, measured: Floats) -> float:
    """All terms together; `measured` is the engine's sum per relation."""
    return float(sum(terms(spec, posterior, measured).values()))


def terms(spec: Spec, posterior: Posterior, measured: Floats) -> dict[str, float]:
    """The bound (of a MAP fit: the log joint density), term by term."""
    factors, biases = (_point_factors, _point_biases) if spec.point else (_factors, _biases)
    return {
        "cells": _cells(spec, posterior, measured),
        "parameters": _parameters(spec, posterior),
        "factors": factors(spec, posterior),
        "biases": biases(spec, posterior),
        "scales": _scales(spec, posterior),
        "noise": 0.0 if posterior.noise is None else noise.expected(posterior.noise),
        "pattern": _pattern(spec, posterior),
        "coefficients": _coefficients(spec, posterior),
    }


def _cells(spec: Spec, posterior: Posterior, measured: Floats) -> float:
    """Σ ⟨log p(x|θ)⟩, by each likelihood from the summed values of its cells."""
    relations = zip(spec.likelihoods, measured.tolist(), spec.n_cells.tolist(), posterior.parameters, strict=True)
    return spec.constant + sum(lik.expected(total, n, p, spec.parameter_prior) for lik, total, n, p in relations)


def _parameters(spec: Spec, posterior: Posterior) -> float:
    """Σ_m ⟨log p⟩ − ⟨log q⟩ of what the likelihoods learn, such as τ."""
    relations = zip(spec.likelihoods, spec.n_cells.tolist(), posterior.parameters, strict=True)
    return sum(lik.divergence(n, p, spec.parameter_prior) for lik, n, p in relations)


def _factors(spec: Spec, posterior: Posterior) -> float:
    """Σ_ek { d/2 ⟨log α⟩ − ⟨α⟩S/2 + ½Σ log ũ + d/2 + G(α) } over the factors that are on."""
    on, alpha, sums = posterior.on, posterior.alpha, posterior.moments
    d, unit = spec.n_entities[:, None], spec.unit_variance[:, None]
    log_alpha = np.where(unit, 0.0, alpha.mean_log)
    each = 0.5 * (d * (log_alpha + 1.0) - alpha.mean * sums.square + sums.log_var)
    prior = alpha.divergence(posterior.alpha_prior.shape, posterior.alpha_prior.rate) - spec.off_level[:, None]
    if spec.common:
        return float(each[on].sum() + prior[0, on.any(axis=0)].sum())
    return float((each + np.where(unit, 0.0, prior))[on].sum())


def _scales(spec: Spec, posterior: Posterior) -> float:
    """Σ_mk { ½⟨log β⟩ − ⟨β⟩⟨d²⟩/2 + ½ log d̃ + ½ + G(β) } over the relations that see the factor; points: see hyper."""
    scales = posterior.scales
    if scales is None:
        return 0.0
    if spec.point:
        return -0.5 * float((scales.mean**2 + np.log(2.0 * np.pi))[scales.on].sum())
    beta, log_var = scales.beta, np.log(np.where(scales.on, scales.var, 1.0))
    each = 0.5 * (beta.mean_log - beta.mean * scales.square + log_var + 1.0)
    prior = beta.divergence(spec.priors.alpha_shape, spec.priors.alpha_rate) - spec.scale_off_level
    return float((each + prior)[scales.on].sum())


def _pattern(spec: Spec, posterior: Posterior) -> float:
    """−½ log n_m for every relation that a factor reaches, the log prior of the on/off pattern."""
    return -float(spec.price @ reached(spec, posterior).sum(axis=1)) if spec.priors.vague else 0.0


def _coefficients(spec: Spec, posterior: Posterior) -> float:
    """−KL(q(w) ‖ p(w)) of all that regresses on covariates, and the price of every column that it regresses on."""
    if not posterior.regressions:
        return 0.0
    divergence = sum(float(r.q.divergence.sum()) for r in posterior.regressions)
    return -divergence - (price(posterior) if spec.priors.vague else 0.0)


def _biases(spec: Spec, posterior: Posterior) -> float:
    """Σ_layers ⟨log p(b|μ,σ²)⟩ + H(b) + ⟨log p(μ)⟩ + H(μ) + log p(σ²)."""
    sums, n, scale = posterior.moments, spec.n_bias, posterior.bias.scale
    mu, mu_var = posterior.bias.mean, np.where(spec.has_bias, posterior.bias.var, 1.0)
    mu_square = mu * mu + mu_var
    squares = sums.bias_square - 2.0 * mu * sums.bias_sum + n * mu_square
    layer = sums.bias_log_var + n - n * np.log(scale) - squares / scale
    each = 0.5 * (layer + np.log(mu_var) - mu_square + 1.0) - BIAS_SCALE_RATE * scale
    return float(each[spec.has_bias].sum())


def _point_factors(spec: Spec, posterior: Posterior) -> float:
    alpha, d = posterior.alpha.mean, spec.n_entities[:, None]
    each = 0.5 * d * np.log(alpha / (2.0 * np.pi)) - 0.5 * alpha * posterior.moments.square
    prior = log_density(alpha, spec.alpha_prior, spec.priors.alpha_rate)
    prior = np.where(spec.unit_variance[:, None], 0.0, prior)
    return float(each.sum() + (prior[0].sum() if spec.common else prior.sum()))


def _point_biases(spec: Spec, posterior: Posterior) -> float:
    sums, n = posterior.moments, spec.n_bias
    mu, scale = posterior.bias.mean, posterior.bias.scale
    squares = sums.bias_square - 2.0 * mu * sums.bias_sum + n * mu**2
    each = -0.5 * n * np.log(2.0 * np.pi * scale) - squares / (2.0 * scale) - 0.5 * mu**2
    return float(each[spec.has_bias].sum())
