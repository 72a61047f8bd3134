"""A fitted model in the scale of multi-omics analysis, and where it is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gcmf.estimators.tables import explained_table, factor_table, structure_table
from gcmf.omics.views import OBSERVATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from gcmf.estimators.gcmf import GCMF
    from gcmf.omics.views import Views

    Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Loadings:
    """Predictor of one view = intercept + factors · weightsᵀ, for Gaussian views in the units of the data."""

    weights: Floats
    """(features, K)."""
    intercept: Floats
    """(features,)."""


def unit_factors(model: GCMF, samples: str = OBSERVATIONS) -> tuple[Floats, Floats]:
    """Factors of the samples with a mean square of 1 each, (n, K), and what they were divided by, (K,).

    How the size of a factor is split between samples and features is a convention; multi-omics analysis
    leaves it with the features. A factor that the samples do not have stays zero.
    """
    z = factor_table(model.fitted_, samples).to_numpy(dtype=np.float64)
    size = np.sqrt((z**2).mean(axis=0))
    size = np.where(size > 0, size, 1.0)
    return z / size, size


def loadings(model: GCMF, relation: str, size: Floats, samples: str = OBSERVATIONS) -> Loadings:
    """Weights and intercepts of one view that go with `unit_factors`."""
    f = model.fitted_
    m = [r.name for r in f.schema.relations].index(relation)
    schema = f.schema.relations[m]
    side, layer = (schema.cols, 2 * m + 1) if schema.rows == samples else (schema.rows, 2 * m)
    weights = f.mean[f.schema.entity_index(side)].astype(np.float64)
    if f.scales is not None:
        met = f.scales.mate if schema.symmetric is False else slice(None)
        weights = weights[:, met] * f.scales.mean[m]
    weights = weights[:, : f.n_factors] * size * f.scale[m]
    bias = f.bias_mean[layer].astype(np.float64)
    return Loadings(weights, f.center[m] + f.scale[m] * (f.offset[m] + bias))


def variance_table(model: GCMF) -> pd.DataFrame:
    """Relation × factor (+ "total"): the share explained of what the intercepts leave, for MOFA2, which counts so."""
    table = explained_table(model.fitted_)
    left = 1.0 - table["bias"]
    rest = table.drop(columns="bias")
    rest["total"] = rest["total"] - table["bias"]
    return rest.div(left.where(left > 0, np.inf), axis=0)


def write_results(data: Any, mods: Mapping[str, Any], views: Views, model: GCMF, params: dict[str, Any]) -> None:
    """Fill obsm, varm and uns; what was not used is NaN."""
    key = "gcmf"
    z, size = unit_factors(model)
    spread = {
        view.name: _spread(loadings(model, view.name, size).weights, view.at_var, mods[view.name].n_vars)
        for view in views.views
    }
    data.obsm[f"X_{key}"] = _spread(z, views.at_obs, data.n_obs)
    for name, weights in spread.items():
        mods[name].varm[key] = weights
    if hasattr(data, "mod"):
        whole = np.full((data.n_vars, z.shape[1]), np.nan)
        for name, weights in spread.items():
            # Positions count from 1; 0 is a feature that the modality does not have.
            at = np.asarray(data.varmap[name]).ravel().astype(np.int64)
            whole[at > 0] = weights[at[at > 0] - 1]
        data.varm[key] = whole
    structure = structure_table(model.fitted_)
    structure["relations"] = structure["relations"].map(", ".join)
    data.uns[key] = {"structure": structure, "variance_explained": explained_table(model.fitted_), "params": params}


def _spread(values: Floats, at: NDArray[np.intp], size: int) -> Floats:
    out = np.full((size, values.shape[1]), np.nan)
    out[at] = values
    return out
