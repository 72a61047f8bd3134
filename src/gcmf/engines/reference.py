"""The oracle: NumPy, one row at a time, in the order of docs/model.md. Slow on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.engines.base import MAX_HALVINGS, QUADRATURE, Swept

if TYPE_CHECKING:
    from gcmf.engines.base import Block, Floats, Hyper, Problem, State

    Form = tuple[Floats, Floats, Floats, Floats, Floats]
    Row = tuple[Floats, Floats, Floats, Floats]


class ReferenceEngine:
    """Every update as the formula says, in float64."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._cells = [[[_row_cells(block, i) for i in range(d)] for block in blocks]
                       for d, blocks in zip(problem.sizes, problem.blocks, strict=True)]  # fmt: skip

    def place(self, state: State) -> None:
        """Take over these parameters."""
        self._state = state

    def sweep(self, e: int, hyper: Hyper) -> Swept:
        """Update every row of entity set e, and bound the relations it completes."""
        blocks, totals = self._problem.blocks[e], np.full(self._problem.n_relations, np.nan)
        completed = [b for b in range(len(blocks)) if self._problem.measured(e, b)]
        totals[[blocks[b].relation for b in completed]] = 0.0
        for i in range(self._problem.sizes[e]):
            before = [self._form(e, i, b, hyper) for b in completed]
            self._update_row(e, i, hyper)
            for b, form in zip(completed, before, strict=True):
                totals[blocks[b].relation] += self._bound_row(e, i, b, form, hyper)
        return self._summary(e, totals)

    def _form(self, e: int, i: int, b: int, hyper: Hyper) -> Form:
        """m, v, w, wz and the bound of the cells of row i in block b."""
        block, (j, x) = self._problem.blocks[e][b], self._cells[e][b][i]
        weight, (m, v) = hyper.weight[block.relation], self._moments(e, i, block, j)
        return m, v, *block.likelihood.quadratic(x, m, v, weight), block.likelihood.lower_bound(x, m, v, weight)

    def _bound_row(self, e: int, i: int, b: int, form: Form, hyper: Hyper) -> float:
        """Σ [ bound + wz (m′ − m) − w/2 (m′² + v′ − m² − v) ], m′ and v′ after the row's step; Gaussian is exact."""
        block = self._problem.blocks[e][b]
        if block.likelihood.code in (0, QUADRATURE) or self._guarded(e, hyper):
            return float(self._form(e, i, b, hyper)[-1].sum())
        m, v, w, wz, bound = form
        new, new_v = self._moments(e, i, block, self._cells[e][b][i][0])
        return float((bound + wz * (new - m) - 0.5 * w * (new**2 + new_v - m**2 - v)).sum())

    def _summary(self, e: int, totals: Floats) -> Swept:
        s, layers = self._state, [block.layer for block in self._problem.blocks[e]]
        mean, var = _f8(s.mean[e]), _f8(s.var[e])
        bias, bias_var = (np.stack([_f8(a[n]) for n in layers]) for a in (s.bias_mean, s.bias_var))
        return Swept(
            totals, (mean**2 + var).sum(axis=0), _sum_log(var), np.array(layers),
            np.stack([bias.sum(axis=1), (bias**2 + bias_var).sum(axis=1), _sum_log(bias_var.T)]),
        )  # fmt: skip

    def measure(self, hyper: Hyper) -> Floats:
        """Sum of the cells' bounds per relation, at the current parameters."""
        totals = np.empty(self._problem.n_relations)
        for e, blocks in enumerate(self._problem.blocks):
            for b, block in enumerate(blocks):
                if block.side == 0:
                    totals[block.relation] = self._measure_block(e, b, hyper)
        return totals

    def weigh(self, hyper: Hyper) -> tuple[Floats, Floats]:
        """Gain w [2 r p + p² − v_k]/2 and energy w p² of each factor, summed over each relation's cells."""
        shape = (self._problem.n_relations, hyper.on.shape[1])
        gain, energy, s = np.zeros(shape), np.zeros(shape), self._state
        for e, blocks in enumerate(self._problem.blocks):
            for b, block in enumerate(blocks):
                for i, (j, x) in enumerate(self._cells[e][b] if block.side == 0 else ()):
                    m, v = self._moments(e, i, block, j)
                    w, wz = block.likelihood.quadratic(x, m, v, hyper.weight[block.relation])
                    u, u_var = _f8(s.mean[e][i]), _f8(s.var[e][i])
                    p_j, p_var = _f8(s.mean[block.other][j]), _f8(s.var[block.other][j])
                    p, spread = u * p_j, (u**2 + u_var) * p_var + u_var * p_j**2
                    gain[block.relation] += (wz - w * m) @ p + 0.5 * w @ (p**2 - spread)
                    energy[block.relation] += w @ p**2
        return gain, energy

    def _measure_block(self, e: int, b: int, hyper: Hyper) -> float:
        block = self._problem.blocks[e][b]
        total = 0.0
        for i, (j, x) in enumerate(self._cells[e][b]):
            m, v = self._moments(e, i, block, j)
            total += float(block.likelihood.lower_bound(x, m, v, hyper.weight[block.relation]).sum())
        return total

    def _moments(self, e: int, i: int, block: Block, j: np.ndarray) -> tuple[Floats, Floats]:
        """m = ū_i·ū_j + b̄_i + b̄_j + offset and v = Σ_k [ū²_ik ũ_jk + ũ_ik ū²_jk + ũ_ik ũ_jk] + b̃_i + b̃_j."""
        s = self._state
        u, u_var = _f8(s.mean[e][i]), _f8(s.var[e][i])
        p, p_var = _f8(s.mean[block.other][j]), _f8(s.var[block.other][j])
        mine, theirs = block.layer, block.other_layer
        m = p @ u + s.bias_mean[mine][i] + s.bias_mean[theirs][j] + block.offset
        v = p_var @ (u**2 + u_var) + p**2 @ u_var + s.bias_var[mine][i] + s.bias_var[theirs][j]
        return m, v

    def _update_row(self, e: int, i: int, hyper: Hyper) -> None:
        """Solve (6.1) with the row's biases: means jointly, variances 1/diag."""
        blocks, s = self._problem.blocks[e], self._state
        on = np.flatnonzero(hyper.on[e])
        n, n_u = len(on) + len(blocks), len(on)
        A, h, seen = np.zeros((n, n)), np.zeros(n), np.zeros(n, dtype=bool)
        A[:n_u, :n_u] = np.diag(hyper.alpha[e, on])
        for b, block in enumerate(blocks):
            j, x = self._cells[e][b][i]
            biased = self._problem.biased[block.layer]
            A[n_u + b, n_u + b] = hyper.bias_precision[block.layer] if biased and len(j) else 1.0
            if len(j) == 0:
                continue
            m, v = self._moments(e, i, block, j)
            w, wz = block.likelihood.quadratic(x, m, v, hyper.weight[block.relation])
            wt = wz - w * (s.bias_mean[block.other_layer][j] + block.offset)
            p, p_var = _f8(s.mean[block.other][np.ix_(j, on)]), _f8(s.var[block.other][np.ix_(j, on)])
            A[:n_u, :n_u] += (p.T * w) @ p + np.diag(w @ p_var)
            h[:n_u] += wt @ p
            seen[:n_u] = True
            if biased:
                seen[n_u + b] = True
                A[:n_u, n_u + b] = A[n_u + b, :n_u] = w @ p
                A[n_u + b, n_u + b] += w.sum()
                h[n_u + b] = wt.sum() + hyper.bias_precision[block.layer] * hyper.bias_mean[block.layer]
        self._write_row(e, i, (A, h, seen), hyper)

    def _write_row(self, e: int, i: int, system: tuple[Floats, Floats, np.ndarray], hyper: Hyper) -> None:
        A, h, seen = system
        s, blocks, on = self._state, self._problem.blocks[e], np.flatnonzero(hyper.on[e])
        layers = [block.layer for block in blocks]
        n_u = len(on)
        if hyper.damping is None:
            y = np.asarray(np.linalg.solve(A, h))
        else:
            # The paper's step: all of u at once, damped, then the biases given the new u.
            y = np.concatenate([_f8(s.mean[e][i, on]), [s.bias_mean[layer][i] for layer in layers]])
            step = (A @ y - h) / np.diag(A)
            y[:n_u] -= hyper.damping * step[:n_u]
            y[n_u:] = (h[n_u:] - A[n_u:, :n_u] @ y[:n_u]) / np.diag(A)[n_u:]
        y = np.where(seen, y, 0.0)
        var = np.asarray(np.where(seen & (not hyper.point), 1.0 / np.diag(A), 0.0))
        self._step_row(e, i, hyper, (y[:n_u], var[:n_u], y[n_u:], var[n_u:]))

    def _step_row(self, e: int, i: int, hyper: Hyper, new: Row) -> None:
        """Set the row; where a likelihood has no quadratic bound, halve the step until the row's value holds."""
        if not (self._guarded(e, hyper) and new[0].size + np.count_nonzero(new[3])):
            self._set_row(e, i, hyper, new)
            return
        old = self._get_row(e, i, hyper)
        before = self._row_value(e, i, hyper)
        for _ in range(MAX_HALVINGS):
            self._set_row(e, i, hyper, new)
            if self._row_value(e, i, hyper) >= before - 1e-13 * abs(before):
                return
            new = ((new[0] + old[0]) / 2, _halfway(new[1], old[1]), (new[2] + old[2]) / 2, _halfway(new[3], old[3]))
        self._set_row(e, i, hyper, old)

    def _guarded(self, e: int, hyper: Hyper) -> bool:
        return hyper.damping is None and any(b.likelihood.code == QUADRATURE for b in self._problem.blocks[e])

    def _get_row(self, e: int, i: int, hyper: Hyper) -> Row:
        s, on, layers = self._state, np.flatnonzero(hyper.on[e]), [b.layer for b in self._problem.blocks[e]]
        biases = ([s.bias_mean[layer][i] for layer in layers], [s.bias_var[layer][i] for layer in layers])
        return _f8(s.mean[e][i, on]), _f8(s.var[e][i, on]), np.array(biases[0], float), np.array(biases[1], float)

    def _set_row(self, e: int, i: int, hyper: Hyper, row: Row) -> None:
        s, on = self._state, np.flatnonzero(hyper.on[e])
        s.mean[e][i], s.var[e][i] = 0.0, 0.0
        s.mean[e][i, on], s.var[e][i, on] = row[0], row[1]
        for b, block in enumerate(self._problem.blocks[e]):
            s.bias_mean[block.layer][i], s.bias_var[block.layer][i] = row[2][b], row[3][b]

    def _row_value(self, e: int, i: int, hyper: Hyper) -> float:
        """The terms of the bound that depend on one row: its cells, its factors and its biases."""
        mean, var, bias, bias_var = self._get_row(e, i, hyper)
        entropy = 0.0 if hyper.point else 0.5
        value = float(-0.5 * hyper.alpha[e, hyper.on[e]] @ (mean**2 + var))
        with np.errstate(divide="ignore"):
            value += float(np.log(var).sum()) * entropy if entropy else 0.0
            for b, block in enumerate(self._problem.blocks[e]):
                j, x = self._cells[e][b][i]
                weight = hyper.weight[block.relation]
                part = float(block.likelihood.lower_bound(x, *self._moments(e, i, block, j), weight).sum())
                value += part if block.likelihood.code else -0.5 * weight * part
                if self._problem.biased[block.layer] and len(j):
                    away = bias[b] - hyper.bias_mean[block.layer]
                    value -= 0.5 * float(hyper.bias_precision[block.layer] * (away**2 + bias_var[b]))
                    value += float(np.log(bias_var[b])) * entropy if entropy else 0.0
        return value


def _row_cells(block: Block, i: int) -> tuple[np.ndarray, Floats]:
    """Partners and standardised values of the cells that row i has in this block."""
    side = block.cells
    lo, hi = side.indptr[i], side.indptr[i + 1]
    partner, value = side.partner[lo:hi], side.value[lo:hi].astype(np.float64)
    if side.value.dtype == np.uint8:
        value[value == 255] = np.nan
    if side.members is not None:
        if side.covered is None or not side.covered[i]:
            return np.empty(0, dtype=np.int32), np.empty(0)
        full = np.zeros(len(side.members))
        full[partner] = value
        partner, value = side.members[~np.isnan(full)], full[~np.isnan(full)]
    return partner, (value - block.center) / block.scale


def _halfway(new: Floats, old: Floats) -> Floats:
    """Halve the step of variances in their precisions."""
    total = new + old
    return np.where(total > 0, 2 * new * old / np.where(total > 0, total, 1.0), new)


def _sum_log(var: Floats) -> Floats:
    """Σ log ũ over the entities that have a variance."""
    return np.asarray(np.log(np.where(var > 0, var, 1.0)).sum(axis=0))


def _f8(a: np.ndarray) -> Floats:
    return a.astype(np.float64)
