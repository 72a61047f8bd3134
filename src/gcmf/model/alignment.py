"""Draws on the axes of one of them: factors are known up to what leaves predictors as they are, and wander there.

θ = Σ_k d_mk u_ik v_jk stays as it is if factors of the same sets and relations are turned together, u ← u R; if u is
multiplied by t and v by 1/t; if two factors change places; and if what a scale d does is done by the factors, where no
cycle of relations says otherwise. Means over draws are taken after all of them were brought as near to one draw as
these allow (Procrustes' problem): the mean of axes that turn would be zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gcmf.engines.base import State
    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]
    Array = NDArray[Any]
    Truth = NDArray[np.bool_]

#: What a set counts that holds only one of two factors, in units of their cosine, where factors change places.
ELSEWHERE = 0.5


class Turn(NamedTuple):
    """How a draw is brought to the axes: u ← u T_e, and then its scales and where its factors are on."""

    factors: Floats
    """T of each set, (E, K, K)."""
    scales: Floats
    """(M, K); ones where the model has none."""
    on: Truth
    """(E, K)."""


class Axes:
    """The factors of one draw, by which the axes of all others are known."""

    def __init__(self, spec: Spec, mean: list[Array], on: Truth) -> None:
        self._spec, self.mean, self.on = spec, mean, on

    def turn(self, posterior: Posterior, state: State) -> Turn:
        """What brings a draw, whose centers were absorbed, as near to these axes as its predictors allow."""
        n = np.maximum(self._spec.n_entities, 1.0)
        pairs = zip(self.mean, state.mean, n, strict=True)
        cross = np.stack([(ours.T @ theirs).astype(np.float64) / size for ours, theirs, size in pairs])
        square = np.stack([np.square(u, dtype=np.float64).sum(axis=0) / size
                           for u, size in zip(state.mean, n, strict=True)])  # fmt: skip
        place = self._places(posterior, cross, square)
        drawn = _Drawn.of(self._spec, posterior, cross, square, place)
        t, R = np.ones(square.shape), np.tile(np.eye(len(place)), (len(square), 1, 1))
        for group in _alike(np.concatenate([drawn.on, self.on, drawn.seen])):
            for sets, relations in _connected(self._spec.ends, drawn.seen[:, group[0]]):
                found, at = self._sizes(drawn, (sets, relations), group), np.array(sets)
                if found is None:
                    # Nothing turns. Each set has the sign and the size for itself: scales make up for it.
                    size, sign = drawn.square[np.ix_(at, group)], drawn.cross[at][:, group, group]
                    t[np.ix_(at, group)] = np.where(sign < 0, -1.0, 1.0) / np.sqrt(np.where(size > 0, size, 1.0))
                    continue
                t[np.ix_(at, group)] = found
                blocks = drawn.cross[np.ix_(at, group, group)] * found[:, None]
                left, _, right = np.linalg.svd(blocks.sum(axis=0))
                R[np.ix_(at, group, group)] = (left @ right).T
        T = np.empty_like(R)
        T[:, place] = t[:, :, None] * R
        scales = drawn.scales
        if drawn.has_scales:
            ends = zip(self._spec.ends, drawn.mates, strict=True)
            scales = scales / np.stack([t[r] * t[c][mates] for (r, c), mates in ends])
        return Turn(T, scales, drawn.on)

    def _places(self, posterior: Posterior, cross: Floats, square: Floats) -> NDArray[np.intp]:
        """Which factor of the draw is which of these: the largest sum of |cosines|, if they live in the same sets."""
        K, scales = square.shape[1], posterior.scales
        ours = sum(np.square(u, dtype=np.float64).sum(axis=0) / max(n, 1.0)
                   for u, n in zip(self.mean, self._spec.n_entities, strict=True))  # fmt: skip
        length = np.sqrt(np.outer(ours, square.sum(axis=0)))
        cosine = np.abs(cross.sum(axis=0)) / np.where(length > 0, length, 1.0)
        cost = ELSEWHERE * (self.on[:, :, None] != posterior.on[:, None]).sum(axis=0) - cosine
        if scales is not None:
            alone = scales.mate == np.arange(K)
            other = (scales.on[:, :, None] != scales.on[:, None]).any(axis=0) | ~(alone[:, None] & alone)
            cost[other & ~np.eye(K, dtype=bool)] = 1e6
        return np.asarray(linear_sum_assignment(cost)[1])

    def _sizes(self, drawn: _Drawn, part: tuple[list[int], list[int]], group: Array) -> Floats | None:
        """By what to multiply the factors of each set of a part so that scales are one; None: no turn is allowed."""
        (sets, relations), scaled = part, self._scaled(drawn, part, group)
        t, color = {sets[0]: np.ones(len(group))}, {sets[0]: 0}
        for e in sets:  # in the order in which relations lead to them
            for m in relations:
                if e not in self._spec.ends[m]:
                    continue
                r, c = self._spec.ends[m]
                other = c if r == e else r
                if other not in t:
                    t[other], color[other] = drawn.scales[m, group] / t[e], 1 - color[e]
                elif color[other] == color[e] and not scaled:
                    return np.ones((len(sets), len(group)))
        if scaled:
            return None
        found, first = np.stack([t[e] for e in sets]), np.array([color[e] == 0 for e in sets])
        if not self._spec.unit_variance[sets].any():
            square = drawn.square[np.ix_(np.array(sets), group)] * found**2
            here, there = square[first].sum(axis=0), square[~first].sum(axis=0)
            known = (here > 0) & (there > 0)
            s = np.where(known, np.where(known, there, 1.0) / np.where(known, here, 1.0), 1.0) ** 0.25
            found *= np.where(first[:, None], s, 1.0 / s)
        return found

    def _scaled(self, drawn: _Drawn, part: tuple[list[int], list[int]], group: Array) -> bool:
        """Whether scales are more than what the factors could do as well: relations form a cycle."""
        sets, relations = part
        lost = bool((drawn.scales[np.ix_(np.array(relations), group)] == 0).any())
        return drawn.has_scales and (len(relations) >= len(sets) or lost)


class _Drawn(NamedTuple):
    """What is known of a draw, with its factors in the places of those that they are to be near to."""

    cross: Floats
    """Mean products of factors over entities, those of the axes by those of the draw, (E, K, K)."""
    square: Floats
    """Mean squares, (E, K)."""
    on: Truth
    seen: Truth
    """Which relation sees which factor, sent or received, (M, K)."""
    scales: Floats
    has_scales: bool
    mates: NDArray[np.int64]
    """(M, K)."""

    @classmethod
    def of(cls, spec: Spec, posterior: Posterior, cross: Floats, square: Floats, place: NDArray[np.intp]) -> _Drawn:
        on, scales, own = posterior.on[:, place], posterior.scales, np.arange(len(place))
        shape = len(spec.ends), len(place)
        if scales is None:
            seen = np.array([on[r] & on[c] for r, c in spec.ends]).reshape(shape)
            d, mates = np.ones(shape), np.broadcast_to(own, shape)
        else:
            mates = np.where(spec.directed[:, None], scales.mate, own)
            d = scales.mean[:, place]
            seen = scales.on[:, place] | np.take_along_axis(scales.on[:, place], mates, axis=1)
        return cls(cross[:, :, place], square[:, place], on, seen, d, scales is not None, mates)


def _alike(columns: Truth) -> Iterator[NDArray[np.intp]]:
    """Yield the positions of columns that are equal, group by group."""
    if not columns.shape[1]:
        return
    _, group = np.unique(columns, axis=1, return_inverse=True)
    for g in range(int(group.max()) + 1):
        yield np.flatnonzero(group.ravel() == g)


def _connected(ends: tuple[tuple[int, int], ...], seen: Truth) -> Iterator[tuple[list[int], list[int]]]:
    """Yield sets that relations lead to from each other, in the order in which they do, and these relations."""
    left = np.flatnonzero(seen).tolist()
    while left:
        sets, relations = [ends[left[0]][0]], list[int]()
        for e in sets:
            for m in [m for m in left if e in ends[m]]:
                left.remove(m)
                relations.append(m)
                sets += [other for other in dict.fromkeys(ends[m]) if other not in sets]
        yield sets, relations
