"""The rotation towards group sparsity, compiled: planes are turned one after the other, as in Jacobi's method."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

#: Halves of the grids of angles tried in each plane: the second covers one step of the first, the third one of the
#: second.
_GRIDS = (16, 8, 8)
_MAX_ROUNDS = 30
_JIT = {"cache": True, "nogil": True, "error_model": "numpy"}


@njit(**_JIT)
def _height(M, weight, k, j, angle):
    """Σ_e d_e/2 log of the two diagonals of the plane (k, j) turned by an angle φ.

    They are (a + b)/2 ± r with r = (a − b)/2 cos 2φ + x sin 2φ.
    """
    total, c, s = 0.0, math.cos(2.0 * angle), math.sin(2.0 * angle)
    for e in range(len(M)):
        if weight[e, k] > 0.0:
            a, b = M[e, k, k], M[e, j, j]
            square, r = ((a + b) / 2.0) ** 2, (a - b) / 2.0 * c + M[e, k, j] * s
            total += weight[e, k] * math.log(max(square - r * r, 1e-14 * square, 1e-300))
    return total


@njit(**_JIT)
def _best_turn(M, weight, k, j):
    """Best angle in the plane (k, j), and what it gains."""
    still = lowest = _height(M, weight, k, j, 0.0)
    best, width = 0.0, math.pi / 4.0
    for n in _GRIDS:
        middle = best
        for step in range(-n, n + 1):
            angle = middle + width * step / n
            height = _height(M, weight, k, j, angle)
            if height < lowest:
                best, lowest = angle, height
        width /= n
    return best, still - lowest


@njit(**_JIT)
def _turn(A, k, j, angle):
    """A ← A G, with G the rotation of the plane (k, j)."""
    c, s = math.cos(angle), math.sin(angle)
    for i in range(len(A)):
        a, b = A[i, k], A[i, j]
        A[i, k], A[i, j] = c * a + s * b, c * b - s * a


@njit(**_JIT)
def sparsest(M, weight, same):
    """Return the orthogonal R that minimises Σ_ek weight_ek log (Rᵀ M_e R)_kk; M (E, K, K) is turned along.

    weight (E, K): d_e/2 where a factor lives, else 0. same (K, K): which factors may be mixed.
    """
    K = M.shape[1]
    R, moved = np.eye(K), np.ones(K, np.bool_)
    for _ in range(_MAX_ROUNDS):
        # Two factors that stayed where they were have found their angle already.
        gained, before, moved = 0.0, moved, np.zeros(K, np.bool_)
        for k in range(K):
            for j in range(k + 1, K):
                if not same[k, j] or not (before[k] or before[j] or moved[k] or moved[j]):
                    continue
                angle, gain = _best_turn(M, weight, k, j)
                if gain > 1e-6:
                    moved[k] = moved[j] = True
                    gained += gain
                    for e in range(len(M)):
                        _turn(M[e], k, j, angle)
                        _turn(M[e].T, k, j, angle)
                    _turn(R, k, j, angle)
        if gained < 0.1:
            break
    return R
