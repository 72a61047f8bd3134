"""Nodes with which compiled engines average over θ ~ N(m, v): as few as the precision needs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gcmf.likelihoods.expectations import NODES, SHARES, gauss_hermite

#: Up to which variance so many nodes of Gauss and Hermite are enough (softplus is off by 5e-7, as float32 is); else,
#: and in float64, the nodes of `expectations`.
ENOUGH: dict[str, tuple[tuple[int, float], ...]] = {
    "float32": ((4, 0.12), (6, 0.5), (8, 0.8), (12, 1.7)),
    "float64": (),
}


@cache
def quadrature(dtype: str) -> dict[str, tuple[Any, ...]]:
    """The constants of kernels for a working precision: pairs of nodes, and where each rule begins."""
    # The node at zero is a pair of its own, each with half of the share.
    shares = np.where(NODES == 0.0, 0.5, 1.0) * SHARES
    rules = [*(gauss_hermite(n) for n, _ in ENOUGH[dtype]), (NODES, shares)]
    pairs = [(nodes[nodes >= 0.0], shares[nodes >= 0.0]) for nodes, shares in rules]
    return {
        "REACH": tuple(reach for _, reach in ENOUGH[dtype]) or (np.inf,),
        "FIRST_NODE": tuple(np.cumsum([0, *(len(nodes) for nodes, _ in pairs), 0]).tolist()),
        "NODE": tuple(np.concatenate([nodes for nodes, _ in pairs]).tolist()),
        "SHARE": tuple(np.concatenate([shares for _, shares in pairs]).tolist()),
    }
