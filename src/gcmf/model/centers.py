"""Centers of factors, drawn: u_ik ~ N(m_ek + f_iᵀ w_k, 1/α_ek). They are what ties biases to factors.

With u = m + ũ, a predictor is

    u_i·v_j + b_i + c_j = ũ_i·ṽ_j + (b_i + m_v·ũ_i + m_u·m_v) + (c_j + m_u·ṽ_j),

so that who likes a kind of film may also like films in general: m_v says how much. Draws are told without centers,
which their biases have taken up. So a set has them only if all its partners have biases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.engines.base import State
from gcmf.model.posterior import BiasPrior, row_priors

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Engine
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]
    Array = NDArray[Any]


def expected_sizes(spec: Spec, posterior: Posterior) -> Floats:
    """The prior variance of the centers of each set, that of its factors; zero where it has none, (E, 1)."""
    free = ~spec.unit_variance
    for m, (r, c) in enumerate(spec.ends):
        free[r] &= r != c and spec.biased[2 * m + 1]
        free[c] &= r != c and spec.biased[2 * m]
    size = np.where(posterior.on, 1.0 / posterior.alpha.mean, 0.0).sum(axis=1) / np.maximum(posterior.on.sum(axis=1), 1)
    return np.asarray(np.where(free, size, 0.0)[:, None])


def around_centers(posterior: Posterior) -> Posterior:
    """The posterior of which an engine has told Fᵀu, with Fᵀ(u − m) in its place: what coefficients see."""
    center = posterior.center
    if center is None or not posterior.regressions:
        return posterior
    regressions = [
        r if r.design.layer is not None
        else r._replace(products=r.products - np.outer(r.design.totals, center[r.design.e]))
        for r in posterior.regressions
    ]  # fmt: skip
    return posterior._replace(regressions=tuple(regressions))


def draw_centers(
    spec: Spec, engine: Engine, posterior: Posterior, variance: Floats, rng: np.random.Generator
) -> Posterior:
    """m_ek ~ N(α t/(α d + 1/v), 1/(α d + 1/v)), t = Σ_i (u_ik − f_iᵀ w_k); of a factor that is off, N(0, v)."""
    if posterior.center is None:
        return posterior
    center, square = posterior.center.copy(), posterior.moments.square.copy()
    for e in np.flatnonzero(variance[:, 0] > 0.0).tolist():
        total = engine.totals(e)
        for design, q, _ in posterior.regressions:
            if design.layer is None and design.e == e:
                total = total - design.totals @ q.mean
        d, v = spec.n_entities[e], variance[e, 0]
        alpha = np.where(posterior.on[e], posterior.alpha.mean[e], 0.0)
        precision = alpha * d + 1.0 / v
        m = alpha * total / precision + rng.standard_normal(len(alpha)) / np.sqrt(precision)
        moved = d * (m**2 - center[e] ** 2) - 2.0 * (m - center[e]) * total
        square[e] = np.maximum(square[e] + np.where(posterior.on[e], moved, 0.0), 0.0)
        center[e] = m
    return posterior._replace(center=center, moments=posterior.moments._replace(square=square))


def shift_centers(
    spec: Spec, engine: Engine, posterior: Posterior, variance: Floats, rng: np.random.Generator
) -> Posterior:
    """Draw s_e, by which m_e and all u_i of a set move while the biases of its partners take it back: c_j − s·(d∘v_j).

    No predictor changes, and no distance from a center: the density of s is that of the centers and of these biases,

        s ~ N(P⁻¹h, P⁻¹),   P = 1/v + Σ_j w_j w_jᵀ/σ²,   h = −m/v + Σ_j (c_j − μ_j) w_j/σ²,   w_j = d∘v_j.

    One after the other, u, m and c would creep along this direction: a factor that is constant in the rows of one
    relation would take the place of its column biases there, while rows without that relation use it for others.
    """
    if posterior.center is None:
        return posterior
    center, state, priors = posterior.center.copy(), engine.fetch(), row_priors(spec, posterior)
    for e in np.flatnonzero(variance[:, 0] > 0.0).tolist():
        on = posterior.on[e]
        P, h, taken = np.diag(np.full(int(on.sum()), 1.0 / variance[e, 0])), -center[e, on] / variance[e, 0], []
        for n, side in ((n, side) for n, ends in enumerate(spec.ends) for side in (0, 1) if ends[side] == e):
            other, layer = spec.ends[n][1 - side], 2 * n + 1 - side
            d = np.ones(len(on)) if posterior.scales is None else posterior.scales.mean[n]
            w = (state.mean[other] * d)[:, on].astype(np.float64) * spec.in_layer[layer][:, None]
            away = state.bias_mean[layer] - priors[other].bias_mean[:, spec.layers[other].index(layer)]
            P += w.T @ w / posterior.bias.scale[layer]
            h += away @ w / posterior.bias.scale[layer]
            taken.append((layer, w))
        L = np.linalg.cholesky(P)
        s = np.linalg.solve(L.T, np.linalg.solve(L, h) + rng.standard_normal(len(h)))
        center[e, on] += s
        state.mean[e][:, on] += (spec.observed[e][:, None] * s).astype(state.mean[e].dtype)
        for layer, w in taken:
            state.bias_mean[layer] -= (w @ s).astype(state.bias_mean[layer].dtype)
    engine.place(state)
    return posterior._replace(center=center)


def log_prior(posterior: Posterior, variance: Floats) -> float:
    """Log p(m) of the factors that are on, up to a constant."""
    if posterior.center is None:
        return 0.0
    used = (variance > 0.0) & posterior.on
    each = np.divide(posterior.center**2, variance, out=np.zeros_like(posterior.center), where=used)
    return -0.5 * float(each.sum())


def absorb(spec: Spec, posterior: Posterior, factors: list[Floats], biases: list[Floats]) -> None:
    """Take centers off the factors of each set, (..., K), and let the biases of each layer have what they did."""
    m = _acting(posterior)
    if m is None:
        return
    for e, center in enumerate(m):
        factors[e] -= center
    for n, (r, c) in enumerate(spec.ends):
        if m[r].any() or m[c].any():
            d = 1.0 if posterior.scales is None else posterior.scales.mean[n]
            biases[2 * n] += (factors[r] + m[r]) @ (d * m[c])
            biases[2 * n + 1] += factors[c] @ (d * m[r])


def absorbed(spec: Spec, posterior: Posterior, state: State) -> tuple[Posterior, State]:
    """The same draw without centers: its state, and what is then expected of biases."""
    m = _acting(posterior)
    if m is None:
        return posterior._replace(center=None), state
    factors, biases = ([a.astype(np.float64) for a in group] for group in (state.mean, state.bias_mean))
    absorb(spec, posterior, factors, biases)
    mean = [np.where(seen[:, None], u, 0.0) for u, seen in zip(factors, spec.observed, strict=True)]
    bias = [np.where(seen, b, 0.0) for b, seen in zip(biases, spec.in_layer, strict=True)]
    dtype = state.mean[0].dtype
    moved = State([u.astype(dtype) for u in mean], state.var, [b.astype(dtype) for b in bias], state.bias_var,
                  state.precision)  # fmt: skip
    return _without(spec, posterior, m), moved


def _acting(posterior: Posterior) -> Floats | None:
    """Centers of the factors that are on, (E, K); None if there are none."""
    if posterior.center is None or not posterior.center.any():
        return None
    return np.where(posterior.on, posterior.center, 0.0)


def _without(spec: Spec, posterior: Posterior, m: Floats) -> Posterior:
    """b + m_v·ũ has the mean μ + m_u·m_v + f_iᵀ(c + W m_v), and the variance σ² + Σ_k m_vk²/α_uk."""
    mu, var, scale = (a.copy() for a in posterior.bias)
    size = np.where(posterior.on, 1.0 / posterior.alpha.mean, 0.0)
    partner = np.zeros((len(mu), m.shape[1]))
    for n, (r, c) in enumerate(spec.ends):
        d = 1.0 if posterior.scales is None else posterior.scales.mean[n]
        partner[2 * n], partner[2 * n + 1] = d * m[c], d * m[r]
        mu[2 * n] += m[r] @ partner[2 * n]
        scale[2 * n] += partner[2 * n] ** 2 @ size[r]
        scale[2 * n + 1] += partner[2 * n + 1] ** 2 @ size[c]
    coefficients = {r.design.e: r.q.mean for r in posterior.regressions if r.design.layer is None}
    regressions = [
        r if r.design.layer is None
        else r._replace(q=r.q._replace(mean=r.q.mean + (coefficients[r.design.e] @ partner[r.design.layer])[:, None]))
        for r in posterior.regressions
    ]  # fmt: skip
    return posterior._replace(center=None, bias=BiasPrior(mu, var, scale), regressions=tuple(regressions))
