"""GFA: several tables with the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gcmf.errors import DataError, did_you_mean
from gcmf.estimators.views import MultiViewEstimator

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

Views = Sequence[Any] | Mapping[str, Any]


class GFA(MultiViewEstimator):
    """Group factor analysis: view_v = mean_v + scores · components_v + noise_v, with scores ~ N(0, 1).

    Every view has its own noise, and every factor is found to be shared by all views, by some, or private to
    one. Cells may be missing (NaN), and so may a whole view of a sample.

    Parameters
    ----------
    n_factors
        Factors to start from, at most; superfluous ones are switched off.
    max_iter, tol, n_init, random_state, dtype, n_threads
        As in `GCMF`.

    Attributes
    ----------
    components_ : list of ndarray (n_factors_active_, n_features of the view)
        Loadings in the units of the view, exactly 0 where a factor is switched off. Signs are such that the
        largest loading of a factor, measured in the standard deviations of the views, is positive.
    mean_ : list of ndarray (n_features of the view,)
        Intercepts; of a feature that was never observed, the mean of the others' in its view.
    noise_variance_ : ndarray (n_views,)
        Variance of what the factors leave over, in the units of the view, squared.
    explained_variance_ratio_ : ndarray (n_views, n_factors_active_)
        Share of each view's variance about the feature means that each factor explains by itself.
    view_names_ : tuple of str
        The keys of the mapping that was fitted, or "view1", "view2", …
    n_features_in_, feature_names_in_
        Features of all views together, and their names per view where every view is a data frame.
    n_factors_active_, n_iter_, status_, elbo_trace_
        How many factors there are, and how the fit went.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(60, 1))
    >>> views = [z @ rng.normal(size=(1, d)) + 0.3 * rng.normal(size=(60, d)) for d in (5, 6, 7)]
    >>> gfa = GFA(n_factors=4, random_state=0).fit(views)
    >>> gfa.structure()["role"].tolist()
    ['shared']
    >>> gfa.inverse_transform(gfa.transform([views[0], None, None]))[2].shape
    (60, 7)
    """

    def fit(self, X: Views, y: None = None) -> GFA:
        """Fit a list of tables with the same rows, or a mapping from names to them; infinity is refused."""
        del y
        self._fit_tables(_named(X))
        return self

    def transform(self, X: Views) -> NDArray[np.float64] | pd.DataFrame:
        """Return the factors of rows, new or old, (n, n_factors_active_).

        A view that is None (or not in the mapping), a row of NaN in it and a cell of NaN are all missing: the
        factors come from what is observed, and are 0, their prior mean, where nothing is.
        """
        return self._transform_tables(self._in_order(X))

    def inverse_transform(self, X: Any) -> list[NDArray[np.float64]]:
        """Return all views, in the order of fitting, that factors stand for."""
        return self._by_view(self._reconstruction(X))

    def score(self, X: Views, y: None = None) -> float:
        """Return log p(observed cells of all views) / their number: how well the model foretells samples.

        The factors of a sample are integrated out, not fitted to the cells that are judged, as in `PCA.score`: it is
        higher for the better model, not for the one with more factors. Views and cells may be missing as in
        `transform`. Densities are in the units of the data: compare models on the same tables.
        """
        del y
        return self._mean_log_likelihood(self._side_by_side(self._in_order(X))[0])

    def _in_order(self, X: Views) -> list[Any]:
        """Return the views in the order of fitting; None for one that a mapping does not have."""
        tables = _named(X)
        if not isinstance(X, Mapping) or not hasattr(self, "view_names_"):
            return list(tables.values())
        for name in tables:
            if name not in self.view_names_:
                known, hint = ", ".join(map(repr, self.view_names_)), did_you_mean(name, self.view_names_)
                msg = f"There is no view {name!r}; the model has {known}.{hint}"
                raise DataError(msg)
        return [tables.get(name) for name in self.view_names_]


def _named(views: Views) -> dict[str, Any]:
    """Return views by name; refuse what is not a collection of tables."""
    if isinstance(views, Mapping) and views and all(isinstance(name, str) for name in views):
        return dict(views)
    if isinstance(views, (list, tuple)) and len(views):
        return {f"view{v + 1}": view for v, view in enumerate(views)}
    shape = f" of shape {views.shape}" if hasattr(views, "shape") else ""
    msg = (
        "GFA takes a list of tables with the same rows, or a mapping from names to tables. Got "
        f"{type(views).__name__}{shape} instead. For a single table use gcmf.PCA."
    )
    raise DataError(msg)
