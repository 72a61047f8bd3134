"""Factors that are one: what two relations have in common, but hold in columns of their own.

Turning factors towards group sparsity makes them private where they can be. With scales, a factor may act in two
relations of a triangle and not in the third, and no turn leads there from two private ones: the entities of the set in
between then hold the same numbers twice.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gcmf.gamma import Gamma
from gcmf.model.hyper import update_alpha, update_scale_prior
from gcmf.model.moves import transformed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from gcmf.engines.base import Engine
    from gcmf.model.posterior import Posterior, RelationScales
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]

#: The correlation of two factors in a set above which they may be one.
ALIKE = 0.7


class Join(NamedTuple):
    """Two groups of factors, of which combinations are nearly the same in some sets."""

    alike: float
    """Their correlation, the least of all sets that hold both."""
    groups: tuple[list[int], list[int]]
    sets: list[int]
    shares: tuple[Floats, Floats]
    """The combinations, of unit size; of two single factors (1, S), a share for each set."""


def join_alike(spec: Spec, engine: Engine, posterior: Posterior) -> Posterior | None:
    """Join factors that are alike, the most alike first, until none are; None if none are."""
    joined = None
    for k, mate in _like_their_mates(posterior, engine.second_moments()):
        joined = posterior = _with_its_mate(spec, engine, posterior, k, mate)
    while posterior.scales is not None:
        best = max(_candidates(spec, posterior, engine.second_moments()), default=None, key=lambda join: join.alike)
        if best is None or not best.alike >= ALIKE:
            break
        joined = posterior = _joined(spec, engine, posterior, best)
    return joined


def _like_their_mates(posterior: Posterior, M: Floats) -> list[tuple[int, int]]:
    """Factors that are sent and received alike in every set that holds both, the last ones first."""
    pairs = []
    for k, mate in enumerate(() if posterior.scales is None else posterior.scales.mate.tolist()):
        both = np.flatnonzero(posterior.on[:, k] & posterior.on[:, mate])
        if k < mate and len(both) and _singles(M[both], [k], [mate], []).alike > ALIKE:
            pairs.append((k, mate))
    return sorted(pairs, key=lambda pair: -pair[1])


def _with_its_mate(spec: Spec, engine: Engine, posterior: Posterior, k: int, mate: int) -> Posterior:
    """Put a factor and its mate in one column, which is sent and received: d u_i v_j + d′ v_i u_j with u ≈ v."""
    scales, on, M = posterior.scales, posterior.on, engine.second_moments()
    assert scales is not None
    K, both = posterior.n_factors, on[:, k] & on[:, mate]
    sizes = np.where(both[:, None], np.sqrt(np.maximum(M[:, [k, mate], [k, mate]], 1e-300)), 1.0)
    sign = np.where(both & (M[:, k, mate] < 0), -1.0, 1.0)
    sizes[:, 1] *= sign
    T = np.stack([np.eye(K)] * len(on))
    for e in range(len(on)):
        if both[e]:
            alike = abs(M[e, k, mate] / sizes[e].prod())
            T[e][[k, mate], k] = 1.0 / sizes[e] / np.sqrt(2.0 + 2.0 * alike)
        elif on[e, mate]:
            T[e][:, k] = T[e][:, mate]
    rows, cols = spec.sides
    mean, var, seen, held = scales.mean.copy(), scales.var.copy(), scales.on.copy(), on.copy()
    # A mate is met with the size of the other.
    first = sizes[rows, 0] * np.where(spec.directed, sizes[cols, 1], sizes[cols, 0])
    second = sizes[rows, 1] * np.where(spec.directed, sizes[cols, 0], sizes[cols, 1])
    mean[:, k] = mean[:, k] * first + mean[:, mate] * second
    var[:, k] = var[:, k] * first**2 + var[:, mate] * second**2
    seen[:, k] |= seen[:, mate]
    held[:, k] |= held[:, mate]
    alone = scales.mate.copy()
    alone[[k, mate]] = k, mate
    known = posterior._replace(on=held, scales=scales._replace(mean=mean, var=var, on=seen, mate=alone))
    return _taken(spec, engine, known, T, mate)


def _taken(spec: Spec, engine: Engine, posterior: Posterior, T: Floats, gone: int) -> Posterior:
    """Turn the factors by T, held and seen as the posterior has it already; one of them is no more."""
    scales, on = posterior.scales, posterior.on
    assert scales is not None
    kept = [k for k in range(posterior.n_factors) if k != gone]
    posterior = transformed(engine, posterior, [T_e[:, kept] * held[kept] for T_e, held in zip(T, on, strict=True)])
    posterior = posterior._replace(
        alpha=Gamma(posterior.alpha.shape[:, kept], posterior.alpha.rate[:, kept]),
        on=on[:, kept],
        scales=update_scale_prior(spec, scales.columns(kept, scales.on[:, kept], on[:, kept])),
    )
    return update_alpha(spec, posterior)


def _candidates(spec: Spec, posterior: Posterior, M: Floats) -> Iterator[Join]:
    """Pairs of groups that no relation sees together, and that some set holds both."""
    scales, on = posterior.scales, posterior.on
    assert scales is not None
    for one, other in combinations(_groups(spec, scales), 2):
        both = np.flatnonzero(on[:, one[0]] & on[:, other[0]]).tolist()
        if not both or (scales.on[:, one[0]] & scales.on[:, other[0]]).any():
            continue
        if len(both) == 1:
            yield _most_alike(M[both[0]], one, other, both)
        elif len(one) == len(other) == 1:
            yield _singles(M[both], one, other, both)


def _groups(spec: Spec, scales: RelationScales) -> Iterator[list[int]]:
    """Factors that the same one relation sees, which may be mixed at will, and all others one by one."""
    private: dict[int, list[int]] = {}
    for k in range(scales.on.shape[1]):
        seen = np.flatnonzero(scales.on[:, k]).tolist() if scales.mate[k] == k else []
        if len(seen) == 1 and spec.ends[seen[0]][0] != spec.ends[seen[0]][1] and scales.mean[seen[0], k]:
            private.setdefault(seen[0], []).append(k)
        elif seen:
            yield [k]
    yield from private.values()


def _most_alike(M: Floats, one: list[int], other: list[int], sets: list[int]) -> Join:
    """The first canonical correlation of two groups in a set with these second moments."""
    roots = [_inverse_root(M[np.ix_(group, group)]) for group in (one, other)]
    left, alike, right = np.linalg.svd(roots[0] @ M[np.ix_(one, other)] @ roots[1])
    return Join(float(alike[0]), (one, other), sets, (roots[0] @ left[:, 0], roots[1] @ right[0]))


def _inverse_root(A: Floats) -> Floats:
    values, vectors = np.linalg.eigh(A)
    return np.asarray((vectors / np.sqrt(np.maximum(values, max(1e-12 * values[-1], 1e-300)))) @ vectors.T)


def _singles(M: Floats, one: list[int], other: list[int], sets: list[int]) -> Join:
    """Two factors in several sets: as alike as in the one in which they are least; signs may differ."""
    (k,), (j,) = one, other
    sizes = np.sqrt(np.maximum(M[:, [k, j], [k, j]], 1e-300))
    alike = M[:, k, j] / sizes.prod(axis=1)
    return Join(float(np.abs(alike).min()), (one, other), sets, (1.0 / sizes[:, :1].T, np.sign(alike) / sizes[:, 1:].T))


def _joined(spec: Spec, engine: Engine, posterior: Posterior, join: Join) -> Posterior:
    """Put the combinations in one column, half of each in the sets that hold both; the rest of each group stays."""
    scales, on, K = posterior.scales, posterior.on, posterior.n_factors
    assert scales is not None
    T = np.stack([np.eye(K)] * len(on))
    mean, var = scales.mean.copy(), scales.var.copy()
    for group, shares in zip(join.groups, join.shares, strict=True):
        if len(group) == 1:
            _resize(spec, (T, mean, var), group[0], dict(zip(join.sets, np.ravel(shares).tolist(), strict=True)))
        else:
            M = engine.second_moments()[join.sets[0]][np.ix_(group, group)]
            _mix((T, mean, var), group, shares, M, _sides(spec, scales, group[0], join.sets[0]))
    first, second = (group[0] for group in join.groups)
    for e in range(len(on)):
        if e in join.sets:
            # Both are of unit size here; their sum is to be so, too.
            T[e][:, first] = (T[e][:, first] + T[e][:, second]) / np.sqrt(2.0 + 2.0 * join.alike)
        elif on[e, second]:
            T[e][:, first] = T[e][:, second]
    held, seen = on.copy(), scales.on.copy()
    held[:, first] |= on[:, second]
    seen[:, first] |= scales.on[:, second]
    mean[:, first] += mean[:, second]
    var[:, first] += var[:, second]
    known = posterior._replace(on=held, scales=scales._replace(mean=mean, var=var, on=seen))
    return _taken(spec, engine, known, T, second)


Parts = tuple["Floats", "Floats", "Floats"]
"""T of all sets, mean and variance of the scales, to be written to."""


def _resize(spec: Spec, parts: Parts, k: int, sizes: dict[int, float]) -> None:
    """Multiply factor k in these sets, and divide the scales of their relations."""
    T, mean, var = parts
    for e, size in sizes.items():
        T[e][:, k] *= size
        for m, ends in enumerate(spec.ends):
            times = size ** -ends.count(e)
            mean[m, k] *= times
            var[m, k] *= times**2


def _sides(spec: Spec, scales: RelationScales, k: int, e: int) -> tuple[int, int, int]:
    """The one relation that sees factor k, set e, and the set on its other side."""
    (m,) = np.flatnonzero(scales.on[:, k]).tolist()
    return m, e, spec.ends[m][1] if spec.ends[m][0] == e else spec.ends[m][0]


def _mix(parts: Parts, group: list[int], shares: Floats, M: Floats, sides: tuple[int, int, int]) -> None:
    """Turn a private group so that its first column in set e is the combination; the other side takes over the scales.

    The other columns are orthogonal to the first in set e, where the group has second moments M.
    """
    (T, mean, var), (m, e, other) = parts, sides
    root = np.linalg.cholesky(M)
    whole, _ = np.linalg.qr(np.column_stack([root.T @ shares, np.eye(len(group))]))
    B = np.linalg.solve(root.T, whole) * np.sign(whole[:, 0] @ root.T @ shares)
    d, spread = mean[m, group], float(np.mean(var[m, group] / mean[m, group] ** 2))
    T[e][np.ix_(group, group)] = B
    T[other][np.ix_(group, group)] = d[:, None] * np.linalg.inv(B).T
    mean[m, group], var[m, group] = 1.0, spread
