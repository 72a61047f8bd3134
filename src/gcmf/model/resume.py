"""Where a fit goes on that starts from a fitted model: its factors, biases and all else, for the ids of other data.

Cells stay centered and scaled as they were, so that whatever did not change is where it was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.data.checks import strange_kind
from gcmf.engines.base import Problem, State
from gcmf.errors import DataError
from gcmf.gamma import Gamma
from gcmf.model.hyper import update_scale_prior
from gcmf.model.init import start
from gcmf.model.newcomers import swept_bias_var, swept_var, terms_of
from gcmf.model.posterior import BiasPrior, Moments, Posterior, RelationScales

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.collection import Collection
    from gcmf.model.fitted import Fitted
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]


def as_before(spec: Spec, problem: Problem, fitted: Fitted) -> tuple[Spec, Problem]:
    """Center, scale and offset of cells as a model has them, and scales of relations if it does."""
    of = _relations(spec, fitted)
    center, scale, offset = (a[of] for a in (fitted.center, fitted.scale, fitted.offset))
    spec, problem = _in_units(spec, problem, (center, scale, offset))
    return replace(spec, scaled=fitted.scales is not None), problem


def _in_units(spec: Spec, problem: Problem, units: tuple[Floats, Floats, Floats]) -> tuple[Spec, Problem]:
    center, scale, offset = units
    blocks = tuple(
        tuple(replace(b, center=float(center[b.relation]), scale=float(scale[b.relation]),
                      offset=float(offset[b.relation])) for b in blocks)
        for blocks in problem.blocks
    )  # fmt: skip
    return replace(spec, center=center, scale=scale, offset=offset), replace(problem, blocks=blocks)


def _relations(spec: Spec, fitted: Fitted) -> list[int]:
    """Which relation of the model each one of the data is; refuse other relations."""
    known = {relation: m for m, relation in enumerate(fitted.schema.relations)}
    given = spec.schema.relations
    if set(known) != set(given):
        strange = [str(r) for r in given if r not in known] + [str(r) for r in known if r not in given]
        msg = (
            "A fit can start from a model of the same relations, with the same sets, kinds of cells and directions."
            f" These are not in both: {'; '.join(strange)}. Fit without start=."
        )
        raise DataError(msg)
    return [known[relation] for relation in given]


def resumed(spec: Spec, fitted: Fitted, data: Collection, *, dtype: str) -> tuple[State, Posterior]:
    """State and posterior of a fit to data that goes on from a model.

    Entities that the model does not know start from their prior. Its moments are to be told by the engine.
    """
    terms, of = terms_of(fitted), _relations(spec, fitted)
    sets = [fitted.schema.entity_index(name) for name in spec.schema.entities]
    strange = (strange_kind(name, fitted.vocabularies[name], data.entities[name].ids, "the data")
               for name in spec.schema.entities)  # fmt: skip
    if faults := [fault for fault in strange if fault]:
        raise DataError(faults)
    on = fitted.on[sets]
    _, posterior = start(spec, on, dtype=dtype, rng=np.random.default_rng(0))
    layers = [2 * m + side for m in of for side in (0, 1)]
    at = [fitted.vocabularies[name].index(data.entities[name].ids) for name in spec.schema.entities]
    state = _state(spec, fitted, (sets, layers), at, dtype)
    precision = np.where(on & ~spec.unit_variance[:, None], terms.precision[sets], posterior.alpha.mean)
    known = terms.biased[layers] & spec.has_bias
    bias = BiasPrior(
        np.where(known, terms.bias_prior[0, layers], 0.0), posterior.bias.var,
        np.where(known, terms.bias_prior[1, layers], 1.0),
    )  # fmt: skip
    posterior = posterior._replace(
        alpha=Gamma(posterior.alpha.shape, posterior.alpha.shape / precision),
        parameters=tuple(terms.parameters[m].copy() for m in of), bias=bias, n_weak=fitted.n_weak,
        moments=Moments.of(state), scales=_scales(spec, fitted, of, posterior.scales),
    )  # fmt: skip
    return state, posterior


def _state(
    spec: Spec, fitted: Fitted, which: tuple[list[int], list[int]], at: list[NDArray[np.int64]], dtype: str
) -> State:
    sets, layers = which
    mean: list[NDArray[Any]] = []
    var: list[NDArray[Any]] = []
    for e, known in zip(sets, at, strict=True):
        seen = spec.observed[len(mean)][:, None]
        prior = np.where(fitted.on[e] & (not spec.point), fitted.prior_var[e], 0.0)
        mean.append(_taken(fitted.mean[e], known, np.zeros(len(prior)), seen, dtype))
        var.append(_taken(swept_var(fitted, e), known, prior, seen, dtype))
    bias_mean, bias_var = [], []
    for layer, old in enumerate(layers):
        known = at[spec.ends[layer // 2][layer % 2]]
        seen = spec.in_layer[layer] & spec.has_bias[layer]
        bias_mean.append(_taken(fitted.bias_mean[old], known, fitted.prior_bias[0, old], seen, dtype))
        bias_var.append(_taken(swept_bias_var(fitted, old), known, fitted.prior_bias[1, old], seen, dtype))
    precision = []
    for layer, old in enumerate(layers) if any(n is not None for n in spec.noise_cells) else ():
        known = at[spec.ends[layer // 2][layer % 2]]
        precision.append(np.ones(len(known)) if fitted.row_noise is None else fitted.row_noise.at(old, known))
    return State(mean, var, bias_mean, bias_var, precision)


def _taken(
    values: NDArray[Any], at: NDArray[np.int64], prior: NDArray[Any], seen: NDArray[np.bool_], dtype: str
) -> NDArray[Any]:
    """Values of those known, the prior of others, and zeros of who has no data."""
    known = (at >= 0).reshape(-1, *[1] * (values.ndim - 1))
    return np.where(seen, np.where(known, values[at], prior), 0.0).astype(dtype)


def _scales(spec: Spec, fitted: Fitted, of: list[int], made: RelationScales | None) -> RelationScales | None:
    if fitted.scales is None or made is None:
        return None
    old = fitted.scales
    scales = made._replace(mean=old.mean[of], var=old.var[of], on=old.on[of], mate=old.mate)
    return update_scale_prior(spec, scales)
