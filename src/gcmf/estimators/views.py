"""What PCA, CCA and GFA have in common: samples seen in one or several tables of real numbers."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from gcmf import storage
from gcmf.data.collection import Collection
from gcmf.data.relation import Relation
from gcmf.errors import ConvergenceWarning, DataError
from gcmf.fit import fit
from gcmf.likelihoods import Gaussian
from gcmf.model.foldin import Partners, fold_in, log_likelihood
from gcmf.model.structure import roles
from gcmf.options import FitOptions, as_generator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from gcmf.model.fitted import Fitted
    from gcmf.options import BiasSides, RandomState
    from gcmf.outcome import Fit, Status

    Floats = NDArray[np.float64]

#: The models of these names have one noise of a table.
ONE_NOISE = Gaussian(noise="relation")
#: Variation of a feature below this fraction of its size is rounding: the feature counts as constant.
ROUNDING = 1e-13


# scikit-learn has no types: mypy sees Any in place of its classes.
@dataclass(kw_only=True, eq=False, repr=False)
class ViewsEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the special cases: each view, samples by features, is a Gaussian relation of the same samples.

    The feature intercepts start from the means of the observed cells, which are taken off beforehand: the
    scale of a fit is then that of the variation, however large the offsets are.
    """

    n_factors: int | Literal["auto"] = field(default=10, kw_only=False)
    max_iter: int = 1000
    tol: float = 1e-6
    n_init: int = 1
    random_state: RandomState = None
    dtype: str = "float64"
    n_threads: int | None = None

    # --- fit ------------------------------------------------------------------------------------------------

    def _fit_views(self, tables: Mapping[str, Floats], **options: Any) -> tuple[Fit, Fitted, dict[str, Any]]:
        """Fit tables with the same rows; return also what every special case holds, in the user's units."""
        bias: dict[str, BiasSides] = dict.fromkeys(tables, "cols")
        chosen = self._options(bias=bias, refined=False, **options)
        # More factors than the rank can be would only be switched off one by one.
        rank = min(len(next(iter(tables.values()))), sum(x.shape[1] for x in tables.values()))
        if chosen.n_factors != "auto":
            chosen = replace(chosen, n_factors=min(chosen.n_factors, rank))
        means = {name: _observed_mean(name, x) for name, x in tables.items()}
        cells = {name: _centered(x, means[name]) for name, x in tables.items()}
        data = Collection([Relation(name, "sample", f"features of {name}", x, ONE_NOISE) for name, x in cells.items()])
        result = fit(data, chosen, as_generator(self.random_state), ())
        if result.trouble:
            warnings.warn(f"{type(self).__name__}: {result.trouble}", ConvergenceWarning, stacklevel=3)
        fitted = result.summarize(data)
        return result, fitted, _in_units(result, fitted, list(means.values()))

    def _options(self, **more: Any) -> FitOptions:
        return FitOptions.of(self, **more)

    def _take(
        self, arrays: dict[str, Any], views: list[dict[str, Any]], trace: Sequence[float], status: Status
    ) -> None:
        """Become what was fitted, or what a file holds: arrays and views as gcmf.storage.layout describes them."""
        self._arrays, self._views = arrays, views
        self.status_ = status
        self.elbo_trace_ = np.array(trace)
        self.n_iter_ = len(trace)
        self.n_factors_active_ = arrays["mean"].shape[1]
        self._show()

    def _show(self) -> None:
        """Set the attributes that users read."""
        raise NotImplementedError

    @property
    def _n_features_out(self) -> int:
        # Only factors that the data call for: a fit that finds none transforms to (n, 0) and reconstructs the
        # means. A column of zeros instead would let pipelines run on, and hide that there is nothing to see.
        return int(self.n_factors_active_)

    # --- use ------------------------------------------------------------------------------------------------

    def _scores(self, x: Floats) -> Floats:
        """Factors of rows that have all views side by side, (n, D) to (n, K)."""
        return fold_in(partners_of(self._arrays), x - self._arrays["intercepts"])

    def _mean_log_likelihood(self, x: Floats) -> float:
        """log p(cells) / number of cells of rows that have all views side by side, (n, D)."""
        n = int((~np.isnan(x)).sum())
        if not n:
            msg = f"{type(self).__name__}.score needs an observed cell, and all of the {x.size} given are NaN."
            raise DataError(msg)
        return float(log_likelihood(partners_of(self._arrays), x - self._arrays["intercepts"]).sum() / n)

    def _reconstruction(self, scores: Any) -> Floats:
        """All views side by side, (n, K) to (n, D)."""
        check_is_fitted(self)
        z = np.asarray(scores, dtype=np.float64)
        if z.ndim != 2 or z.shape[1] != self._n_features_out:
            msg = (
                f"inverse_transform takes what transform returns, (n_samples, {self._n_features_out})"
                f" factors. Got an array of shape {z.shape} instead."
            )
            raise DataError(msg)
        return np.asarray(z @ self._arrays["mean"].T + self._arrays["intercepts"])

    # --- store ----------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the model to one file that `gcmf.load` reads without the training data."""
        storage.save(self, path)

    def _stored(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {"views": self._views, "fitted": self._arrays}

    def _restore(self, document: Mapping[str, Any], status: Status) -> None:
        self._take(document["fitted"], document["views"], document["trace"], status)


class MultiViewEstimator(ViewsEstimator):
    """Base of GFA and CCA: several tables, samples of unit variance, relevance per view and factor."""

    def _fit_tables(self, tables: Mapping[str, Any]) -> None:
        """Fit tables by name; rows of NaN are samples that a view does not have."""
        features = {name: _column_names(x) for name, x in tables.items()}
        shared_index(tables)
        read = {name: _as_table(name, x, least=2) for name, x in tables.items()}
        _check_lengths(read)
        result, fitted, arrays = self._fit_views(read, sharing="group", unit_variance=("sample",))
        arrays |= {"activity": fitted.activity[[c for _, c in fitted.ends]], "on": fitted.on}
        views = [described_view(name, x.shape[1], features[name]) for name, x in read.items()]
        self._take(arrays, views, result.trace, result.status)

    def _show(self) -> None:
        self.view_names_ = tuple(view["name"] for view in self._views)
        self.n_features_in_ = len(self._arrays["mean"])
        if all("features" in view for view in self._views):
            self.feature_names_in_ = [np.array(view["features"], dtype=object) for view in self._views]
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.components_ = [loadings.copy() for loadings in self._by_view(self._arrays["mean"].T)]
        self.mean_ = [mean.copy() for mean in self._by_view(self._arrays["intercepts"])]
        self.noise_variance_ = self._arrays["noise_variance"].copy()
        self.explained_variance_ratio_ = self._arrays["explained"].copy()

    def _transform_tables(self, tables: Sequence[Any]) -> Floats | pd.DataFrame:
        """Fold in rows of all views, of which some may be None."""
        x, index = self._side_by_side(tables)
        scores = self._scores(x)
        # scikit-learn looks for row ids on the first argument only, which is a list here or may be None.
        return pd.DataFrame(scores, index=index) if index is not None and self._wants_pandas() else scores

    def _side_by_side(self, tables: Sequence[Any]) -> tuple[Floats, pd.Index[Any] | None]:
        """Rows of all views, NaN where one is None, (n, D), and their ids where a data frame has them."""
        check_is_fitted(self)
        if len(tables) != len(self.view_names_) or all(x is None for x in tables):
            n_missing = sum(x is None for x in tables)
            msg = (
                f"{type(self).__name__} was fitted to {len(self.view_names_)} views and takes as many here,"
                f" not all of them None. Got {len(tables)}, of which {n_missing} are None."
            )
            raise DataError(msg)
        named = dict(zip(self.view_names_, tables, strict=True))
        index = shared_index(named)
        arrays = {name: self._known_table(name, x) for name, x in named.items() if x is not None}
        n = _check_lengths(arrays)
        blanks = {view["name"]: np.full((n, view["width"]), np.nan) for view in self._views}
        return np.hstack(list({**blanks, **arrays}.values())), index

    def structure(self) -> pd.DataFrame:
        """Return a row per factor: its activity in every view, its role, and the names of the views it is in.

        Activity is the share of the factor's second moment in the view's loadings that the data determine, in
        [0, 1], and exactly 0 where the factor is switched off. Role: "shared" by all views, "private" to one,
        or "partial".
        """
        check_is_fitted(self)
        names = list(self.view_names_)
        table = pd.DataFrame(self._arrays["activity"].T, index=self.get_feature_names_out(), columns=names)
        # The samples are the first entity set, and the features of each view one more.
        table["role"], reached = roles(self._arrays["on"][0] & self._arrays["on"][1:])
        table["views"] = [tuple(names[v] for v in views) for views in reached]
        return table

    def _by_view(self, x: Floats) -> list[Floats]:
        """Cut what lies side by side along the last axis."""
        return np.split(x, np.cumsum([view["width"] for view in self._views])[:-1], axis=-1)

    def _known_table(self, name: str, x: Any) -> Floats:
        """Read a table that must have the features of the fitted view."""
        view = self._views[self.view_names_.index(name)]
        table, names, fitted = _as_table(name, x, least=1), _column_names(x), view.get("features")
        if table.shape[1] != view["width"]:
            msg = f"View {name!r} was fitted with {view['width']} features. Got {table.shape[1]} instead."
            raise DataError(msg)
        if names and fitted and names != fitted:
            n = next(n for n, pair in enumerate(zip(names, fitted, strict=True)) if pair[0] != pair[1])
            msg = (
                f"View {name!r} must have the features it was fitted with, in the same order: feature {n} was"
                f" {fitted[n]!r}. Got {names[n]!r} instead."
            )
            raise DataError(msg)
        return table

    def _wants_pandas(self) -> bool:
        chosen = getattr(self, "_sklearn_output_config", {})
        return bool(chosen.get("transform", get_config()["transform_output"]) == "pandas")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.two_d_array = False
        return tags


def shared_index(tables: Mapping[str, Any]) -> pd.Index[Any] | None:
    """Return the row ids that pandas tables carry, or None; tables that disagree are refused."""
    indexes = {name: x.index for name, x in tables.items() if isinstance(x, (pd.DataFrame, pd.Series))}
    if not indexes:
        return None
    first, *others = indexes
    for name in others:
        if not indexes[name].equals(indexes[first]):
            msg = (
                f"The views are matched row by row, but the data frames of {first!r} and {name!r} have"
                " different indexes. Reindex them to the same samples (rows of NaN are allowed), or use"
                " gcmf.GCMF with a Collection, which matches samples by id."
            )
            raise DataError(msg)
    return indexes[first]


def _as_table(name: str, x: Any, *, least: int) -> Floats:
    with refused_as_data():
        table: Floats = check_array(
            x, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=least, input_name=f"view {name!r}"
        )
    return table


@contextmanager
def refused_as_data() -> Iterator[None]:
    """Make what scikit-learn refuses, in its own words, an error of this library (which is a ValueError too)."""
    try:
        yield
    except ValueError as error:
        raise DataError(str(error)) from error


def _column_names(x: Any) -> list[str]:
    """Names of the features of a data frame, if they are names."""
    names = list(getattr(x, "columns", ()))
    return names if all(isinstance(name, str) for name in names) else []


def _check_lengths(arrays: Mapping[str, Floats]) -> int:
    lengths = {name: len(x) for name, x in arrays.items()}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name!r} has {n}" for name, n in lengths.items())
        msg = (
            f"All views must have the same samples as rows, but {sizes}. Give a sample that a view lacks as a"
            " row of NaN, or use gcmf.GCMF with a Collection, which matches samples by id."
        )
        raise DataError(msg)
    return next(iter(lengths.values()))


def _observed_mean(name: str, x: Floats) -> Floats:
    """Mean of each column's observed cells; where there are none, the mean of the other columns' means.

    That is what the model itself expects of a feature without data: its prior is made of the other features.
    """
    n = (~np.isnan(x)).sum(axis=0)
    if not n.any():
        msg = f"{name!r} has no observed value: all of its {x.size} cells are NaN. Leave it out."
        raise DataError(msg)
    mean = np.nansum(x, axis=0) / np.maximum(n, 1)
    return np.asarray(np.where(n > 0, mean, mean[n > 0].mean()))


def _centered(x: Floats, mean: Floats) -> Floats:
    """Take the means off; what is left of a constant column is exactly zero."""
    rest = x - mean
    return np.where(np.abs(rest) <= ROUNDING * np.abs(mean), 0.0, rest)


def _signs(loadings: Floats) -> Floats:
    """Return +1 or -1 per factor, such that its largest loading becomes positive."""
    largest = loadings[np.abs(loadings).argmax(axis=0), np.arange(loadings.shape[1])]
    return np.where(largest < 0, -1.0, 1.0)


def _in_units(result: Fit, fitted: Fitted, means: Sequence[Floats]) -> dict[str, Any]:
    """Return loadings, intercepts and noise of all features side by side in the user's units, and shares explained."""
    cols, scale, widths = [c for _, c in fitted.ends], fitted.scale, [len(mean) for mean in means]
    per_feature = np.repeat(scale, widths)[:, None]
    loadings = np.concatenate([fitted.mean[c] for c in cols]).astype(np.float64)
    variances = np.concatenate([fitted.var[c] for c in cols]).astype(np.float64)
    seen = np.concatenate([result.spec.observed[c] for c in cols])
    biases = [fitted.center[m] + scale[m] * fitted.bias_mean[2 * m + 1] for m in range(len(cols))]
    return {
        "mean": loadings * _signs(loadings) * per_feature,
        # A feature that was never observed has no loadings, and says nothing of a row that has it.
        "var": variances * per_feature**2 * seen[:, None],
        "weight": np.repeat(_precisions(result) / scale**2, widths),
        "precision": 1.0 / fitted.prior_var[fitted.schema.entity_index("sample")],
        "intercepts": np.concatenate([mean + bias for mean, bias in zip(means, biases, strict=True)]),
        "noise_variance": fitted.noise * scale**2,
        "explained": fitted.explained.factors,
    }


def partners_of(arrays: Mapping[str, Floats]) -> Partners:
    """Return what new rows meet."""
    return Partners(arrays["mean"], arrays["var"], arrays["weight"], arrays["precision"])


def described_view(name: str, width: int, features: list[str]) -> dict[str, Any]:
    """Return a view as a file describes it."""
    return {"name": name, "width": width, **({"features": features} if features else {})}


def _precisions(result: Fit) -> Floats:
    """⟨τ⟩ of each view, (M,)."""
    pairs = zip(result.spec.likelihoods, result.posterior.parameters, strict=True)
    return np.array([-2.0 * likelihood.slope(p) for likelihood, p in pairs])
