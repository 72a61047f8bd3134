"""Fit the modalities of an AnnData or MuData and write the answer into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

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
from gcmf.omics.values import divide_columns, feature_deviation, guess_likelihood
from gcmf.omics.views import OBSERVATIONS, PerView, View, Views, modalities, per_view, read_views

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.raw import RawCells
    from gcmf.data.schema import LikelihoodLike

Likelihoods = str | Mapping[str, "str | LikelihoodLike"] | None
Augment = Mapping[tuple[str, str], Any] | Iterable[Relation] | None


def fit(  # noqa: PLR0913 - one name for each thing that users differ in
    mdata: Any,  # noqa: ANN401 - AnnData or MuData, known by what they have
    n_factors: int = 15,
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
    **options: Any,  # noqa: ANN401 - those of GCMF
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
        Factors to start from; superfluous ones are switched off.
    augment
        Relations between features: {("rna", "atac"): matrix} with the features of the two modalities in
        their order (blanks of a sparse matrix are zeros), such as `genomic_proximity` makes, or a list of
        `Relation` whose ids are names of features.
    layer
        The layer to fit instead of X, for all modalities or {modality: layer}.
    use_var
        A boolean column of `.var` that marks the features to use, such as "highly_variable". Modalities
        without the column use all; {modality: column} insists on it.
    use_obs
        "union" (default) of the observations of all modalities, "intersection", or a boolean column of `.obs`.
    likelihoods
        One likelihood for all modalities, or {modality: likelihood}. Where none is given, 0/1 is
        "bernoulli", other whole numbers >= 0 are "poisson", everything else is "gaussian".
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
          intercept + X_gcmf · gcmfᵀ, for Gaussian views in the units of the data;
        - `uns["gcmf"]`: tables "structure" and "variance_explained" (shares of what the intercepts leave),
          and "params", all of which h5ad and h5mu files hold.

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
    _check_writable(mdata)
    _check_options(options)
    views = read_views(mdata, layer=layer, use_var=use_var, use_obs=use_obs)
    kinds = _likelihoods(views, likelihoods)
    blank = {name: given or "zero" for name, given in per_view("blanks", blanks, mods).items()}
    scaled, deviations = _standardized(views, kinds, blank, wanted=standardize)
    relations = [_relation(v, kinds[v.name], blank[v.name], deviations.get(v.name)) for v in scaled.views]
    extra = _augmented(augment, views, mods)
    declared = {OBSERVATIONS: views.obs, **{view.name: view.var for view in views.views}}
    collection = Collection([*relations, *extra], declared)
    biases = {**dict.fromkeys(mods, "cols"), **(bias or {})}
    model = GCMF(n_factors, bias=biases, random_state=random_state, **options).fit(collection)
    params = _params(model, layer=layer, use_var=use_var, use_obs=use_obs or "union", blanks=blanks)
    write_results(mdata, mods, views, model, {**params, "standardized": deviations})
    return model


def _check_writable(data: Any) -> None:  # noqa: ANN401
    if getattr(data, "is_view", False):
        kind = type(data).__name__
        msg = f"This {kind} is a view of another, which the result cannot be written into; pass a .copy() of it."
        raise DataError(msg)


def _check_options(options: Mapping[str, Any]) -> None:
    known = set(GCMF().get_params())
    for name in options:
        if name not in known:
            msg = f"gcmf.omics.fit has no option {name!r}.{did_you_mean(name, known)}"
            raise OptionError(msg)


def _likelihoods(views: Views, given: Likelihoods) -> dict[str, str | LikelihoodLike]:
    names = {view.name: None for view in views.views}
    chosen: Mapping[str, Any] = per_view("likelihoods", given, names)  # type: ignore[arg-type]  # objects pass through
    return {view.name: chosen[view.name] or guess_likelihood(view.x) for view in views.views}


def _standardized(
    views: Views, kinds: Mapping[str, Any], blanks: Mapping[str, str], *, wanted: bool | Iterable[str]
) -> tuple[Views, dict[str, NDArray[np.float64]]]:
    """Views with features of unit variance where that is wanted, and what they were divided by."""
    gaussian = [view.name for view in views.views if likelihood_name(kinds[view.name]) == "gaussian"]
    names = (gaussian if wanted else []) if isinstance(wanted, bool) else list(wanted)
    for name in names:
        if name not in gaussian:
            msg = f"standardize= names {name!r}; the Gaussian views are {gaussian}.{did_you_mean(name, gaussian)}"
            raise OptionError(msg)
    deviations = {v.name: feature_deviation(v.x, blanks=blanks[v.name]) for v in views.views if v.name in names}
    done = tuple(replace(view, x=divide_columns(view.x, deviations[view.name])) if view.name in names else view
                 for view in views.views)  # fmt: skip
    return replace(views, views=done), deviations


def _relation(
    view: View, likelihood: str | LikelihoodLike, blanks: str, deviation: NDArray[np.float64] | None
) -> Relation:
    block = _block(view.x, Request(view.name, OBSERVATIONS, view.name, blanks), rows=view.obs, cols=view.var)
    if deviation is not None:
        block = replace(block, units=Units(np.zeros(len(deviation)), deviation))
    return Relation(view.name, OBSERVATIONS, view.name, block, likelihood)


def _block(x: Any, request: Request, *, rows: pd.Index[Any], cols: pd.Index[Any]) -> RawCells:  # noqa: ANN401
    """Read a matrix under the names of its rows and columns."""
    if sparse.issparse(x):
        return replace(read(x, request), row_ids=Vocabulary(rows), col_ids=Vocabulary(cols))
    return read(pd.DataFrame(x, index=rows, columns=cols), replace(request, blanks=None))


def _augmented(augment: Augment, views: Views, mods: Mapping[str, Any]) -> list[Relation]:
    """Relations between features, cut to the features that are used."""
    if augment is None:
        return []
    if not isinstance(augment, Mapping):
        given = list(augment)
        for one in given:
            _check_ends(one.name, (one.rows, one.cols), mods)
        return given
    used = {view.name: view for view in views.views}
    made = []
    for (a, b), matrix in augment.items():
        name = f"{a}-{b}"
        _check_ends(name, (a, b), mods)
        x = _cut(name, matrix, (mods[a], mods[b]), (used[a], used[b]))
        block = _block(x, Request(name, a, b, "zero"), rows=used[a].var, cols=used[b].var)
        made.append(Relation(name, a, b, block, guess_likelihood(x)))
    return made


def _cut(name: str, matrix: Any, mods: tuple[Any, Any], views: tuple[View, View]) -> Any:  # noqa: ANN401
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


def _params(model: GCMF, **given: Any) -> dict[str, Any]:  # noqa: ANN401
    """What was asked for and how it went, in kinds that HDF5 files hold."""
    said = {name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()}
    kinds = {relation.name: relation.likelihood for relation in model.schema_.relations}
    told = {name: {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
            for name, value in said.items() if value is not None}  # fmt: skip
    if isinstance(model.random_state, int):
        told["random_state"] = model.random_state
    return told | {
        "n_factors": int(model.n_factors),
        "likelihoods": kinds,
        "sharing": model.sharing,
        "n_iter": model.n_iter_,
        "elbo": model.elbo_,
        "status": model.status_.name,
    }
