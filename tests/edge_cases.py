"""The smallest, flattest, largest and emptiest data, and what must hold of every model of them."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse

from gcmf import GCMF, Collection, Relation, Status
from gcmf.errors import ConvergenceWarning, ModelWarning


def one(x, likelihood="gaussian", **more):
    return Collection([Relation("x", "a", "b", x, likelihood, **more)])


def signal(n, m, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, m)) + rng.normal(size=(n, m))


def counts(scale, seed=0):
    rng = np.random.default_rng(seed)
    return rng.poisson(scale * np.exp(0.3 * signal(12, 9, seed))).astype(float)


def missing_rows():
    x = signal(12, 9)
    x[::4] = np.nan
    x[:, 3] = np.nan
    return Collection([Relation("x", "a", "b", x)], {"a": range(15)})


DATA = {
    "1 × 1 gaussian": lambda: one(np.array([[3.0]])),
    "1 × 1 bernoulli": lambda: one(np.array([[1.0]]), "bernoulli"),
    "1 × 1 poisson": lambda: one(np.array([[0.0]]), "poisson"),
    "constant": lambda: one(np.full((6, 5), 7.0)),
    "constant and large": lambda: one(np.full((6, 5), 1e9 + 0.3)),
    "zeros": lambda: one(np.zeros((6, 5))),
    "one row": lambda: one(signal(1, 9)),
    "one column": lambda: one(counts(3)[:, :1], "poisson"),
    "bernoulli zeros": lambda: one(np.zeros((8, 6)), "bernoulli"),
    "bernoulli ones": lambda: one(np.ones((8, 6)), "bernoulli"),
    "poisson zeros": lambda: one(sparse.csr_matrix((8, 6)), "poisson", blanks="zero"),
    "negative binomial zeros": lambda: one(sparse.csr_matrix((8, 6)), "negative_binomial", blanks="zero"),
    "negative binomial 1e5": lambda: one(counts(1e5), "negative_binomial"),
    "poisson 1e5": lambda: one(counts(1e5), "poisson"),
    "one count of 1e6": lambda: one(np.where(np.arange(108).reshape(12, 9) == 7, 1e6, counts(2)), "poisson"),
    "offset 1e8": lambda: one(signal(12, 9) + 1e8),
    "tiny": lambda: one(1e-30 * signal(12, 9)),
    "huge": lambda: one(1e30 * signal(12, 9)),
    "without noise": lambda: one(np.outer(np.arange(1.0, 13), np.arange(1.0, 10))),
    "one outlier": lambda: one(np.where(np.arange(108).reshape(12, 9) == 7, 1e6, signal(12, 9))),
    "booleans as numbers": lambda: one(signal(12, 9) > 0),
    "entities without data": missing_rows,
    "two components": lambda: Collection([
        Relation("x", "a", "b", signal(12, 9)),
        Relation("y", "c", "d", (signal(7, 6) > 0).astype(float), "bernoulli"),
    ]),
}  # fmt: skip


def fitted(data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", ModelWarning)
        return GCMF(**{"n_factors": 3, "random_state": 0, "progress": False, "max_iter": 80, **options}).fit(data)


def assert_sound(model, data):
    """A status, and finite numbers in every answer."""
    assert isinstance(model.status_, Status)
    assert np.isfinite(model.elbo_)
    for entity in data.schema.entities:
        assert np.isfinite(model.factors(entity)).all(axis=None)
        assert (model.factors(entity, std=True) >= 0).all(axis=None)
    for name, bound in data.relations.items():
        mean, std = model.predict(name, return_std=True)
        assert mean.shape == bound.shape
        assert np.isfinite(mean).all()
        assert np.isfinite(std).all()
        assert (std >= 0).all()
        new = model.predict(name, ["never seen"], ["nor this"], unknown="prior", return_std=True)
        assert np.isfinite(new).all()
    score = model.score(data).drop(columns=["auc", "average_precision", "calibration_error"], errors="ignore")
    assert np.isfinite(score.to_numpy(float)).all()
    assert np.isfinite(model.variance_explained()).all(axis=None)
    # A factor alone may add more than all that there is to biases that are worse without it than no biases.
    assert (model.variance_explained()[["bias", "total"]].to_numpy() <= 1 + 1e-9).all()
    activity = model.structure().drop(columns=["role", "relations"]).to_numpy(float)
    assert ((activity >= 0) & (activity <= 1)).all()
    assert "active factor" in repr(model)
