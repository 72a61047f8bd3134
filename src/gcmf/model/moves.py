"""Steps along directions in which the data do not change, and changes of structure.

Each asks the engine to move its state and returns what is then known of it: (engine, posterior) → posterior.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.gamma import Gamma
from gcmf.model import regression_moves
from gcmf.model.init import start
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
    return _transform(engine, posterior, [T_e * on for T_e, on in zip(T, posterior.on, strict=True)])


def _transform(engine: Engine, posterior: Posterior, T: list[Floats]) -> Posterior:
    """ū ← ū T_e in the engine, with the sums and regressions of the new factors; α and `on` are those of the old."""
    square, log_var = engine.transform(T)
    moved = posterior._replace(regressions=regression_moves.turned(posterior, T))
    return told(engine, moved, posterior.moments._replace(square=square, log_var=log_var), biases=False)


def second_moments(engine: Engine, posterior: Posterior) -> Floats:
    """M_e = Σ_i ⟨u uᵀ⟩ of each set, around the prior means where factors regress on covariates, (E, K, K)."""
    return regression_moves.around_prior_means(posterior, engine.second_moments())


def restructure(engine: Engine, posterior: Posterior, changed: list[Change]) -> Posterior:
    """Make the changes: a cut factor continues in further columns, a dead one is gone."""
    new_columns = {change.k: change.columns for change in changed}
    source, on = [], []
    for k in range(posterior.n_factors):
        for column in new_columns.get(k, (tuple(posterior.on[:, k].tolist()),)):
            source.append(k)
            on.append(column)
    kept = np.array(on, dtype=bool).reshape(-1, len(posterior.on)).T
    selected = np.eye(posterior.n_factors)[:, source]
    posterior = _transform(engine, posterior, [selected * held for held in kept])
    alpha = Gamma(posterior.alpha.shape[:, source], posterior.alpha.rate[:, source])
    return posterior._replace(alpha=alpha, on=kept)


def drop(engine: Engine, posterior: Posterior, weak: NDArray[np.intp]) -> Posterior:
    """Take these factors away, all of them weak."""
    dead = [Change(0.0, k, ()) for k in weak.tolist()]
    return restructure(engine, posterior, dead)._replace(n_weak=posterior.n_weak - len(dead)) if dead else posterior


def extend(
    spec: Spec, engine: Engine, posterior: Posterior, on: NDArray[np.bool_], rng: np.random.Generator
) -> Posterior:
    """Add factors that live where `on` (E, n) says, at a random place."""
    state, fresh = start(spec, on, dtype=str(engine.dtype), rng=rng)
    square, log_var = engine.extend(state.mean, state.var)
    old, sums = posterior.alpha, posterior.moments
    regressions, wider = regression_moves.extended(posterior, fresh.alpha.mean, on, point=spec.point)
    return posterior._replace(
        alpha=Gamma(_beside(old.shape, fresh.alpha.shape), _beside(old.rate, fresh.alpha.rate)),
        on=_beside(posterior.on, on),
        moments=sums._replace(square=_beside(sums.square, square + wider), log_var=_beside(sums.log_var, log_var)),
        regressions=regressions,
    )


def _beside(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([left, right], axis=1)
