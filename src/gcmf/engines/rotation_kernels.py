"""Turning factors towards group sparsity, compiled: planes are turned and sheared one by one, as in Jacobi's method."""

from __future__ import annotations

import math

import numpy as np

from gcmf.engines.compiled import compiled

#: Halves of the grids of angles tried in each plane: the second covers one step of the first, the third one of the
#: second.
_GRIDS = (16, 8, 8)
_MAX_ROUNDS = 30
#: Nats below which a plane stays as it is.
_LEAST_GAIN = 1e-6
_MAX_STEPS = 3


@compiled()
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


@compiled()
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


@compiled()
def _turn(A, k, j, angle):
    """A ← A G, with G the rotation of the plane (k, j)."""
    c, s = math.cos(angle), math.sin(angle)
    for i in range(len(A)):
        a, b = A[i, k], A[i, j]
        A[i, k], A[i, j] = c * a + s * b, c * b - s * a


@compiled()
def _best_shear(M, weight, side, k, j):
    """Best s for u_j + s u_k on one side and u_k − s u_j on the other, and what it gains.

    Each log q(s) of the objective lies below its tangent in q, which leaves a parabola in s; a few times over.
    """
    s, still, lowest = 0.0, 0.0, 0.0
    for n in range(_MAX_STEPS + 1):
        height, slope, bend = 0.0, 0.0, 0.0
        for e in range(len(M)):
            if weight[e, k] > 0.0:
                # Factor `to` takes a share of `other`.
                to, other, sign = (j, k, 1.0) if side[e] == 0 else (k, j, -1.0)
                x, b = sign * M[e, k, j], M[e, other, other]
                q = max(M[e, to, to] + s * (2.0 * x + s * b), 1e-300)
                height += weight[e, k] * math.log(q)
                slope += weight[e, k] * x / q
                bend += weight[e, k] * b / q
        if n == 0:
            still = height
        lowest = height
        if n == _MAX_STEPS or not bend > 0.0:
            break
        s = -slope / bend
    return s, still - lowest


@compiled()
def _shear(A, k, j, s):
    """Column j of A takes s times column k."""
    for i in range(len(A)):
        A[i, j] += s * A[i, k]


@compiled()
def sparsest(M, weight, same, side, sheared):
    """Return the T_e = T or T⁻ᵀ, by the side of each set, that minimise Σ_ek weight_ek log (T_eᵀ M_e T_e)_kk.

    M (E, K, K) is turned along. weight (E, K): d_e/2 where a factor lives, else 0. same (K, K): which factors may be
    mixed. side (E,): 0 or 1. Without `sheared` T is orthogonal, and the same for both sides.
    """
    K = M.shape[1]
    T, moved = np.stack((np.eye(K), np.eye(K))), np.ones(K, np.bool_)
    for _ in range(_MAX_ROUNDS):
        # Two factors that stayed where they were have found their angle already.
        gained, before, moved = 0.0, moved, np.zeros(K, np.bool_)
        for k in range(K):
            for j in range(K):
                if k == j or not same[k, j] or not (before[k] or before[j] or moved[k] or moved[j]):
                    continue
                if k < j:
                    angle, gain = _best_turn(M, weight, k, j)
                    if gain > _LEAST_GAIN:
                        moved[k] = moved[j] = True
                        gained += gain
                        for e in range(len(M)):
                            _turn(M[e], k, j, angle)
                            _turn(M[e].T, k, j, angle)
                        _turn(T[0], k, j, angle)
                        _turn(T[1], k, j, angle)
                if sheared:
                    s, gain = _best_shear(M, weight, side, k, j)
                    if gain > _LEAST_GAIN:
                        moved[k] = moved[j] = True
                        gained += gain
                        for e in range(len(M)):
                            a, b, c = (k, j, s) if side[e] == 0 else (j, k, -s)
                            _shear(M[e], a, b, c)
                            _shear(M[e].T, a, b, c)
                        _shear(T[0], k, j, s)
                        _shear(T[1], j, k, -s)
        if gained < 0.1:
            break
    return T
