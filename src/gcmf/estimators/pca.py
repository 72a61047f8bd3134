"""PCA: one table, common relevance."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from gcmf.estimators.views import ViewsEstimator, described_view, partners_of, refused_as_data
from gcmf.model.foldin import fold_in

if TYPE_CHECKING:
    from numpy.typing import NDArray


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

    def fit(self, X: Any, y: None = None) -> PCA:
        """Fit a table of samples by features; NaN is missing, infinity is refused."""
        del y
        with refused_as_data():
            x = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan", ensure_min_samples=2)
        result, _, arrays = self._fit_views({"X": x}, sharing="common")
        # Between scores and components the model leaves the scale open: components get length one, as in PCA.
        partners = partners_of(arrays).rescaled(np.linalg.norm(arrays["mean"], axis=0))
        scores = fold_in(partners, x - arrays["intercepts"])
        arrays |= {**asdict(partners), "score_variance": (scores**2).mean(axis=0)}
        view = described_view("X", x.shape[1], list(getattr(self, "feature_names_in_", ())))
        self._take(arrays, [view], result.trace, result.status)
        return self

    def _show(self) -> None:
        arrays, [view] = self._arrays, self._views
        self.components_ = arrays["mean"].T.copy()
        self.mean_ = arrays["intercepts"].copy()
        self.noise_variance_ = float(arrays["noise_variance"][0])
        self.explained_variance_ = arrays["score_variance"].copy()
        self.explained_variance_ratio_ = arrays["explained"][0].copy()
        self.n_features_in_ = view["width"]
        if "features" in view:
            self.feature_names_in_ = np.array(view["features"], dtype=object)

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the scores of rows, new or old, from their observed cells, (n, n_factors_active_)."""
        return self._scores(self._rows(X))

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Return the table that scores stand for; missing cells of the original come back filled in."""
        return self._reconstruction(X)

    def score(self, X: Any, y: None = None) -> float:
        """Return log p(observed cells of X) / their number: how well the model foretells rows, the higher the better.

        The scores of a row are integrated out, not fitted to the cells that are judged: log p(x) = Σ_j log p(x_j | x_1,
        …, x_(j−1)) predicts each cell from the ones before it, by fold-in. A reconstruction error would always fall
        with more components; this does not, so that `cross_val_score` and `GridSearchCV` choose well. For a complete
        table, times the number of features, it is what scikit-learn's `PCA.score` means; per cell, tables with
        different cells missing can be compared. Components that the data left uncertain widen the noise.
        """
        del y
        return self._mean_log_likelihood(self._rows(X))

    def _rows(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        with refused_as_data():
            x: NDArray[np.float64] = validate_data(
                self, X, dtype=np.float64, ensure_all_finite="allow-nan", reset=False
            )
        return x

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
