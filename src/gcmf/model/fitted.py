"""What remains of a fit: everything that answers need, nothing of the training cells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.model.explained import Explained, explain
from gcmf.model.structure import touched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.data.schema import Schema
    from gcmf.data.units import Units
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.data.zeros import Drawn
    from gcmf.engines.base import State
    from gcmf.likelihoods import Likelihood
    from gcmf.model.posterior import Posterior, RelationScales
    from gcmf.model.spec import Spec

    Floats = NDArray[np.floating[Any]]


class FittedScales(NamedTuple):
    """How each factor acts in each relation, θ = Σ_k d_mk u_ik u_jk: (M, K) each."""

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    on: NDArray[np.bool_]
    """Which relations see the factor; mean and variance are exactly zero elsewhere."""
    mate: NDArray[np.int64]
    """The factor with which each is received in directed relations, (K,)."""


@dataclass(frozen=True)
class Fitted:
    """A fitted model. Factors are ordered: shared by all relations, by some, private; each by variance explained.

    Entities without a cell hold their prior: mean zero, variance 1/⟨α⟩, bias ⟨μ⟩.
    """

    schema: Schema
    vocabularies: Mapping[str, Vocabulary]
    likelihoods: tuple[Likelihood, ...]
    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    """Cells were fitted as (x − center)/scale, (M,)."""
    units: tuple[Units | None, ...]
    """Per relation: what its columns had been standardized by before that, if they were."""
    offset: NDArray[np.float64]
    """Fixed part of θ per relation, (M,)."""
    parameters: tuple[NDArray[np.float64], ...]
    """What each relation's likelihood has learned and predictions need, such as the noise variance."""
    mean: tuple[Floats, ...]
    var: tuple[Floats, ...]
    """Per entity set, (d, K)."""
    bias_mean: tuple[Floats, ...]
    bias_var: tuple[Floats, ...]
    """Per layer (2 × relation + side), (d,)."""
    prior_var: NDArray[np.float64]
    """Variance of a new entity's factors, (E, K)."""
    prior_bias: NDArray[np.float64]
    """Mean and variance of a new entity's bias per layer, (2, 2M)."""
    on: NDArray[np.bool_]
    """(E, K)."""
    activity: NDArray[np.float64]
    """Share of the factor's second moment in the set that the data determine, Σū²/Σ(ū² + ũ), (E, K)."""
    explained: Explained
    n_weak: int = 0
    """The last so many columns of the arrays above are weak factors: predictions are made with them, but they do not
    pass the on/off test, and no table shows them unless it is asked to."""
    scales: FittedScales | None = None
    """Of relations and factors, where the model has them; without, a factor acts alike between all its sets."""
    drawn: Mapping[str, Drawn] = field(default_factory=dict)
    """Relations that were fitted from some of their zeros, drawn and weighed: how many, and of how many."""

    @property
    def n_factors(self) -> int:
        """Factors that pass the on/off test."""
        return int(self.on.shape[1]) - self.n_weak

    @property
    def noise(self) -> NDArray[np.float64]:
        """Noise variance of the scaled cells, (M,); zero where there is none."""
        pairs = zip(self.likelihoods, self.parameters, strict=True)
        return np.array([likelihood.noise(p) for likelihood, p in pairs])

    @property
    def factor_names(self) -> list[str]:
        """F1, F2 and so on; then the weak ones, W1, W2 and so on."""
        return [f"F{k + 1}" for k in range(self.n_factors)] + [f"W{k + 1}" for k in range(self.n_weak)]

    @property
    def seen(self) -> NDArray[np.bool_] | None:
        """Which relations see each factor, (M, K), where scales say so; directed ones also see who is received."""
        if self.scales is None:
            return None
        return np.where(self.directed[:, None], self.scales.on | self.scales.on[:, self.scales.mate], self.scales.on)

    @property
    def directed(self) -> NDArray[np.bool_]:
        """Which relations are of a set with itself, and not the same both ways, (M,)."""
        return np.array([relation.symmetric is False for relation in self.schema.relations])

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """(row set, column set) of each relation."""
        index = self.schema.entity_index
        return tuple((index(r.rows), index(r.cols)) for r in self.schema.relations)

    def measure(self, m: int, j: NDArray[np.integer]) -> tuple[Any, Any]:
        """Center and scale of cells in columns j of relation m: x = center + scale · (what was fitted).

        Two numbers, or two arrays like j where the columns have units of their own.
        """
        units = self.units[m]
        if units is None:
            return self.center[m], self.scale[m]
        center, scale = units.of(j)
        return center + scale * self.center[m], scale * self.scale[m]


def summarize(spec: Spec, posterior: Posterior, state: State, data: Collection) -> Fitted:
    """Order the factors, fill in the entities without data, and measure what each factor explains."""
    explained = explain(spec, posterior, state, data)
    order = _order(spec, posterior, explained)
    on, alpha = posterior.on[:, order], posterior.alpha.mean[:, order]
    mean, var = ([np.ascontiguousarray(a[:, order]) for a in group] for group in (state.mean, state.var))
    activity = _activity(mean, posterior.moments.square[:, order], on)
    prior_var = np.where(on & (not spec.point), 1.0 / alpha, 0.0)
    var = [np.where(seen[:, None], v, p).astype(v.dtype)
           for v, p, seen in zip(var, prior_var, spec.observed, strict=True)]  # fmt: skip
    prior_bias = _bias_priors(spec, posterior)
    bias_mean, bias_var = [], []
    for number, seen in enumerate(spec.in_layer):
        layer = spec.layer(*divmod(number, 2))
        b, b_var = state.bias_mean[layer], state.bias_var[layer]
        bias_mean.append(np.where(seen, b, prior_bias[0, layer]).astype(b.dtype))
        bias_var.append(np.where(seen, b_var, prior_bias[1, layer]).astype(b.dtype))
    return Fitted(
        schema=spec.schema,
        vocabularies={name: data.entities[name].vocabulary for name in spec.schema.entities},
        likelihoods=spec.likelihoods,
        center=spec.center,
        scale=spec.scale,
        units=tuple(data.relations[r.name].units for r in spec.schema.relations),
        offset=spec.offset,
        parameters=tuple(
            likelihood.settled(p, spec.parameter_prior)
            for likelihood, p in zip(spec.likelihoods, posterior.parameters, strict=True)
        ),
        mean=tuple(mean),
        var=tuple(var),
        bias_mean=tuple(bias_mean),
        bias_var=tuple(bias_var),
        prior_var=prior_var,
        prior_bias=prior_bias,
        on=on,
        activity=activity,
        explained=Explained(explained.bias, explained.factors[:, order], explained.total),
        n_weak=posterior.n_weak,
        scales=None if posterior.scales is None else _fitted_scales(posterior.scales, order),
    )


def _fitted_scales(scales: RelationScales, order: NDArray[np.intp]) -> FittedScales:
    return FittedScales(
        scales.mean[:, order], scales.var[:, order], scales.on[:, order], np.argsort(order)[scales.mate[order]]
    )


def _order(spec: Spec, posterior: Posterior, explained: Explained) -> NDArray[np.intp]:
    """Shared first, private last; within a role, the factor that explains most first. Weak ones after all others."""
    there, weak = touched(spec, posterior), np.arange(posterior.n_factors) >= posterior.n_strong
    reach = there.sum(axis=0)
    role = np.where(reach == len(spec.ends), 0, np.where(reach > 1, 1, 2))
    first = np.where(there.any(axis=0), there.argmax(axis=0), 0)
    weight = explained.factors.sum(axis=0)
    return np.lexsort((-weight, np.where(role == 2, first, 0), role, weak))


def _bias_priors(spec: Spec, posterior: Posterior) -> NDArray[np.float64]:
    """B ~ N(⟨μ⟩, σ² + Var μ) for an entity without data; zero where the layer has no biases."""
    biased = spec.has_bias
    var = posterior.bias.scale + posterior.bias.var
    prior = np.stack([np.where(biased, posterior.bias.mean, 0.0), np.where(biased & (not spec.point), var, 0.0)])
    return prior[:, [spec.layer(*divmod(number, 2)) for number in range(len(biased))]]


def _activity(mean: list[Floats], total: NDArray[np.float64], on: NDArray[np.bool_]) -> NDArray[np.float64]:
    squares = np.stack([(m.astype(np.float64) ** 2).sum(axis=0) for m in mean])
    return np.asarray(np.divide(squares, total, out=np.zeros_like(total), where=on & (total > 0)))
