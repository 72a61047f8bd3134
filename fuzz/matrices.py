"""Random matrices: low-rank signal, cells of a likelihood, holes, and the forms in which users bring them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from gcmf import Relation
from gcmf.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.likelihoods import Likelihood

    Floats = NDArray[np.float64]
    Rng = np.random.Generator

LIKELIHOODS = (
    *(Gaussian() for _ in range(6)),
    *(Bernoulli(bound, weight) for bound in ("tight", "cell", "paper") for weight in (1.0, 0.3, 7.5)),
    *(Poisson(bound) for bound in ("tight", "cell", "paper", "exact")),
    NegativeBinomial(),
)
LAYOUTS = ("dense", "dense", "triplets", "sparse", "filled")
#: Standard deviation of the noise of Gaussian cells, beside a signal of about one.
NOISES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass
class Matrix:
    """One relation before it is one: cells as an array with NaN where they are missing."""

    name: str
    ends: tuple[str, str]
    x: Floats
    likelihood: Likelihood
    layout: str
    """"dense", "triplets", "sparse" (blanks missing) or "filled" (sparse, blanks zero: nothing is missing)."""
    symmetric: bool | None = None
    """Of a set with itself: whether it is the same both ways; then only one triangle is there, and never a diagonal."""

    @property
    def n_cells(self) -> float:
        """Observed cells, a zero that stands for more of them as often; blanks of a filled relation are observed."""
        x = np.nan_to_num(self.x) if self.layout == "filled" else self.x
        return np.count_nonzero(~np.isnan(x)) + max(self.likelihood.zero_weight - 1.0, 0.0) * np.count_nonzero(x == 0)

    def relation(self) -> Relation:
        """The relation in its layout."""
        form: Any = self.x
        seen = ~np.isnan(self.x)
        if self.layout == "filled":
            form = sparse.csr_array(np.where(seen, self.x, 0.0))
            return Relation(self.name, *self.ends, form, self.likelihood, blanks="zero")
        i, j = np.nonzero(seen)
        if self.layout == "sparse":
            form = sparse.coo_array((self.x[seen], (i, j)), shape=self.x.shape)
            return Relation(self.name, *self.ends, form, self.likelihood, blanks="missing")
        if self.layout == "triplets":
            form = (i, j, self.x[seen])
        elif self.likelihood.name == "bernoulli" and seen.all():
            form = self.x.astype(bool)
        return Relation(self.name, *self.ends, form, self.likelihood, symmetric=self.symmetric)


def cells(theta: Floats, likelihood: Likelihood, noise: float, rng: Rng) -> Floats:
    """Cells of the likelihood at θ."""
    if likelihood.name == "gaussian":
        return theta + noise * rng.normal(size=theta.shape)
    if likelihood.name == "bernoulli":
        return (rng.random(theta.shape) < 1.0 / (1.0 + np.exp(-theta))).astype(float)
    return rng.poisson(np.logaddexp(0.0, theta)).astype(float)


def factors(sizes: dict[str, int], rng: Rng) -> dict[str, Floats]:
    """Factors of every entity set, each absent from some of them."""
    rank = int(rng.integers(1, 5))
    return {name: rng.normal(size=(d, rank)) * (rng.random(rank) < 0.8) for name, d in sizes.items()}


def predictor(u: Floats, v: Floats, rng: Rng) -> Floats:
    """θ = scale u vᵀ + biases + intercept, each of them sometimes absent."""
    theta = rng.choice([0.0, 0.5, 1.0, 2.0, 2.0]) * u @ v.T + rng.choice([0.0, 0.5, 3.0]) * rng.normal()
    theta = theta + rng.choice([0.0, 1.0]) * rng.normal(size=(len(u), 1))
    return np.asarray(theta + rng.choice([0.0, 1.0]) * rng.normal(size=(1, len(v))))


def pierce(x: Floats, rng: Rng, least: int = 4) -> Floats:
    """Take cells away: none, at random, whole rows and columns too, or all but a corner; some are always left."""
    share, kind = rng.choice([0.1, 0.5, 0.9]), rng.choice(["none", "cells", "lines", "corner"])
    gone = np.zeros(x.shape, dtype=bool)
    if kind in ("cells", "lines"):
        gone = rng.random(x.shape) < share
    if kind == "lines":
        gone[rng.random(len(x)) < 0.2] = True
        gone[:, rng.random(x.shape[1]) < 0.2] = True
    if kind == "corner":
        gone[len(x) // 2 :, x.shape[1] // 2 :] = True
    gone.flat[rng.permutation(x.size)[: min(least, x.size)]] = False
    return np.where(gone, np.nan, x)
