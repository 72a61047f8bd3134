"""Expectations of the logistic function and its kin under θ ~ N(m, v), by quadrature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.likelihoods.functions import sigmoid, softplus

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def gauss_hermite(n: int) -> tuple[Floats, Floats]:
    """Nodes t and shares s, summing to one: E f(θ) ≈ Σ s f(m + √v t), exact for polynomials of degree 2n − 1."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(n)
    return nodes, weights / weights.sum()


#: softplus is off by 1e-11 at v = 4 and by 1e-6 at v = 16; cells as uncertain as that say next to nothing.
_NODES, _SHARES = gauss_hermite(64)


#: What predictions are made with, which are many: sigmoid is off by 1e-6 at v = 4 and by 1e-4 at v = 9.
_FEW_NODES, _FEW_SHARES = gauss_hermite(20)


def mean_softplus(m: Floats, v: Floats) -> Floats:
    """E log(1 + e^θ)."""
    return np.asarray(softplus(at_nodes(m, v)) @ _SHARES)


def mean_sigmoid(m: Floats, v: Floats) -> Floats:
    """E σ(θ) = ∂/∂m E softplus(θ)."""
    return np.asarray(sigmoid(at_nodes(m, v)) @ _SHARES)


def mean_sigmoid_slope(m: Floats, v: Floats) -> Floats:
    """E σ′(θ) = 2 ∂/∂v E softplus(θ)."""
    s = sigmoid(-np.abs(at_nodes(m, v)))
    return np.asarray((s * (1.0 - s)) @ _SHARES)


def predicted_sigmoid(m: Floats, v: Floats) -> Floats:
    """E σ(θ) of any number of cells: node after node, in the memory of a few arrays of their size."""
    spread, total = np.sqrt(v), np.zeros(np.broadcast_shapes(np.shape(m), np.shape(v)))
    for node, share in zip(_FEW_NODES, _FEW_SHARES, strict=True):
        total += share * sigmoid(m + spread * node)
    return total


def predicted_log_sigmoid(m: Floats, v: Floats) -> Floats:
    """Log E σ(θ), which is near m where that is far below zero."""
    spread, total = np.sqrt(v), np.full(np.broadcast_shapes(np.shape(m), np.shape(v)), -np.inf)
    for node, share in zip(_FEW_NODES, _FEW_SHARES, strict=True):
        total = np.logaddexp(total, np.log(share) - softplus(-(m + spread * node)))
    return total


def at_nodes(m: Floats, v: Floats) -> Floats:
    """θ at the nodes, along a last axis."""
    return np.asarray(m)[..., None] + np.sqrt(v)[..., None] * _NODES
