"""PCA: one table, common relevance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from gcmf.estimators.views import ViewsEstimator, refused_as_data

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from gcmf.fit import Status


class PCA(ViewsEstimator):
    """Bayesian principal component analysis: x = mean + scores · components + noise, cells may be missing.

    The number of components is found: those that explain no more than chance would are switched off. For a
    complete table the components are the leading singular vectors, their scores shrunk by what noise adds.

    Parameters
    ----------
    n_factors
        Components to start from, at most.
    max_iter, tol, n_init, random_state, dtype, n_threads
        As in `GCMF`.

    Attributes
    ----------
    components_ : ndarray (n_factors_active_, n_features)
        Unit length, the largest entry positive; in order of variance explained.
    mean_ : ndarray (n_features,)
        Intercepts; of a feature that was never observed, the mean of the others'.
    noise_variance_ : float
        Variance of what the components leave over, in the units of the data, squared.
    explained_variance_ : ndarray (n_factors_active_,)
        Mean square of the training scores.
    explained_variance_ratio_ : ndarray (n_factors_active_,)
        Share of the variance about the feature means that each component explains by itself.
    n_factors_active_, n_features_in_, feature_names_in_, n_iter_, status_, elbo_trace_
        How many components there are, what was fitted, and how the fit went.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 2)) @ rng.normal(size=(2, 8)) + 0.1 * rng.normal(size=(50, 8))
    >>> X[0, 0] = np.nan
    >>> PCA(n_factors=5, random_state=0).fit_transform(X).shape
    (50, 2)
    """

    def fit(self, X: Any, y: None = None) -> PCA:  # noqa: ANN401 - anything array-like
        """Fit a table of samples by features; NaN is missing, infinity is refused."""
        del y
        with refused_as_data():
            x = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2)
        fitted = self._fit_views({"X": x}, sharing="common")
        # Between scores and components the model leaves the scale open: components get length one, as in PCA.
        self._partners = self._partners.rescaled(np.linalg.norm(self._partners.mean, axis=0))
        self._show_components()
        self.noise_variance_ = float(fitted.noise[0] * fitted.scale[0] ** 2)
        self.explained_variance_ = (self._scores(x) ** 2).mean(axis=0)
        self.explained_variance_ratio_ = fitted.explained.factors[0].copy()
        return self

    def _show_components(self) -> None:
        self.components_ = self._partners.mean.T.copy()
        self.mean_ = self._intercepts.copy()

    def transform(self, X: Any) -> NDArray[np.float64]:  # noqa: ANN401
        """Return the scores of rows, new or old, from their observed cells, (n, n_factors_active_)."""
        check_is_fitted(self)
        with refused_as_data():
            x = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False)
        return self._scores(x)

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:  # noqa: ANN401
        """Return the table that scores stand for; missing cells of the original come back filled in."""
        return self._reconstruction(X)

    def _stored(self) -> dict[str, Any]:
        stored = super()._stored()
        features = list(getattr(self, "feature_names_in_", ()))
        stored["views"] = [{"name": "X", "width": self.n_features_in_, **({"features": features} if features else {})}]
        stored["fitted"]["score_variance"] = self.explained_variance_
        return stored

    def _restore(self, stored: Mapping[str, Any], status: Status) -> None:
        super()._restore(stored, status)
        arrays, [view] = stored["fitted"], stored["views"]
        self._show_components()
        self.noise_variance_ = float(arrays["noise_variance"][0])
        self.explained_variance_, self.explained_variance_ratio_ = arrays["score_variance"], arrays["explained"][0]
        self.n_features_in_ = view["width"]
        if "features" in view:
            self.feature_names_in_ = np.array(view["features"], dtype=object)

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
