"""Biases of entities without cells in a relation, from the biases that they have in others.

A bias belongs to one relation, so that what a person's brightness in one picture says of another would be lost: the
sweeps know no prior that ties the two. Here, after a fit, b_i ~ N(μ, Σ) over the bias layers of an entity set. What the
cells of relation m say of b_im is q(b_im) less its prior: a Gaussian with precision λ = 1/b̃ − 1/σ² and
precision times mean η = b̄/b̃ − μ/σ². Then q(b_i) = N(P (Σ⁻¹μ + η), P) with P = (Σ⁻¹ + diag λ)⁻¹, and Σ is learned by
expectation and maximization.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Entities that Σ is learned from at most, sweeps over them, and how many with independent biases are added to them.
MOST = 5000
N_SWEEPS = 50
INDEPENDENT = 2.0
#: No bias is known better than to this part of its prior variance.
KNOWN = 1e-8
#: Entities that are computed at a time.
_CHUNK = 100_000


class Layers(NamedTuple):
    """The bias layers of one entity set, d entities and B layers."""

    mean: Floats
    var: Floats
    """Of q(b), (d, B)."""
    seen: NDArray[np.bool_]
    """Which entity has cells in which layer's relation, (d, B)."""
    center: Floats
    """Prior means μ, (d, B)."""
    scale: Floats
    """Prior variance of each layer, σ², (B,)."""

    def only(self, group: list[int]) -> Layers:
        """Some of the layers."""
        mean, var, seen = self.mean[:, group], self.var[:, group], self.seen[:, group]
        return Layers(mean, var, seen, self.center[:, group], self.scale[group])


def joint(layers: Layers) -> Floats:
    """Σ of all layers, (B, B): σ² on the diagonal, and what is learned of those whose biases go together."""
    sigma = np.diag(layers.scale)
    for group in linked(layers):
        found = covariance(layers.only(group))
        sigma[np.ix_(group, group)] = (found + found.T) / 2.0  # to the last bit
    return sigma


def fill(layers: Layers, sigma: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of all biases: as they are where there are cells, else what the others say of them."""
    mean, var = np.where(layers.seen, layers.mean, layers.center), np.where(layers.seen, layers.var, layers.scale)
    tied = np.flatnonzero((sigma != 0).sum(axis=0) > 1)
    part = layers.only(tied.tolist())
    lacking = np.flatnonzero(part.seen.any(axis=1) & ~part.seen.all(axis=1))
    for start in range(0, len(lacking), _CHUNK):
        rows = lacking[start : start + _CHUNK]
        told, P = _posterior(sigma[np.ix_(tied, tied)], part.center[rows], *_message(part, rows))
        gone, at = ~part.seen[rows], np.ix_(rows, tied)
        mean[at] = np.where(gone, told, mean[at])
        var[at] = np.where(gone, np.diagonal(P, axis1=1, axis2=2), var[at])
    return mean, var


def linked(layers: Layers) -> list[list[int]]:
    """Groups of layers whose biases go together: pairs for which −½ (n − 3) log(1 − r²) > log n, and chains of them.

    That is twice the usual price of a degree of freedom: a link that is not there does harm, one that is missed none.
    """
    n_layers, away = len(layers.scale), layers.mean - layers.center
    label = list(range(n_layers))
    for a in range(n_layers):
        for b in range(a):
            both = layers.seen[:, a] & layers.seen[:, b]
            n, (x, y) = int(both.sum()), away[both][:, [a, b]].T
            if n > 3 and x.std() > 0 and y.std() > 0:
                r = float(np.corrcoef(x, y)[0, 1])
                if -0.5 * (n - 3) * np.log(max(1.0 - r * r, 1e-12)) > np.log(n):
                    label = [label[b] if one == label[a] else one for one in label]
    groups = ([k for k, one in enumerate(label) if one == name] for name in dict.fromkeys(label))
    return [group for group in groups if len(group) > 1]


def covariance(layers: Layers) -> Floats:
    """Σ = Σ_i ⟨(b_i − μ)(b_i − μ)ᵀ⟩/n, (B, B), with a few entities more whose biases are independent."""
    rows = np.flatnonzero(layers.seen.sum(axis=1) > 1)
    rows = rows[:: -(-len(rows) // MOST)]
    center, (weight, told) = layers.center[rows], _message(layers, rows)
    prior = np.diag(layers.scale)
    sigma = prior
    for _ in range(N_SWEEPS):
        mean, P = _posterior(sigma, center, weight, told)
        away = mean - center
        sigma = (away.T @ away + P.sum(axis=0) + INDEPENDENT * prior) / (len(rows) + INDEPENDENT)
    return sigma


def _message(layers: Layers, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """λ and η of these entities, (n, B) each; zero where there are no cells."""
    seen = layers.seen[rows]
    # Of a draw, whose biases are points, cells do not say all the same more than can be counted with.
    var = np.where(seen, np.maximum(layers.var[rows], KNOWN * layers.scale), 1.0)
    weight = np.where(seen, np.maximum(1.0 / var - 1.0 / layers.scale, 0.0), 0.0)
    told = np.where(weight > 0, layers.mean[rows] / var - layers.center[rows] / layers.scale, 0.0)
    return weight, told


def _posterior(sigma: Floats, center: Floats, weight: Floats, told: Floats) -> tuple[Floats, Floats]:
    """Means and covariances of b_i given λ_i and η_i, (n, B) and (n, B, B)."""
    precision = np.linalg.inv(sigma)
    P = np.linalg.inv(precision + weight[:, :, None] * np.eye(len(sigma))).astype(np.float64, copy=False)
    return np.asarray(np.einsum("nab,nb->na", P, center @ precision + told)), P
