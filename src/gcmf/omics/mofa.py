"""A model in the file format of MOFA2, for mofax and the plots of its R package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from gcmf.errors import MissingExtraError, StorageError, UnknownIdError, did_you_mean
from gcmf.estimators.asking import fitted_of
from gcmf.model.newcomers import terms_of
from gcmf.omics.results import loadings, unit_factors, variance_table
from gcmf.omics.views import OBSERVATIONS, PerView, divide_columns, read_views
from gcmf.storage.files import replacing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.estimators.gcmf import GCMF
    from gcmf.omics.results import Loadings

GROUP = "group1"
"""MOFA2's name for the samples where there is one group of them."""


def export_mofa(
    model: GCMF, path: str | Path, *, data: Any = None, layer: PerView = None, samples: str = OBSERVATIONS
) -> None:
    """Write factors, weights, intercepts and variance explained to an HDF5 file as MOFA2 lays it out.

    MOFA2 counts variance from the intercepts: what it calls explained is (total − bias)/(1 − bias) of
    `variance_explained()`, which counts from the mean of the view, and likewise for each factor.

    Every relation of the samples is a view; relations between features (`augment`) have no place in the
    format and are left out. Factors keep their order: F1 is MOFA's Factor1.

    Parameters
    ----------
    model
        A model of `gcmf.omics.fit`, or any `GCMF` in which all views share one entity set.
    path
        The file to write, usually `.hdf5`; an existing one is replaced once the new one is whole.
    data
        The MuData or AnnData that was fitted, if the file shall hold the data too, as plots of the data
        need. They are stored dense, NaN where nothing was observed, Gaussian views without their intercepts, as MOFA2
        stores them.
    layer
        The layer that was fitted, as for `fit`.
    samples
        The entity set that the views share.

    Raises
    ------
    MissingExtraError
        Without h5py.
    StorageError
        When there is no factor to write, or the file cannot be written.
    """
    try:
        import h5py  # noqa: PLC0415 - optional
    except ImportError as error:
        msg = "Writing a MOFA2 file needs h5py, which is not installed: pip install 'gcmf[omics]'."
        raise MissingExtraError(msg) from error
    views = _views(model, samples)
    if model.n_factors_active_ == 0:
        msg = "The model has no active factor, and a MOFA2 file needs one; there is nothing to export."
        raise StorageError(msg)
    z, size = unit_factors(model, samples)
    parts = {name: loadings(model, name, size, samples) for name in views}
    cells = {} if data is None else _cells(model, data, layer, parts, samples)
    # Nobody else knows the file before it has its name, and `replacing` has locked it.
    with replacing(Path(path), what="the MOFA2 file") as new, h5py.File(new, "w", locking=False) as file:
        _write_names(file, h5py.string_dtype("utf-8"), model, views, samples)
        file.create_dataset(f"expectations/Z/{GROUP}", data=z.T)
        for name, part in parts.items():
            file.create_dataset(f"expectations/W/{name}", data=part.weights.T)
            file.create_dataset(f"intercepts/{name}/{GROUP}", data=part.intercept)
        _write_options(file, model, views)
        explained = 100.0 * variance_table(model).loc[list(views)]  # MOFA2 counts in percent
        file.create_dataset(f"variance_explained/r2_total/{GROUP}", data=explained.pop("total").to_numpy())
        file.create_dataset(f"variance_explained/r2_per_factor/{GROUP}", data=explained.to_numpy())
        for name, x in cells.items():
            file.create_dataset(f"data/{name}/{GROUP}", data=x, compression="gzip")


def _views(model: GCMF, samples: str) -> dict[str, str]:
    """Entity set of the features of each view, by relation."""
    schema = fitted_of(model, "export_mofa").schema
    entities = schema.entities
    if samples not in entities:
        msg = f"No entity set is named {samples!r}; there are: {', '.join(entities)}.{did_you_mean(samples, entities)}"
        raise UnknownIdError(msg)
    ends = [(r.name, r.rows, r.cols) for r in schema.relations]
    return {name: cols if rows == samples else rows for name, rows, cols in ends if samples in (rows, cols)}


def _write_names(file: Any, text: Any, model: GCMF, views: dict[str, str], samples: str) -> None:
    ids = model.fitted_.vocabularies
    file.create_dataset("groups/groups", data=[GROUP], dtype=text)
    file.create_dataset("views/views", data=list(views), dtype=text)
    file.create_dataset(f"samples/{GROUP}", data=list(map(str, ids[samples].ids)), dtype=text)
    for name, features in views.items():
        file.create_dataset(f"features/{name}", data=list(map(str, ids[features].ids)), dtype=text)


def _write_options(file: Any, model: GCMF, views: dict[str, str]) -> None:
    kinds = {r.name: r.likelihood for r in model.schema_.relations}
    # MOFA2 knows one kind of counts.
    told = ["poisson" if kinds[name] == "negative_binomial" else kinds[name] for name in views]
    file.create_dataset("model_options/likelihoods", data=np.array(told, dtype="S"))
    # Relevance is per view and factor; there is no spike and slab on top of it.
    switches = {"ard_weights": True, "ard_factors": False, "spikeslab_weights": False, "spikeslab_factors": False}
    for name, value in switches.items():
        file.create_dataset(f"model_options/{name}", data=np.array(str(value), dtype="S"))
    file.create_dataset("training_opts", data=np.array([model.max_iter], dtype=np.float64))
    file.create_dataset("training_stats/elbo", data=model.elbo_trace_)
    file.create_dataset("training_stats/number_factors", data=np.array([model.n_factors_active_], dtype=np.float64))


def _cells(
    model: GCMF, data: Any, layer: PerView, parts: dict[str, Loadings], samples: str
) -> dict[str, NDArray[np.float64]]:
    """Every view as the model saw it, with all samples of the model; NaN where nothing was observed."""
    ids, kinds = model.fitted_.vocabularies, {r.name: r.likelihood for r in model.schema_.relations}
    filled = dict(zip(kinds, terms_of(model.fitted_).filled, strict=True))
    features = _views(model, samples)
    given = {view.name: view for view in read_views(data, layer=layer).views}
    absent = [name for name in features if name not in given]
    if absent:
        msg = f"The data have no view {absent[0]!r}, which the model was fitted to; pass what was fitted."
        raise StorageError(msg)
    stored = data.uns.get("gcmf", {}).get("params", {}).get("standardized", {})
    cells = {}
    for name, side in features.items():
        view = given[name]
        at = ids[side].ids.get_indexer(view.var)
        if set(ids[side].ids) - set(view.var):
            msg = f"The data lack features of view {name!r} that the model was fitted to; pass what was fitted."
            raise StorageError(msg)
        columns = np.empty(len(ids[side]), dtype=np.int64)
        columns[at[at >= 0]] = np.flatnonzero(at >= 0)
        x = view.x[:, columns]
        x = divide_columns(x, np.asarray(stored[name])) if name in stored else x
        dense = _dense(x, zeros=bool(filled[name]))
        rows = view.obs.get_indexer(ids[samples].ids)
        whole = np.where((rows >= 0)[:, None], dense[rows], np.nan)
        cells[name] = whole - parts[name].intercept if kinds[name] == "gaussian" else whole
    return cells


def _dense(x: Any, *, zeros: bool) -> NDArray[np.float64]:
    """A matrix as an array; what a sparse one does not store is zero, or was never observed."""
    if not sparse.issparse(x):
        return np.asarray(x, dtype=np.float64)
    stored = sparse.csr_array(x).tocoo()
    dense = np.full(stored.shape, 0.0 if zeros else np.nan)
    dense[stored.row, stored.col] = stored.data
    return dense
