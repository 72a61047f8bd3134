"""From AnnData and MuData to views: a matrix per modality, the names of its rows and columns, what its values say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from gcmf.errors import DataError, OptionError, did_you_mean
from gcmf.likelihoods.counts import residuals

if TYPE_CHECKING:
    from numpy.typing import NDArray

OBSERVATIONS = "obs"
"""The entity set that all views share."""
ALONE = "X"
"""The view that a single AnnData makes."""

PerView = str | Mapping[str, str | None] | None
"""One name for all views, or one for each."""


@dataclass(frozen=True, eq=False)
class View:
    """One modality: the cells of the observations and features that are used."""

    name: str
    x: Any
    """Dense array or scipy sparse matrix, observations × features."""
    obs: pd.Index[Any]
    var: pd.Index[Any]
    at_var: NDArray[np.intp]
    """Where the features stand in the modality."""


@dataclass(frozen=True, eq=False)
class Views:
    """All modalities of one object."""

    views: tuple[View, ...]
    obs: pd.Index[Any]
    """The observations that are used, in the order of the object."""
    at_obs: NDArray[np.intp]
    """Where they stand in the object."""


def modalities(data: Any) -> dict[str, Any]:
    """Return the AnnData of each modality by name; refuse what is neither AnnData nor MuData."""
    if hasattr(data, "mod"):
        if getattr(data, "axis", 0) != 0:
            msg = (
                f"The modalities of this MuData share axis {data.axis}; they must share their observations (axis 0)."
                " Use gcmf.GCMF with a Collection for anything else."
            )
            raise DataError(msg)
        mods = dict(data.mod)
    elif hasattr(data, "obs_names") and hasattr(data, "X"):
        mods = {ALONE: data}
    else:
        msg = f"gcmf.omics takes a MuData or an AnnData. Got {type(data).__name__} instead."
        raise DataError(msg)
    if not mods:
        msg = "This MuData has no modality; there is nothing to fit."
        raise DataError(msg)
    if OBSERVATIONS in mods:
        msg = f"A modality is named {OBSERVATIONS!r}, which is what the observations are called here; rename it."
        raise DataError(msg)
    return mods


def read_views(data: Any, *, layer: PerView = None, use_var: PerView = None, use_obs: str | None = None) -> Views:
    """Read every modality of a MuData, or the one of an AnnData, backed ones too."""
    mods = modalities(data)
    layers, columns = per_view("layer", layer, mods), per_view("use_var", use_var, mods)
    if isinstance(use_var, str) and not any(use_var in mod.var.columns for mod in mods.values()):
        msg = f"use_var={use_var!r} is a column of no modality's .var; leave it out to use all features."
        raise DataError(msg)
    kept = _observations(data, mods, use_obs)
    views = []
    for name, mod in mods.items():
        at = np.flatnonzero(mod.obs_names.isin(data.obs_names[kept]))
        at_var = _features(name, mod, columns[name], strict=isinstance(use_var, Mapping))
        x = _matrix(name, mod, layers[name])[at][:, at_var]
        views.append(View(name, x, mod.obs_names[at], mod.var_names[at_var], at_var))
    return Views(tuple(views), data.obs_names[kept], kept)


def per_view(option: str, given: PerView, names: Mapping[str, object]) -> dict[str, str | None]:
    """Return what an option says of each view; refuse views that do not exist."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(names, given)
    unknown = [name for name in given if name not in names]
    if unknown:
        known = ", ".join(map(repr, names))
        msg = f"{option}= names the view {unknown[0]!r}; there are {known}.{did_you_mean(unknown[0], names)}"
        raise OptionError(msg)
    return {name: given.get(name) for name in names}


def _observations(data: Any, mods: Mapping[str, Any], use_obs: str | None) -> NDArray[np.intp]:
    """Where the observations stand that are used."""
    names: pd.Index[Any] = data.obs_names
    if use_obs is None or use_obs == "union":
        return np.arange(len(names))
    if use_obs == "intersection":
        kept = np.all([names.isin(mod.obs_names) for mod in mods.values()], axis=0)
    elif use_obs in data.obs.columns:
        kept = _flags(data.obs[use_obs], f"use_obs={use_obs!r}")
    else:
        choices = ["union", "intersection", *map(str, data.obs.columns)]
        msg = (
            f"use_obs={use_obs!r} is neither 'union' nor 'intersection' nor a boolean column of .obs."
            f"{did_you_mean(use_obs, choices)}"
        )
        raise OptionError(msg)
    if not kept.any():
        msg = f"use_obs={use_obs!r} leaves no observation."
        raise DataError(msg)
    return np.flatnonzero(kept)


def _features(name: str, mod: Any, column: str | None, *, strict: bool) -> NDArray[np.intp]:
    """Where the features stand that are used: all, or those that a boolean column of .var marks."""
    if column is not None and column not in mod.var.columns and strict:
        hint = did_you_mean(column, map(str, mod.var.columns))
        msg = f"use_var={column!r} is not a column of .var of view {name!r}.{hint}"
        raise DataError(msg)
    if column is None or column not in mod.var.columns:
        return np.arange(mod.n_vars)
    kept = _flags(mod.var[column], f"use_var={column!r} of view {name!r}")
    if not kept.any():
        msg = f"use_var={column!r} leaves no feature of view {name!r}."
        raise DataError(msg)
    return np.flatnonzero(kept)


def _flags(column: pd.Series[Any], what: str) -> NDArray[np.bool_]:
    """Return a column of booleans as an array; missing ones, which MuData's joins leave, are False."""
    try:
        return pd.array(column.to_numpy(dtype=object), dtype="boolean").fillna(False).to_numpy(dtype=np.bool_)  # noqa: FBT003 - pandas' signature
    except (TypeError, ValueError) as error:
        msg = f"{what} must be a column of booleans; it holds {column.dtype}."
        raise DataError(msg) from error


def _matrix(name: str, mod: Any, layer: str | None) -> Any:
    """Return X or a layer, in memory."""
    if layer is not None and layer not in mod.layers:
        known = ", ".join(map(repr, mod.layers)) or "none"
        msg = f"View {name!r} has no layer {layer!r}; there are: {known}.{did_you_mean(layer, mod.layers)}"
        raise DataError(msg)
    x = mod.X if layer is None else mod.layers[layer]
    if x is None:
        msg = f"View {name!r} has no X; name a layer with layer=."
        raise DataError(msg)
    if hasattr(x, "to_memory"):  # sparse, in a file
        x = x.to_memory()
    elif hasattr(x, "compute"):  # dask
        x = x.compute()
    return x.tocsr() if sparse.issparse(x) else np.asarray(x[()] if hasattr(x, "id") else x)


# --- what the values of a view say ---------------------------------------------------------------------------


def guess_likelihood(x: Any) -> str:
    """Return "bernoulli" for 0/1, "gaussian" for what is no count, and for counts what suits how they vary."""
    values = x.data if sparse.issparse(x) else np.asarray(x)
    if values.dtype.kind == "b":
        return "bernoulli"
    seen = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if not seen.size or seen.min() < 0:
        return "gaussian"
    if seen.max() <= 1 and ((seen == 0) | (seen == 1)).all():
        return "bernoulli"
    counts = np.isfinite(seen.max()) and bool((seen == np.floor(seen)).all())
    return residuals(x).likelihood if counts else "gaussian"


def feature_deviation(x: Any, *, blanks: str) -> NDArray[np.float64]:
    """Standard deviation of each feature's observed cells, and 1 for a feature that does not vary, (p,)."""
    if sparse.issparse(x):
        cells = x.tocsc().astype(np.float64)
        listed = np.diff(cells.indptr)
        n = np.full(x.shape[1], x.shape[0]) if blanks == "zero" else listed
        mean = _ratio(np.asarray(cells.sum(axis=0)).ravel(), n)
        cells.data = (cells.data - np.repeat(mean, listed)) ** 2
        squares = np.asarray(cells.sum(axis=0)).ravel() + (n - listed) * mean**2
    else:
        dense = np.asarray(x, dtype=np.float64)
        n = (~np.isnan(dense)).sum(axis=0)
        mean = _ratio(np.nansum(dense, axis=0), n)
        squares = np.nansum((dense - mean) ** 2, axis=0)
    deviation = np.sqrt(_ratio(squares, n))
    # What is left of a constant column is rounding.
    return np.where(deviation > 1e-7 * np.abs(mean), deviation, 1.0)


def divide_columns(x: Any, deviation: NDArray[np.float64]) -> Any:
    """Return x with every column divided by its own number; what is sparse stays sparse."""
    if sparse.issparse(x):
        return (x @ sparse.diags_array(1.0 / deviation)).tocsr()
    return np.asarray(x, dtype=np.float64) / deviation


def _ratio(total: NDArray[np.float64], n: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.divide(total, n, out=np.zeros(len(total)), where=n > 0))
