"""Turning factors towards group sparsity, compiled: planes are turned and sheared one by one, as in Jacobi's method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from gcmf.engines.compiled import compiled, inlined

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]
    Integers = NDArray[np.int64]

#: Halves of the grids of angles tried in each plane: the second covers one step of the first, the third one of the
#: second.
_GRIDS = (16, 8, 8)
_MAX_ROUNDS = 30
#: Nats below which a plane stays as it is.
_LEAST_GAIN = 1e-6
_MAX_STEPS = 3


def sparsest(M: Floats, weight: Floats, same: Bools, side: Integers, sheared: bool) -> Floats:  # noqa: FBT001 - passed on
    """Return the T_e = T or T⁻ᵀ, by the side of each set, that minimise Σ_ek weight_ek log (T_eᵀ M_e T_e)_kk.

    M (E, K, K) is turned along. weight (E, K): d_e/2 where a factor lives, else 0. same (K, K): which factors may be
    mixed. side (E,): 0 or 1. Without `sheared` T is orthogonal, and the same for both sides.
    """
    K = M.shape[1]
    T = np.stack((np.eye(K), np.eye(K)))
    _turn_planes(M, weight, same, side, sheared, T, np.ones((2, K), bool))
    return T


@compiled
def _turn_planes(M, weight, same, side, sheared, T, moved):
    """Turn and shear M (E, K, K) and T (2, K, K); moved (2, K): room to note which factors have moved lately."""
    K = M.shape[1]
    for n in range(_MAX_ROUNDS):
        # Two factors that stayed where they were have found their angle already.
        gained, before, now = 0.0, moved[n % 2], moved[1 - n % 2]
        for k in range(K):
            now[k] = False
        for k in range(K):
            for j in range(K):
                if k == j or not same[k, j] or not (before[k] or before[j] or now[k] or now[j]):
                    continue
                for shear in range(2):
                    # [[a, b], [c, d]] mixes the columns k and j of sets on side 0, [[a, e], [f, d]] on side 1.
                    if shear and sheared:
                        s, gain = _best_shear(M, weight, side, k, j)
                        a, b, c, d, e, f = 1.0, s, 0.0, 1.0, 0.0, -s
                    elif not shear and k < j:
                        angle, gain = _best_turn(M, weight, k, j)
                        a, c = math.cos(angle), math.sin(angle)
                        b, d, e, f = -c, a, -c, c
                    else:
                        continue
                    if gain > _LEAST_GAIN:
                        now[k] = now[j] = True
                        gained += gain
                        _mix(M, T, side, k, j, (a, b, c, d, e, f))
        if gained < 0.1:
            break


@inlined
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


@inlined
def _best_turn(M, weight, k, j):
    """Best angle in the plane (k, j), and what it gains."""
    still = _height(M, weight, k, j, 0.0)
    best, lowest, width = 0.0, still, math.pi / 4.0
    for n in _GRIDS:
        middle = best
        for step in range(-n, n + 1):
            angle = middle + width * step / n
            height = _height(M, weight, k, j, angle)
            if height < lowest:
                best, lowest = angle, height
        width /= n
    return best, still - lowest


@inlined
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


@inlined
def _mix(M, T, side, k, j, shares):
    """M_e ← Gᵀ M_e G and T ← T G, where G mixes the columns k and j, by the side of the set."""
    a, b, c, d, e, f = shares
    for n in range(len(M) + 2):
        A, on_side = (M[n], side[n]) if n < len(M) else (T[n - len(M)], n - len(M))
        u, v = (b, c) if on_side == 0 else (e, f)
        for i in range(len(A)):
            x, y = A[i, k], A[i, j]
            A[i, k], A[i, j] = a * x + v * y, u * x + d * y
        if n < len(M):
            for i in range(len(A)):
                x, y = A[k, i], A[j, i]
                A[k, i], A[j, i] = a * x + v * y, u * x + d * y
