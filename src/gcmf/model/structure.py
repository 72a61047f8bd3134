"""Which factors live where: what each is worth, which to switch off, which to cut in two.

The bound is compared before and after, with everything else held; see docs/model.md, "Structure". Each relation
that a factor reaches is charged ½ log n_m, the usual price of one more degree of freedom: without it, chance
alone would let a factor reach further in every second collection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gcmf.model.regression import divergences

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numpy.typing import NDArray

    from gcmf.engines.base import State
    from gcmf.model.posterior import Posterior, RelationScales
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]


#: By how many times the mean squares of a factor differ between entities with and without a relation if it is packed:
#: two things that share a column have scales of their own (20 in `h_yaleb`). Who rates much and who rates little differ
#: too, and of many entities the slightest difference would count.
UNLIKE = 4.0
#: Which entity sets hold a factor: a column of `on`.
Column = tuple[bool, ...]


class Change(NamedTuple):
    """Column k of `on` becomes `columns`: none (the factor dies), one (it shrinks) or several (it is cut)."""

    loss: float
    """What the bound loses by it, negative for a gain."""
    k: int
    columns: tuple[Column, ...]
    lost: tuple[int, ...] = ()
    """Relations that no longer see the factor."""
    reach: tuple[Column, ...] = ()
    """Which relations see each of the columns, where relations have scales; elsewhere their sets say so."""


class Pattern(NamedTuple):
    """Where factors live: in which sets, and in which relations."""

    on: Flags
    """(E, K)."""
    seen: Flags
    """(M, K)."""


def carried(spec: Spec, on: Flags, mate: NDArray[np.int64] | None = None) -> Flags:
    """Which factor reaches which relation: both its entity sets must hold it, (M, K); directed ones also its mate."""
    held = on[spec.sides]
    if mate is not None:
        held[1] = np.where(spec.directed[:, None], held[1][:, mate], held[1])
    return np.asarray(held[0] & held[1])


def reached(spec: Spec, posterior: Posterior) -> Flags:
    """Which factor reaches which relation, as the scales have it or as the sets imply, (M, K)."""
    return carried(spec, posterior.on) if posterior.scales is None else posterior.scales.on


def touched(spec: Spec, posterior: Posterior) -> Flags:
    """Which factor has to do with which relation, (M, K): in directed ones also as the mate of one that it sees."""
    there, scales = reached(spec, posterior), posterior.scales
    return there if scales is None else np.where(spec.directed[:, None], there | there[:, scales.mate], there)


def scale_costs(posterior: Posterior) -> Floats | float:
    """What being seen by a relation costs its scale: ½ log(⟨d²⟩/d̃), (M, K); nothing where there are none."""
    scales = posterior.scales
    if scales is None:
        return 0.0
    square, var = (np.where(scales.on, a, 1.0) for a in (scales.square, scales.var))
    return np.asarray(0.5 * np.log(square / var))


def costs(spec: Spec, posterior: Posterior) -> Floats:
    """What being on costs: ½ Σ_i log(S_ek/(d_e ũ_ik)), (E, K); zero where off.

    With covariates, S_ek is what the prior means leave, and the divergence of the coefficients is paid too.
    """
    on, S, d = posterior.on, posterior.moments.square, spec.n_entities[:, None]
    mean = S.sum(axis=0) / d.sum() if spec.common else S / d
    # Where α is fixed at 1, the cost is the divergence of q(u) from N(0, 1).
    prior = np.where(spec.unit_variance[:, None], S - d, d * np.log(np.where(on, mean, 1.0)))
    cost = 0.5 * (prior - posterior.moments.log_var)
    return np.where(on, cost + divergences(posterior) if posterior.regressions else cost, 0.0)


def changes(spec: Spec, posterior: Posterior, gain: Floats, energy: Floats, *, room: int) -> list[Change]:
    """Return changes that raise the bound even when made all at once; cuts add at most `room` columns.

    Taking several factors away from one relation loses at most ((Σ √energy)² − Σ energy)/2 beyond the sum of
    their gains (Cauchy-Schwarz), so they are taken cheapest first while that is still paid for.
    """
    taken, accepted = np.zeros(len(spec.ends)), []
    gain = gain - scale_costs(posterior)
    for change in sorted(single_changes(spec, posterior.on, gain, costs(spec, posterior), posterior.scales)):
        lost, extra = list(change.lost), max(len(change.columns) - 1, 0)
        root = np.sqrt(np.maximum(energy[lost, change.k], 0.0))
        if extra <= room and change.loss + float(taken[lost] @ root) < 0:
            accepted.append(change)
            taken[lost] += root
            room -= extra
    return accepted


def lacks_cells(spec: Spec) -> bool:
    """Whether some entity has cells in one of the relations of its set and none in another."""
    return any(not np.array_equal(spec.in_layer[layer], spec.observed[e])
               for e, layers in enumerate(spec.layers) for layer in layers)  # fmt: skip


def packed(spec: Spec, posterior: Posterior, state: State) -> list[tuple[float, Change]]:
    """Cuts of factors that entities with and without a relation use unlike, and the nats G that say so, most first.

    G = ½ [n log s − n₁ log s₁ − n₂ log s₂] with s the mean ⟨u²⟩ of all entities, of those with cells in the relation
    and of those without: what the prior of the factor would gain by telling the two apart. It counts only if it exceeds
    log n, twice the usual price of a degree of freedom, and s₁ and s₂ differ by `UNLIKE`. The cut parts this relation
    from the others of the set; relations of other sets go with either.
    """
    there, cuts = reached(spec, posterior), list[tuple[float, Change]]()
    for m, side in ((m, side) for m in range(len(spec.ends)) for side in range(2)):
        e, has = spec.ends[m][side], spec.in_layer[2 * m + side]
        square = np.asarray(state.mean[e], float) ** 2 + state.var[e]
        for k in np.flatnonzero(there[m]).tolist():
            others = [n for n in np.flatnonzero(there[:, k]).tolist() if n != m]
            beside = [n for n in others if e in spec.ends[n]]
            if not beside:
                continue
            known = np.any([spec.in_layer[2 * n + s] for n in beside for s in range(2) if spec.ends[n][s] == e], axis=0)
            groups = square[has, k], square[known & ~has, k]
            unlike = _unlike(*groups)
            if unlike > np.log(len(groups[0]) + len(groups[1])):
                away = [n for n in others if n not in beside]
                ways = [([m], others), ([m, *away], beside)] if away else [([m], others)]
                cuts += [(unlike, _cut(spec, posterior, k, parts)) for parts in ways]
    return sorted(cuts, key=lambda cut: -cut[0])


def _unlike(some: Floats, others: Floats) -> float:
    """G of two groups of squares; 0 where one is empty, or their means are of the same size."""
    if not (len(some) and len(others)) or not (some.any() and others.any()):
        return 0.0
    if not abs(np.log(some.mean() / others.mean())) > np.log(UNLIKE):
        return 0.0
    parts = [len(x) * np.log(x.mean()) for x in (np.concatenate([some, others]), some, others)]
    return float(0.5 * (parts[0] - parts[1] - parts[2]))


def _cut(spec: Spec, posterior: Posterior, k: int, parts: tuple[list[int], list[int]]) -> Change:
    """Cut factor k into what it is to these two groups of relations."""
    n_sets = len(posterior.on)
    columns = [(column, part) for part in parts for column in _parts(n_sets, [spec.ends[m] for m in part])]
    seen = tuple(_within(spec.ends, column, part) for column, part in columns)
    return Change(0.0, k, tuple(column for column, _ in columns), reach=() if posterior.scales is None else seen)


def single_changes(
    spec: Spec, on: Flags, gain: Floats, cost: Floats, scales: RelationScales | None = None
) -> Iterator[Change]:
    """Yield the best change of each factor that raises the bound when made alone.

    With scales, relations may stop one by one to see a factor; gains are then less the costs of scales.
    """
    net, seen = gain - spec.price[:, None], carried(spec, on) if scales is None else scales.on
    # The others gain more in each of their relations than they cost in all sets.
    doubtful = np.where(seen, net, np.inf).min(axis=0) < cost.sum(axis=0)
    for k in np.flatnonzero(doubtful).tolist():
        ends, own, relations = spec.ends, net[:, k].tolist(), None
        if scales is not None:
            # What the mate sends is lost too where this factor leaves the set.
            sent = np.flatnonzero(seen[:, scales.mate[k]] & spec.directed & (scales.mate[k] != k)).tolist()
            ends += tuple(spec.ends[m] for m in sent)
            own += net[sent, scales.mate[k]].tolist()
            relations = (*seen[:, k].tolist(), *[True] * len(sent))
        factor = _Factor(ends, k, tuple(on[:, k].tolist()), own, cost[:, k].tolist(), relations, len(spec.ends))
        best = factor.without(range(len(ends))) if spec.common else factor.best()
        if best.loss < 0:
            yield best


class _Factor(NamedTuple):
    """One factor: where it lives, what every relation gains from it and every set pays for it.

    Plain numbers and lists: the sets of a collection are few, and arrays of three items are slower.
    """

    ends: tuple[tuple[int, int], ...]
    k: int
    column: Column
    net: list[float]
    """Gain of each relation less its price."""
    cost: list[float]
    seen: Column | None = None
    """Which relations see the factor, where scales let each of them stop to by itself."""
    n_own: int | None = None
    """Relations after the first so many are what its mate sends in directed ones: they go where a set goes."""

    def best(self) -> Change:
        """The best of leaving everything, leaving entity sets, and leaving one relation, which may cut the factor.

        Where relations have scales, they may also be left one after the other.
        """
        reached = self._reached(self.column)
        thinned = [] if self.seen is None else [self._thin()]
        single = (self.without([m]) for m in reached[: self._n_free(reached)])
        return min([self.without(reached), self._shrink(), *single, *thinned])

    def _n_free(self, relations: list[int]) -> int:
        """How many of these relations, the first ones, may stop to see the factor by themselves."""
        return len(relations) if self.n_own is None else sum(m < self.n_own for m in relations)

    def _thin(self) -> Change:
        """Leave relations one after the other while that pays."""
        kept = self._reached(self.column)
        best = self._change(kept)
        while self._n_free(kept):
            smallest, at = min((self._change([m for m in kept if m != one]), one) for one in kept[: self._n_free(kept)])
            if smallest.loss >= best.loss:
                break
            best, kept = smallest, [m for m in kept if m != at]
        return best

    def without(self, relations: Collection[int]) -> Change:
        """Leave these relations."""
        return self._change([m for m in self._reached(self.column) if m not in relations])

    def _shrink(self) -> Change:
        """Leave entity sets one after the other while that pays."""
        best = self.without(())
        while best.columns:
            column = best.columns[0]
            smaller = [(*column[:e], False, *column[e + 1 :]) for e, held in enumerate(column) if held]
            whole = [change for one in smaller if len((change := self._change(self._reached(one))).columns) < 2]
            smallest = min(whole, default=best)
            if smallest.loss >= best.loss:
                break
            best = smallest
        return best

    def _reached(self, column: Column) -> list[int]:
        held = [m for m, (r, c) in enumerate(self.ends) if column[r] and column[c]]
        return held if self.seen is None else [m for m in held if self.seen[m]]

    def _change(self, kept: list[int]) -> Change:
        """Keep the factor in these relations and what they imply: one column per connected part."""
        columns = _parts(len(self.column), [self.ends[m] for m in kept])
        seen = {m for column in columns for m in self._reached(column)} if self.seen is None else set(kept)
        lost = tuple(m for m in self._reached(self.column) if m not in seen)
        left = [e for e, held in enumerate(self.column) if held and not any(column[e] for column in columns)]
        loss = sum(self.net[m] for m in lost) - sum(self.cost[e] for e in left)
        if self.seen is None:
            return Change(loss, self.k, columns, lost)
        reach = tuple(_within(self.ends, column, kept)[: self.n_own] for column in columns)
        return Change(loss, self.k, columns, lost[: self._n_free(list(lost))], reach)


def _within(ends: tuple[tuple[int, int], ...], column: Column, relations: Collection[int]) -> Column:
    """Which of the relations are between sets of a column, as a row of flags."""
    return tuple(m in relations and column[r] and column[c] for m, (r, c) in enumerate(ends))


def _parts(n: int, edges: list[tuple[int, int]]) -> tuple[Column, ...]:
    """Connected parts of the graph with these edges, as columns of `on`; lone sets have none."""
    label = list(range(n))
    for r, c in edges:
        old, new = label[r], label[c]
        label = [new if one == old else one for one in label]
    groups = sorted({label[r] for r, _ in edges})
    return tuple(tuple(one == group for one in label) for group in groups)


def roles(seen: Flags) -> tuple[list[str], list[list[int]]]:
    """Role of each factor, and the relations that see it, (M, K)."""
    reached = [np.flatnonzero(column).tolist() for column in seen.T]
    names = ["shared" if len(found) == len(seen) else "private" if len(found) == 1 else "partial" for found in reached]
    return names, reached
