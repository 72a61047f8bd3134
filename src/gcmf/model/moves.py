"""Steps along directions in which the data do not change, and changes of structure.

Each asks the engine to move its state and returns what is then known of it: (engine, posterior) → posterior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.gamma import Gamma
from gcmf.model import regression_moves
from gcmf.model.init import start
from gcmf.model.posterior import RelationScales
from gcmf.model.regression import told
from gcmf.model.structure import Change

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.engines.base import Engine
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]


def shift(spec: Spec, engine: Engine, posterior: Posterior) -> Posterior:
    """Move c = (μ_cols − μ_rows)/2 from the column biases to the row biases: the best split of the intercept."""
    sums, n, mean = posterior.moments, spec.n_bias, posterior.bias.mean
    sides = mean.reshape(-1, 2)
    step = (spec.two_sided * (sides[:, ::-1] - sides) / 2.0).ravel()
    engine.shift(step)
    square = sums.bias_square + step * (2.0 * sums.bias_sum + n * step)
    moments = sums._replace(bias_sum=sums.bias_sum + n * step, bias_square=square)
    regressions = regression_moves.shifted(posterior, step)
    return posterior._replace(bias=posterior.bias._replace(mean=mean + step), moments=moments, regressions=regressions)


def transform(engine: Engine, posterior: Posterior, T: Floats) -> Posterior:
    """Turn the factors of every entity set, ū ← ū T_e, T (E, K, K); what is off stays off. α is left to its update."""
    scales = posterior.scales
    posterior = transformed(engine, posterior, [T_e * on for T_e, on in zip(T, posterior.on, strict=True)])
    if scales is None:
        return posterior
    # Only factors are mixed that have the same scales; variances may differ a little.
    share = T[0] ** 2 / (T[0] ** 2).sum(axis=0)
    return posterior._replace(scales=scales._replace(var=np.where(scales.on, scales.var @ share, 0.0)))


def transformed(engine: Engine, posterior: Posterior, T: list[Floats]) -> Posterior:
    """ū ← ū T_e in the engine, with the sums and regressions of the new factors; all else is that of the old."""
    square, log_var = engine.transform(T)
    moved = posterior._replace(regressions=regression_moves.turned(posterior, T))
    return told(engine, moved, posterior.moments._replace(square=square, log_var=log_var), biases=False)


def second_moments(engine: Engine, posterior: Posterior) -> Floats:
    """M_e = Σ_i ⟨u uᵀ⟩ of each set, around the prior means where factors regress on covariates, (E, K, K)."""
    return regression_moves.around_prior_means(posterior, engine.second_moments())


def restructure(engine: Engine, posterior: Posterior, changed: list[Change]) -> Posterior:
    """Make the changes: a cut factor continues in further columns, a dead one is gone."""
    new_columns = {change.k: change for change in changed}
    source, on, reach = [], [], []
    for k in range(posterior.n_factors):
        for n, column in enumerate(new_columns[k].columns if k in new_columns else [posterior.on[:, k]]):
            source.append(k)
            on.append(column)
            if posterior.scales is not None:
                reach.append(new_columns[k].reach[n] if k in new_columns else posterior.scales.on[:, k])
    kept, scales = np.array(on, dtype=bool).reshape(-1, len(posterior.on)).T, posterior.scales
    if scales is not None:
        scales = scales.columns(source, np.array(reach, dtype=bool).reshape(-1, len(scales.on)).T, kept)
    selected = np.eye(posterior.n_factors)[:, source]
    posterior = transformed(engine, posterior, [selected * held for held in kept])
    alpha = Gamma(posterior.alpha.shape[:, source], posterior.alpha.rate[:, source])
    posterior = posterior._replace(alpha=alpha, on=kept, scales=scales)
    if scales is None or not changed:
        return posterior
    # Who has lost its mate may have to do with no relation any more.
    idle = np.flatnonzero(~(scales.on | scales.on[:, scales.mate]).any(axis=0))
    return restructure(engine, posterior, [Change(0.0, k, ()) for k in idle.tolist()]) if len(idle) else posterior


def drop(engine: Engine, posterior: Posterior, weak: NDArray[np.intp]) -> Posterior:
    """Take these factors away, all of them weak."""
    if not len(weak):
        return posterior
    left = restructure(engine, posterior, [Change(0.0, k, ()) for k in weak.tolist()])
    return left._replace(n_weak=left.n_factors - posterior.n_strong)


def extend(  # noqa: PLR0913 - where, and by chance
    spec: Spec, engine: Engine, posterior: Posterior, on: NDArray[np.bool_], rng: np.random.Generator,
    *, reach: NDArray[np.bool_] | None = None,
) -> Posterior:  # fmt: skip
    """Add factors that live where `on` (E, n) says, at a random place; `reach` (M, n): which relations see them."""
    state, fresh = start(spec, on, dtype=str(engine.dtype), rng=rng, reach=reach)
    square, log_var = engine.extend(state.mean, state.var)
    old, sums = posterior.alpha, posterior.moments
    regressions, wider = regression_moves.extended(posterior, fresh.alpha.mean, on, point=spec.point)
    return posterior._replace(
        alpha=Gamma(_beside(old.shape, fresh.alpha.shape), _beside(old.rate, fresh.alpha.rate)),
        on=_beside(posterior.on, on),
        moments=sums._replace(square=_beside(sums.square, square + wider), log_var=_beside(sums.log_var, log_var)),
        scales=_scales_beside(posterior.scales, fresh.scales),
        regressions=regressions,
    )


def _scales_beside(left: RelationScales | None, right: RelationScales | None) -> RelationScales | None:
    if left is None or right is None:
        return None
    beta = Gamma(_beside(left.beta.shape, right.beta.shape), _beside(left.beta.rate, right.beta.rate))
    mate = np.concatenate([left.mate, len(left.mate) + right.mate])
    return RelationScales(
        _beside(left.mean, right.mean),
        _beside(left.var, right.var),
        beta,
        _beside(left.on, right.on),
        mate,
        left.itself,
    )


def _beside(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([left, right], axis=1)
