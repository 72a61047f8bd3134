"""Which factors live where: what each is worth, which to switch off, which to cut in two.

The bound is compared before and after, with everything else held; see docs/model.md, "Structure". Each relation
that a factor reaches is charged ½ log n_m, the usual price of one more degree of freedom: without it, chance
alone would let a factor reach further in every second collection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.model.posterior import Posterior
    from gcmf.model.spec import Spec

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]


class Change(NamedTuple):
    """Column k of `on` becomes `columns`: none (the factor dies), one (it shrinks) or several (it is cut)."""

    loss: float
    """What the bound loses by it, negative for a gain."""
    k: int
    columns: tuple[tuple[bool, ...], ...]


def carried(spec: Spec, on: Flags) -> Flags:
    """Which factor reaches which relation: both its entity sets must hold it, (M, K)."""
    rows, cols = spec.sides
    return np.asarray(on[rows] & on[cols])


def costs(spec: Spec, posterior: Posterior) -> Floats:
    """What being on costs: ½ Σ_i log(S_ek/(d_e ũ_ik)), (E, K); zero where off."""
    S, d = posterior.moments.square, spec.n_entities[:, None]
    if spec.common:
        S, d = np.broadcast_to(S.sum(axis=0), S.shape), np.full_like(d, d.sum())
    out = np.zeros_like(S)
    for e, (var, seen) in enumerate(zip(posterior.state.var, spec.observed, strict=True)):
        k = posterior.on[e]
        logs = np.log(var[seen][:, k].astype(np.float64)).sum(axis=0)
        if spec.unit_variance[e]:
            # α is fixed at 1: the cost is the divergence of q(u) from N(0, 1).
            out[e, k] = 0.5 * (S[e, k] - spec.n_entities[e] - logs)
        else:
            out[e, k] = 0.5 * (spec.n_entities[e] * np.log(S[e, k] / d[e]) - logs)
    return out


def changes(spec: Spec, posterior: Posterior, gain: Floats, energy: Floats, *, room: int) -> list[Change]:
    """Return changes that raise the bound even when made all at once; cuts add at most `room` columns.

    Taking several factors away from one relation loses at most ((Σ √energy)² − Σ energy)/2 beyond the sum of
    their gains (Cauchy-Schwarz), so they are taken cheapest first while that is still paid for.
    """
    search = _Search(spec, posterior.on, gain, costs(spec, posterior))
    found = sorted(change for k in search.doubtful() for change in search.best(k))
    taken, accepted = np.zeros(len(spec.ends)), []
    for change in found:
        lost = search.lost(change)
        root = np.where(lost, np.sqrt(np.maximum(energy[:, change.k], 0.0)), 0.0)
        extra = max(len(change.columns) - 1, 0)
        if extra <= room and change.loss + float(taken @ root) < 0:
            accepted.append(change)
            taken += root
            room -= extra
    return accepted


class _Search(NamedTuple):
    """The best change of one factor, given what every relation gains from it and every set pays for it."""

    spec: Spec
    on: Flags
    gain: Floats
    cost: Floats

    def doubtful(self) -> list[int]:
        """Factors that might change: the rest gain more in each of their relations than they cost in all sets."""
        net = np.where(carried(self.spec, self.on), self.gain - self.spec.price[:, None], np.inf)
        return [int(k) for k in np.flatnonzero(net.min(axis=0) < self.cost.sum(axis=0))]

    def best(self, k: int) -> list[Change]:
        """At most one change, and only if the bound rises."""
        column = self.on[:, k]
        if self.spec.common:
            found = [self._change(k, np.zeros_like(column), None)]
        else:
            found = [
                self._shrink(k),
                *(self._change(k, column, m) for m in np.flatnonzero(self._reach(column)).tolist()),
            ]
        smallest = min(found)
        return [smallest] if smallest.loss < 0 else []

    def lost(self, change: Change) -> Flags:
        """Relations that no longer see the factor, (M,)."""
        after = np.zeros(len(self.spec.ends), dtype=bool)
        for column in change.columns:
            after |= self._reach(np.array(column))
        return self._reach(self.on[:, change.k]) & ~after

    def _reach(self, column: Flags) -> Flags:
        return carried(self.spec, column[:, None])[:, 0]

    def _shrink(self, k: int) -> Change:
        """Leave entity sets one after the other while that pays."""
        best = self._change(k, self.on[:, k], None)
        while best.columns:
            column = np.array(best.columns[0])
            trials = [self._change(k, column & (np.arange(len(column)) != e), None) for e in np.flatnonzero(column)]
            smallest = min(trials)
            if smallest.loss >= best.loss or len(smallest.columns) > 1:
                break
            best = smallest
        return best

    def _change(self, k: int, keep: Flags, without: int | None) -> Change:
        """Keep the factor in these sets, perhaps without one relation: one column per connected part."""
        edges = [m for m in np.flatnonzero(self._reach(keep)) if m != without]
        columns = _parts(len(keep), [self.spec.ends[m] for m in edges])
        change = Change(0.0, k, columns)
        still = np.any(columns, axis=0) if columns else np.zeros_like(keep)
        lost = self.lost(change)
        loss = (self.gain[lost, k] - self.spec.price[lost]).sum() - self.cost[self.on[:, k] & ~still, k].sum()
        return change._replace(loss=float(loss))


def _parts(n: int, edges: list[tuple[int, int]]) -> tuple[tuple[bool, ...], ...]:
    """Connected parts of the graph with these edges, as columns of `on`; lone sets have none."""
    label = list(range(n))
    for r, c in edges:
        old, new = label[r], label[c]
        label = [new if one == old else one for one in label]
    groups = sorted({label[r] for r, _ in edges})
    return tuple(tuple(one == group for one in label) for group in groups)


def roles(ends: tuple[tuple[int, int], ...], on: Flags) -> tuple[list[str], list[list[int]]]:
    """Role of each factor, and the relations it reaches."""
    reached = [[m for m, (r, c) in enumerate(ends) if on[r, k] and on[c, k]] for k in range(on.shape[1])]
    names = ["shared" if len(found) == len(ends) else "private" if len(found) == 1 else "partial" for found in reached]
    return names, reached
