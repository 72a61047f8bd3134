"""What remains of a fit: everything that answers need, and of the training cells at most which there were."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gcmf.data.pairs import MANY, Pairs
from gcmf.engines.host import factor_sums
from gcmf.model.explained import Explained, explain
from gcmf.model.links import Layers, fill, joint
from gcmf.model.noise import fitted_noise
from gcmf.model.regression import covariances, expected, precision_of
from gcmf.model.structure import Pattern, touched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.data.covariates import Feature
    from gcmf.data.schema import Schema
    from gcmf.data.units import Units
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.data.zeros import Drawn
    from gcmf.engines.base import State
    from gcmf.likelihoods import Likelihood
    from gcmf.model.draws import Draws
    from gcmf.model.noise import RowNoise
    from gcmf.model.posterior import Posterior, RelationScales
    from gcmf.model.spec import Spec
    from gcmf.model.spread import Spread

    Floats = NDArray[np.floating[Any]]
    Indices = NDArray[np.integer]


class FittedScales(NamedTuple):
    """How each factor acts in each relation, θ = Σ_k d_mk u_ik u_jk: (M, K) each."""

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    on: NDArray[np.bool_]
    """Which relations see the factor; mean and variance are exactly zero elsewhere."""
    mate: NDArray[np.int64]
    """The factor with which each is received in directed relations, (K,)."""


class Effects(NamedTuple):
    """How the factors and biases of an entity set depend on its p features: means and deviations of coefficients.

    They are of features as they enter: (x − center)/scale.
    """

    features: tuple[Feature, ...]
    group: NDArray[np.int64]
    """The source column of each feature, (p,)."""
    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    """(p,)."""
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    """Of the factors, (p, K)."""
    bias_mean: NDArray[np.float64]
    bias_std: NDArray[np.float64]
    """Of the biases, (p, 2M); zero for layers that are not of this set."""
    cov: NDArray[np.float64] | None = None
    """Covariances of the coefficients of each factor, (K, p, p); None where only their variances are known."""
    bias_cov: NDArray[np.float64] | None = None
    """And of each bias layer, (2M, p, p)."""


class RowTerms(NamedTuple):
    """What the update of a row needs beside its cells and their partners: by it, others are added after the fit."""

    precision: NDArray[np.float64]
    """⟨α⟩, (E, K); zero where a factor is off."""
    parameters: tuple[NDArray[np.float64], ...]
    """Of each relation's likelihood, as engines take them."""
    bias_prior: NDArray[np.float64]
    """⟨μ⟩ and σ² of each layer, (2, 2M), without what covariates say."""
    biased: NDArray[np.bool_]
    """Which layers have biases, (2M,)."""
    links: NDArray[np.float64]
    """Σ, by which the biases of an entity tell of each other, (2M, 2M); zero between layers that are not linked."""
    has_cells: tuple[NDArray[np.bool_], ...]
    """Per layer: which entities have a cell in its relation, (d,)."""
    filled: NDArray[np.bool_]
    """Relations in which what is not listed is a zero, (M,)."""
    point: bool
    """Whether rows are points (MAP)."""
    var: tuple[Floats, ...] | None = None
    """Variances of factors with which sweeps went, where they are others than those of predictions; as `Fitted.var`."""
    bias_var: tuple[Floats, ...] | None = None
    """And of biases."""
    center: NDArray[np.float64] | None = None
    """Means of the factors of each set, (E, K), of a draw as it was drawn; no other model has them."""


@dataclass(frozen=True)
class Fitted:
    """A fitted model. Factors are ordered: shared by all relations, by some, private; each by variance explained.

    Entities without a cell hold their prior: mean zero, variance 1/⟨α⟩, bias ⟨μ⟩; or what covariates say of them.
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
    effects: Mapping[str, Effects] = field(default_factory=dict)
    """Of the covariates, by entity set; of sets that have some."""
    terms: RowTerms | None = None
    """By which cells and entities can be added; files of format 5 and before have none."""
    pairs: tuple[Pairs, ...] | None = None
    """Per relation, which cells were observed; None where the model was not to keep them, or they were too many."""
    draws: Draws | None = None
    """Of a sampled model: answers are averages over these. All else is means and variances over all draws, which were
    brought to the axes of one of them."""

    row_noise: RowNoise | None = None
    """Of rows and columns, where relations have some."""

    @property
    def structure(self) -> Pattern:
        """Where every factor lives, as the on/off test has it."""
        if self.scales is None:
            return Pattern(self.on, np.array([self.on[r] & self.on[c] for r, c in self.ends]))
        received = self.directed[:, None] & self.scales.on[:, self.scales.mate]
        return Pattern(self.on, self.scales.on | received)

    @property
    def objective(self) -> str:
        """What the trace of the fit holds, in words."""
        return objective_of(sampled=self.draws is not None)

    @property
    def n_factors(self) -> int:
        """Factors that pass the on/off test."""
        return int(self.on.shape[1]) - self.n_weak

    @property
    def noise(self) -> NDArray[np.float64]:
        """Noise variance of the scaled cells, (M,); zero where there is none."""
        pairs = zip(self.likelihoods, self.parameters, strict=True)
        return np.array([likelihood.noise_variance(p) for likelihood, p in pairs])

    @property
    def factor_names(self) -> list[str]:
        """F1, F2 and so on; then the weak ones, W1, W2 and so on."""
        return [f"F{k + 1}" for k in range(self.n_factors)] + [f"W{k + 1}" for k in range(self.n_weak)]

    @property
    def directed(self) -> NDArray[np.bool_]:
        """Which relations are of a set with itself, and not the same both ways, (M,)."""
        return np.array([relation.symmetric is False for relation in self.schema.relations])

    @property
    def ends(self) -> tuple[tuple[int, int], ...]:
        """(row set, column set) of each relation."""
        index = self.schema.entity_index
        return tuple((index(r.rows), index(r.cols)) for r in self.schema.relations)

    def parameters_at(self, m: int, i: Indices, j: Indices, *, grid: bool = False) -> NDArray[np.float64]:
        """What predictions of cells (i, j) of relation m need of its likelihood; `grid`: of all rows and columns."""
        return self.likelihoods[m].at_noise(self.parameters[m], self.noise_share(m, i, j, grid=grid))

    def noise_share(self, m: int, i: Indices, j: Indices, *, grid: bool = False) -> Any:  # noqa: ANN401 - 1, or an array
        """Noise variance of cells (i, j) as a share of their relation's."""
        if self.row_noise is None:
            return 1.0
        of_rows, of_cols = (self.row_noise.share(2 * m + side, at) for side, at in enumerate((i, j)))
        return (of_rows[:, None] if grid and np.ndim(of_rows) else of_rows) * of_cols

    def measure(self, m: int, j: NDArray[np.integer]) -> tuple[Any, Any]:
        """Center and scale of cells in columns j of relation m: x = center + scale · (what was fitted).

        Two numbers, or two arrays like j where the columns have units of their own.
        """
        units = self.units[m]
        if units is None:
            return self.center[m], self.scale[m]
        center, scale = units.of(j)
        return center + scale * self.center[m], scale * self.scale[m]


def objective_of(*, sampled: bool) -> str:
    """What the trace of a fit holds, in words."""
    return "log joint density" if sampled else "ELBO"


def summarize(  # noqa: PLR0913 - what is left of a run, and what came beside it
    spec: Spec,
    posterior: Posterior,
    state: State,
    data: Collection,
    *,
    widths: Spread | None = None,
    draws: Draws | None = None,
) -> Fitted:
    """Order the factors, fill in the entities without data, and measure what each factor explains.

    `widths` are the variances that predictions are made with, if others than those of the state.
    """
    explained = explain(spec, posterior, state, data, draws)
    order = _order(touched(spec, posterior), explained, posterior.n_strong)
    on, alpha = posterior.on[:, order], posterior.alpha.mean[:, order]
    mean, var = ([np.ascontiguousarray(a[:, order]) for a in group] for group in (state.mean, state.var))
    square = posterior.moments.square[:, order]
    for e in {regression.design.e for regression in posterior.regressions}:
        square[e] = factor_sums([mean[e]], [var[e]])[0][0]  # the moments are those around the prior means
    activity = _activity(mean, square, on)
    prior_var = np.where(on & (not spec.point), 1.0 / alpha, 0.0)
    prior_bias = _bias_priors(spec, posterior)
    told, told_bias = _told(posterior, order)
    mean = [np.where(seen[:, None], a, told[e][0]).astype(a.dtype) if e in told else a
            for e, (a, seen) in enumerate(zip(mean, spec.observed, strict=True))]  # fmt: skip

    def filled(variances: Sequence[Floats]) -> tuple[Floats, ...]:
        """With those of the prior where there are no data."""
        return tuple(
            np.where(seen[:, None], v, p + told[e][1] if e in told else p).astype(v.dtype)
            for e, (v, p, seen) in enumerate(zip(variances, prior_var, spec.observed, strict=True))
        )

    swept_var = filled(var)
    wide_var = swept_var
    links = np.zeros((len(spec.biased), len(spec.biased)))
    bias_mean, bias_var = _biases(spec, state, prior_bias, told_bias, links)
    swept_bias_var = bias_var
    if widths is not None:
        wide_var = filled([np.ascontiguousarray(v[:, order]) for v in widths.var])
        pairs = zip(spec.in_layer, widths.bias_var, bias_var, strict=True)
        bias_var = [np.where(seen, wide, narrow) for seen, wide, narrow in pairs]
    # Of who is not known at all, not even the covariates are: anybody of the set.
    for e, (away, wide) in told.items():
        prior_var[e] += np.where(on[e] & (not spec.point), (away**2 + wide).mean(axis=0), 0.0)
    for layer, (away, wide) in told_bias.items():
        prior_bias[:, layer] += away.mean(), (away.var() + wide.mean()) * (not spec.point)
    # Both sides of a symmetric relation have the biases of the first.
    shared = [spec.layer(*divmod(number, 2)) for number in range(len(spec.biased))]
    bias_mean, bias_var = ([biases[layer] for layer in shared] for biases in (bias_mean, bias_var))
    terms = _terms(spec, posterior, data, np.where(on, alpha, 0.0), links)
    if widths is not None:
        terms = terms._replace(var=swept_var, bias_var=tuple(swept_bias_var[layer] for layer in shared))
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
        var=wide_var,
        bias_mean=tuple(bias_mean),
        bias_var=tuple(bias_var),
        prior_var=prior_var,
        prior_bias=prior_bias[:, shared],
        on=on,
        activity=activity,
        explained=Explained(explained.bias, explained.factors[:, order], explained.total),
        n_weak=posterior.n_weak,
        row_noise=fitted_noise(posterior.noise, state.precision, spec.noise_cells),
        scales=None if posterior.scales is None else _fitted_scales(posterior.scales, order),
        effects=_effects(spec, posterior, data, order),
        terms=terms,
        pairs=_pairs(spec, data),
        draws=None if draws is None else draws.columns(order),
    )


def _terms(
    spec: Spec, posterior: Posterior, data: Collection, precision: Floats, links: NDArray[np.float64]
) -> RowTerms:
    shared = [spec.layer(*divmod(number, 2)) for number in range(len(spec.biased))]
    bias = np.stack([posterior.bias.mean, posterior.bias.scale])
    return RowTerms(
        precision=precision.astype(np.float64),
        parameters=tuple(np.array(p, dtype=np.float64) for p in posterior.parameters),
        bias_prior=np.where(spec.has_bias, bias, 0.0)[:, shared],
        biased=spec.has_bias[shared],
        links=links,
        has_cells=spec.in_layer,
        filled=np.array([data.relations[r.name].cells.filled for r in spec.schema.relations]),
        point=spec.point,
    )


def _pairs(spec: Spec, data: Collection) -> tuple[Pairs, ...] | None:
    """Which cells were observed, if that is to be kept."""
    cells = [data.relations[r.name].cells for r in spec.schema.relations]
    listed = sum(len(c.rows.value) for c in cells)
    if spec.keep == "nothing" or (spec.keep == "auto" and listed > MANY):
        return None
    return tuple(map(Pairs.of, cells))


def _fitted_scales(scales: RelationScales, order: NDArray[np.intp]) -> FittedScales:
    return FittedScales(
        scales.mean[:, order], scales.var[:, order], scales.on[:, order], np.argsort(order)[scales.mate[order]]
    )


def _told(
    posterior: Posterior, order: NDArray[np.intp]
) -> tuple[dict[int, tuple[Floats, Floats]], dict[int, tuple[Floats, Floats]]]:
    """What covariates say of each entity: mean and variance of its factors by set, and of its biases by layer."""
    factors: dict[int, tuple[Floats, Floats]] = {}
    biases: dict[int, tuple[Floats, Floats]] = {}
    for r in posterior.regressions:
        cov = covariances(r, precision_of(posterior, r.design))
        mean, var = expected(r.design.features, r.q.mean, r.q.var, cov)
        if r.design.layer is None:
            on = posterior.on[r.design.e]  # draws of coefficients have a spread where no draw had the factor on
            factors[r.design.e] = np.where(on, mean, 0.0)[:, order], np.where(on, var, 0.0)[:, order]
        else:
            biases[r.design.layer] = mean[:, 0], var[:, 0]
    return factors, biases


def _effects(spec: Spec, posterior: Posterior, data: Collection, order: NDArray[np.intp]) -> dict[str, Effects]:
    """The coefficients of every set with covariates."""
    effects: dict[str, Effects] = {}
    for r in posterior.regressions:
        name, mean, std = spec.schema.entities[r.design.e], r.q.mean, np.sqrt(r.q.var)
        cov = covariances(r, precision_of(posterior, r.design))
        if r.design.layer is None:
            known = data.entities[name].covariates
            assert known is not None  # there is a design
            none = np.zeros((len(mean), len(spec.biased)))
            effects[name] = Effects(
                known.features, known.group.astype(np.int64), known.center, known.scale,
                np.ascontiguousarray(mean[:, order]), np.ascontiguousarray(std[:, order]), none, none.copy(),
                None if cov is None else cov[order],
                None if cov is None else np.zeros((len(spec.biased), *cov.shape[1:])),
            )  # fmt: skip
        else:
            effects[name].bias_mean[:, r.design.layer] = mean[:, 0]
            effects[name].bias_std[:, r.design.layer] = std[:, 0]
            if cov is not None:
                bias_cov = effects[name].bias_cov
                assert bias_cov is not None  # the factors come first, and have the same features
                bias_cov[r.design.layer] = cov[0]
    return effects


def _order(there: NDArray[np.bool_], explained: Explained, n_strong: int) -> NDArray[np.intp]:
    """Shared first, private last; within a role, the factor that explains most first. Weak ones after all others."""
    weak, reach = np.arange(there.shape[1]) >= n_strong, there.sum(axis=0)
    role = np.where(reach == len(there), 0, np.where(reach > 1, 1, 2))
    first = np.where(there.any(axis=0), there.argmax(axis=0), 0)
    weight = explained.factors.sum(axis=0)
    return np.lexsort((-weight, np.where(role == 2, first, 0), role, weak))


def _bias_priors(spec: Spec, posterior: Posterior) -> NDArray[np.float64]:
    """B ~ N(⟨μ⟩, σ² + Var μ) for an entity without data; zero where the layer has no biases."""
    biased = spec.has_bias
    var = posterior.bias.scale + posterior.bias.var
    return np.stack([np.where(biased, posterior.bias.mean, 0.0), np.where(biased & (not spec.point), var, 0.0)])


def _biases(
    spec: Spec,
    state: State,
    prior: NDArray[np.float64],
    told: dict[int, tuple[Floats, Floats]],
    links: NDArray[np.float64],
) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """Mean and variance of every layer; without cells, what covariates and the other biases say of an entity.

    How biases go together is written into `links`.
    """
    mean, var = [*state.bias_mean], [*state.bias_var]
    for of_set in spec.layers:
        fitted = [layer for layer in of_set if spec.has_bias[layer] and not spec.point]
        for group in [[layer] for layer in of_set if layer not in fitted] + [fitted] * bool(fitted):
            away, wide = (_columns([told.get(n, (0.0, 0.0))[part] + 0.0 * mean[n] for n in group]) for part in (0, 1))
            seen = np.stack([spec.in_layer[layer] for layer in group], axis=1)
            known = Layers(
                _columns([mean[n] for n in group]), _columns([var[n] for n in group]), seen, prior[0, group] + away,
                prior[1, group],
            )  # fmt: skip
            sigma = links[np.ix_(group, group)] = joint(known)
            found, found_var = fill(known, sigma)
            found_var += np.where(seen, 0.0, wide)
            for layer, b, b_var in zip(group, found.T, found_var.T, strict=True):
                mean[layer], var[layer] = b.astype(mean[layer].dtype), b_var.astype(var[layer].dtype)
    return mean, var


def _columns(arrays: list[NDArray[Any]]) -> NDArray[np.float64]:
    return np.stack(arrays, axis=1).astype(np.float64)


def _activity(mean: list[Floats], total: NDArray[np.float64], on: NDArray[np.bool_]) -> NDArray[np.float64]:
    squares = np.stack([(m.astype(np.float64) ** 2).sum(axis=0) for m in mean])
    return np.asarray(np.divide(squares, total, out=np.zeros_like(total), where=on & (total > 0)))
