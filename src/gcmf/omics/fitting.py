"""Fit the modalities of an AnnData or MuData and write the answer into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from scipy import sparse

from gcmf.data.adapters import read
from gcmf.data.collection import Collection
from gcmf.data.raw import Request
from gcmf.data.relation import Relation
from gcmf.data.schema import likelihood_name
from gcmf.data.units import Units
from gcmf.data.vocabulary import Vocabulary
from gcmf.errors import DataError, OptionError, did_you_mean
from gcmf.estimators.gcmf import GCMF
from gcmf.omics.results import write_results
from gcmf.omics.views import (
    OBSERVATIONS,
    PerView,
    View,
    Views,
    divide_columns,
    feature_deviation,
    guess_likelihood,
    modalities,
    per_view,
    read_views,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.raw import RawCells
    from gcmf.likelihoods import Likelihood

Likelihoods = str | Mapping[str, "str | Likelihood"] | None
Augment = Mapping[tuple[str, str], Any] | Iterable[Relation] | None


def fit(  # noqa: PLR0913 - one name for each thing that users differ in
    mdata: Any,
    n_factors: int | Literal["auto"] = "auto",
    *,
    augment: Augment = None,
    layer: PerView = None,
    use_var: PerView = None,
    use_obs: str | None = None,
    likelihoods: Likelihoods = None,
    blanks: PerView = "zero",
    standardize: bool | Iterable[str] = False,
    bias: Mapping[str, Any] | None = None,
    random_state: int | np.random.Generator | None = None,
    **options: Any,
) -> GCMF:
    """Fit view_v = intercept_v + factors · weights_vᵀ to all modalities at once, and write the answer into `mdata`.

    Every modality is a relation between the observations, entity set "obs", and its features, an entity set
    with the name of the modality ("X" for an AnnData). Observations are matched by name; one that a modality
    lacks is simply unobserved there, and NaN is a missing cell.

    Parameters
    ----------
    mdata
        MuData or AnnData, in memory or backed.
    n_factors
        As many as pay for themselves ("auto"), or a cap; superfluous ones are switched off.
    augment
        Relations between features: {("rna", "atac"): matrix} with the features of the two modalities in
        their order (blanks of a sparse matrix are zeros), such as `genomic_proximity` makes, or a list of
        `Relation` whose ids are names of features. {("rna", "rna"): matrix} is symmetric if the matrix is.
    layer
        The layer to fit instead of X, for all modalities or {modality: layer}.
    use_var
        A boolean column of `.var` that marks the features to use, such as "highly_variable". Modalities
        without the column use all; {modality: column} insists on it.
    use_obs
        "union" (default) of the observations of all modalities, "intersection", or a boolean column of `.obs`.
    likelihoods
        One likelihood for all modalities, or {modality: likelihood}. Where none is given, 0/1 is
        "bernoulli", other whole numbers >= 0 are "poisson", or "negative_binomial" where they vary more than
        that, everything else is "gaussian".
    blanks
        Unstored cells of a sparse X are observed zeros ("zero"), as everywhere in scverse; {modality:
        "missing"} says that they were never observed.
    standardize
        True, or the modalities whose Gaussian features are divided by their standard deviation first.
        By default they are not, as in MOFA2: variable features count for more. Views need no scaling: each
        is scaled as a whole, and has its own noise.
    bias
        Biases by modality or relation where they should differ from the intercepts of the features
        ("cols"), such as {"rna": True} for counts whose depth differs between cells.
    random_state
        Seed (int), numpy Generator, or None.
    **options
        Further options of `gcmf.GCMF`, such as `max_iter`, `n_init` or `sharing`.

    Returns
    -------
    GCMF
        The fitted model. Beside it, `mdata` has

        - `obsm["X_gcmf"]`: factors of the observations, each with a mean square of 1;
        - `varm["gcmf"]`, here and in each modality: weights of the features, such that the predictor is
          intercept + X_gcmf · gcmfᵀ, for Gaussian views in the units of the data (and weak factors, which the
          model has and these arrays have not);
        - `uns["gcmf"]`: tables "structure" and "variance_explained", as the model has them, and "params", all of
          which h5ad and h5mu files hold.

        What was not used is NaN.

    Examples
    --------
    >>> import anndata, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> adata = anndata.AnnData(rng.normal(size=(30, 1)) @ rng.normal(size=(1, 8)) + 0.1 * rng.normal(size=(30, 8)))
    >>> model = fit(adata, 3, random_state=0)
    >>> adata.obsm["X_gcmf"].shape, adata.varm["gcmf"].shape
    ((30, 1), (8, 1))
    """
    mods = modalities(mdata)
    _check(mdata, options)
    views = read_views(mdata, layer=layer, use_var=use_var, use_obs=use_obs)
    kinds = _likelihoods(views, likelihoods)
    blank = {name: given or "zero" for name, given in per_view("blanks", blanks, mods).items()}
    deviations = _deviations(views, kinds, blank, wanted=standardize)
    relations = [_relation(v, kinds[v.name], blank[v.name], deviations.get(v.name)) for v in views.views]
    extra = _augmented(augment, views, mods)
    declared = {OBSERVATIONS: views.obs, **{view.name: view.var for view in views.views}}
    collection = Collection([*relations, *extra], declared)
    biases = {**dict.fromkeys(mods, "cols"), **(bias or {})}
    model = GCMF(n_factors, bias=biases, random_state=random_state, **options).fit(collection)
    params = _params(model, layer=layer, use_var=use_var, use_obs=use_obs or "union", blanks=blanks)
    write_results(mdata, mods, views, model, {**params, "standardized": deviations})
    return model


def _check(data: Any, options: Mapping[str, Any]) -> None:
    if getattr(data, "is_view", False):
        kind = type(data).__name__
        msg = f"This {kind} is a view of another, which the result cannot be written into; pass a .copy() of it."
        raise DataError(msg)
    known = set(GCMF().get_params())
    for name in options:
        if name not in known:
            msg = f"gcmf.omics.fit has no option {name!r}.{did_you_mean(name, known)}"
            raise OptionError(msg)


def _likelihoods(views: Views, given: Likelihoods) -> dict[str, str | Likelihood]:
    names = {view.name: None for view in views.views}
    chosen: Mapping[str, Any] = per_view("likelihoods", given, names)  # type: ignore[arg-type]  # objects pass through
    return {view.name: chosen[view.name] or guess_likelihood(view.x) for view in views.views}


def _deviations(
    views: Views, kinds: Mapping[str, Any], blanks: Mapping[str, str], *, wanted: bool | Iterable[str]
) -> dict[str, NDArray[np.float64]]:
    """What the features of each view are divided by where that is wanted."""
    gaussian = [view.name for view in views.views if likelihood_name(kinds[view.name]) == "gaussian"]
    names = (gaussian if wanted else []) if isinstance(wanted, bool) else list(wanted)
    for name in names:
        if name not in gaussian:
            msg = f"standardize= names {name!r}; the Gaussian views are {gaussian}.{did_you_mean(name, gaussian)}"
            raise OptionError(msg)
    return {v.name: feature_deviation(v.x, blanks=blanks[v.name]) for v in views.views if v.name in names}


def _relation(view: View, likelihood: str | Likelihood, blanks: str, deviation: NDArray[np.float64] | None) -> Relation:
    x = view.x if deviation is None else divide_columns(view.x, deviation)
    cells = _read_named(x, Request(view.name, OBSERVATIONS, view.name, blanks), rows=view.obs, cols=view.var)
    if deviation is not None:
        cells = replace(cells, units=Units(np.zeros(len(deviation)), deviation))
    return Relation(view.name, OBSERVATIONS, view.name, cells, likelihood)


def _read_named(x: Any, request: Request, *, rows: pd.Index[Any], cols: pd.Index[Any]) -> RawCells:
    """Read a matrix under the names of its rows and columns."""
    if sparse.issparse(x):
        return replace(read(x, request), row_ids=Vocabulary(rows), col_ids=Vocabulary(cols))
    return read(pd.DataFrame(x, index=rows, columns=cols), replace(request, blanks=None))


def _augmented(augment: Augment, views: Views, mods: Mapping[str, Any]) -> list[Relation]:
    """Relations between features, cut to the features that are used."""
    if augment is None:
        return []
    if not isinstance(augment, Mapping):
        relations = list(augment)
        for relation in relations:
            _check_ends(relation.name, (relation.rows, relation.cols), mods)
        return relations
    used = {view.name: view for view in views.views}
    relations = []
    for (a, b), matrix in augment.items():
        name = f"{a}-{b}"
        _check_ends(name, (a, b), mods)
        x = _cut(name, matrix, (mods[a], mods[b]), (used[a], used[b]))
        mirrored = _is_mirrored(x) if a == b else None
        x = (x + x.T) / 2 if mirrored and x.dtype.kind == "f" else x
        cells = _read_named(x, Request(name, a, b, "zero"), rows=used[a].var, cols=used[b].var)
        relations.append(Relation(name, a, b, cells, guess_likelihood(x), symmetric=mirrored))
    return relations


def _is_mirrored(x: Any) -> bool:
    """Whether a square matrix is the same as its transpose, but for rounding."""
    sizes = (abs(x - x.T), abs(x))
    off, size = (float(part.max() if sparse.issparse(part) else np.nanmax(part, initial=0.0)) for part in sizes)
    return off <= 1e-6 * size


def _cut(name: str, matrix: Any, mods: tuple[Any, Any], views: tuple[View, View]) -> Any:
    """The part of a feature × feature matrix that is used; a data frame is matched by name."""
    if isinstance(matrix, pd.DataFrame):
        return matrix.reindex(index=views[0].var, columns=views[1].var).to_numpy()
    expected = mods[0].n_vars, mods[1].n_vars
    if getattr(matrix, "shape", None) != expected:
        msg = (
            f"augment {name!r} must have a row and a column for every feature of the two modalities, shape {expected},"
            f" in their order. Got {getattr(matrix, 'shape', type(matrix).__name__)} instead."
        )
        raise DataError(msg)
    matrix = matrix.tocsr() if sparse.issparse(matrix) else matrix
    return matrix[views[0].at_var][:, views[1].at_var]


def _check_ends(name: str, ends: tuple[str, str], mods: Mapping[str, Any]) -> None:
    for end in ends:
        if end not in mods:
            known = ", ".join(map(repr, mods))
            msg = (
                f"augment {name!r} joins {ends[0]!r} and {ends[1]!r}, but the modalities are {known}."
                f"{did_you_mean(end, mods)}"
            )
            raise DataError(msg)


def _params(model: GCMF, **given: Any) -> dict[str, Any]:
    """What was asked for and how it went, in kinds that HDF5 files hold."""
    params = {
        name: {key: part for key, part in value.items() if part is not None} if isinstance(value, Mapping) else value
        for name, value in given.items()
        if value is not None
    }
    if isinstance(model.random_state, int):
        params["random_state"] = model.random_state
    return params | {
        "n_factors": model.n_factors,
        "likelihoods": {relation.name: relation.likelihood for relation in model.schema_.relations},
        "sharing": model.sharing,
        "n_iter": model.n_iter_,
        "elbo": model.elbo_,
        "status": model.status_.name,
    }
