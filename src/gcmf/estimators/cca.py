"""CCA: two tables with the same samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gcmf.errors import DataError
from gcmf.estimators.views import MultiViewEstimator

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd
    from numpy.typing import NDArray

    from gcmf.outcome import Status

    Floats = NDArray[np.float64]


class CCA(MultiViewEstimator):
    """Bayesian canonical correlation analysis: what two tables share, and what each has for itself.

    It is group factor analysis of two views: X = mean_X + scores · components_X + noise, and the same for Y.
    Shared factors carry the correlation between the tables, private ones explain the rest of each, so that
    `predict` gets Y from X through the shared factors alone.

    Parameters
    ----------
    n_factors
        Factors to start from, at most, shared and private together; superfluous ones are switched off.
    max_iter, tol, n_init, random_state, dtype, n_threads
        As in `GCMF`.

    Attributes
    ----------
    components_, mean_, noise_variance_, explained_variance_ratio_
        As in `GFA`, for X and Y.
    view_names_ : ("X", "Y")
        The names used by `structure`.
    n_features_in_, feature_names_in_, n_factors_active_, n_iter_, status_, elbo_trace_
        As in `GFA`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(80, 1))
    >>> X = z @ rng.normal(size=(1, 5)) + 0.3 * rng.normal(size=(80, 5))
    >>> Y = z @ rng.normal(size=(1, 4)) + 0.3 * rng.normal(size=(80, 4))
    >>> cca = CCA(n_factors=3, random_state=0).fit(X, Y)
    >>> cca.structure()["role"].tolist(), cca.predict(X).shape
    (['shared'], (80, 4))
    """

    def fit(self, X: Any, Y: Any = None) -> CCA:
        """Fit two tables with the same rows; NaN is missing, infinity is refused."""
        if Y is None:
            msg = "CCA takes two tables with the same rows: fit(X, Y). For a single table use gcmf.PCA."
            raise DataError(msg)
        self._flat_target = np.ndim(Y) == 1
        self._fit_tables({"X": X, "Y": _column(Y)})
        return self

    def _stored(self) -> dict[str, Any]:
        return {**super()._stored(), "flat_target": self._flat_target}

    def _restore(self, document: Mapping[str, Any], status: Status) -> None:
        super()._restore(document, status)
        self._flat_target = document["flat_target"]

    def transform(self, X: Any, Y: Any = None) -> Floats | pd.DataFrame:
        """Return the factors of rows from X, Y or both; None and NaN are missing, (n, n_factors_active_)."""
        return self._transform_tables([X, _column(Y)])

    def fit_transform(self, X: Any, Y: Any = None) -> Floats | pd.DataFrame:
        """Return fit(X, Y).transform(X, Y)."""
        return self.fit(X, Y).transform(X, Y)

    def inverse_transform(self, X: Any) -> tuple[Floats, Floats]:
        """Return X and Y that factors stand for."""
        x, y = self._by_view(self._reconstruction(X))
        return x, y

    def predict(self, X: Any) -> Floats:
        """Return what X tells about Y, (n, n_features of Y), or (n,) if Y was fitted as one column."""
        check_is_fitted(self)
        y = self.inverse_transform(np.asarray(self.transform(X)))[1]
        return y[:, 0] if self._flat_target else y

    def score(self, X: Any, Y: Any = None) -> float:
        """Return log p(observed cells of X and Y) / their number, as `GFA.score` does; None is a table not seen."""
        return self._mean_log_likelihood(self._side_by_side([X, _column(Y)])[0])


def _column(Y: Any) -> Any:
    """Make a target of one dimension a table of one column."""
    if Y is None or np.ndim(Y) != 1:
        return Y
    return Y.to_frame() if hasattr(Y, "to_frame") else np.asarray(Y)[:, None]
