"""Small collections for the tests of the mathematics."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy import sparse

from gcmf import Collection, Priors
from gcmf.likelihoods import Bernoulli, Gaussian, Poisson
from gcmf.options import FitOptions
from helpers import random_sample
from strategies import relation

VAGUE = Priors()
PROPER = Priors(alpha_shape=1.7, alpha_rate=0.6, tau_shape=2.3, tau_rate=0.9)
GAUSSIAN, JAAKKOLA, LOGISTIC, LOGIT = Gaussian("relation"), Bernoulli("tight"), Bernoulli("cell"), Bernoulli("exact")
PAPER, CELL, HYBRID, EXACT = Poisson("paper"), Poisson("cell"), Poisson("tight"), Poisson("exact")
SIZES = {"a": 5, "b": 4, "c": 6}


def triangle(kinds, seed=0, layout="listed", missing=0.25, *, known=False):
    """Three sets in a circle; the last row of `a` has no data anywhere. `known`: `a` and `b` have covariates."""
    rng = np.random.default_rng(seed)
    ends = [("a", "b"), ("b", "c"), ("c", "a")]
    made = [
        relation(f"r{m}", end, (SIZES[end[0]], SIZES[end[1]]), likelihood=kind, layout=layout, missing=missing, rng=rng)
        for m, (end, kind) in enumerate(zip(ends, kinds, strict=True))
    ]
    # Ids 5.. of "a" are declared and never seen.
    if not known:
        return Collection(made, {"a": range(SIZES["a"] + 1)})
    table = pd.DataFrame({"size": rng.normal(size=6), "color": ["red", "blue", "red", None, "blue", "red"]})
    words = rng.normal(size=(4, 110)) * (rng.random((4, 110)) < 0.3)
    return Collection(made, {"a": table, "b": (range(4), sparse.csr_array(words))})


def toy(kinds, seed=1, n_factors=3, on=None, *, known=False, **options):
    """A sample of a triangle, everything random, in float64; without scales of relations unless they are asked for."""
    chosen = FitOptions(n_factors=n_factors, dtype="float64", **{"relation_scales": False, **options})
    return random_sample(triangle(kinds, known=known), chosen, np.random.default_rng(seed), on)
