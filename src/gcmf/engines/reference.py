"""The oracle: NumPy, one row at a time, in the order of docs/model.md. Slow on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from gcmf.engines.base import Block, Floats, Hyper, Problem, State


class ReferenceEngine:
    """Every update as the formula says, in float64."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._cells = [[[_row_cells(block, i) for i in range(d)] for block in blocks]
                       for d, blocks in zip(problem.sizes, problem.blocks, strict=True)]  # fmt: skip

    def place(self, state: State) -> None:
        """Take over these parameters."""
        self._state = state

    def fetch(self) -> State:
        """The current parameters."""
        return self._state

    def sweep(self, e: int, hyper: Hyper) -> Floats:
        """Update every row of entity set e, then measure the relations it completes."""
        for i in range(self._problem.sizes[e]):
            self._update_row(e, i, hyper)
        totals = np.full(self._problem.n_relations, np.nan)
        for b, block in enumerate(self._problem.blocks[e]):
            if self._problem.measured(e, b):
                totals[block.relation] = self._measure_block(e, b, hyper)
        return totals

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
        """m = ū_i·ū_j + b̄_i + b̄_j and v = Σ_k [ū²_ik ũ_jk + ũ_ik ū²_jk + ũ_ik ũ_jk] + b̃_i + b̃_j."""
        s = self._state
        u, u_var = _f8(s.mean[e][i]), _f8(s.var[e][i])
        p, p_var = _f8(s.mean[block.other][j]), _f8(s.var[block.other][j])
        mine, theirs = block.layer, block.other_layer
        m = p @ u + s.bias_mean[mine][i] + s.bias_mean[theirs][j]
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
            wt = wz - w * s.bias_mean[block.other_layer][j]
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
            y = np.linalg.solve(A, h)
        else:
            # The paper's step: all of u at once, damped, then the biases given the new u.
            y = np.concatenate([_f8(s.mean[e][i, on]), [s.bias_mean[layer][i] for layer in layers]])
            step = (A @ y - h) / np.diag(A)
            y[:n_u] -= hyper.damping * step[:n_u]
            y[n_u:] = (h[n_u:] - A[n_u:, :n_u] @ y[:n_u]) / np.diag(A)[n_u:]
        y = np.where(seen, y, 0.0)
        var = np.where(seen & (not hyper.point), 1.0 / np.diag(A), 0.0)
        s.mean[e][i] = 0.0
        s.var[e][i] = 0.0
        s.mean[e][i, on], s.var[e][i, on] = y[:n_u], var[:n_u]
        for b, layer in enumerate(layers):
            s.bias_mean[layer][i], s.bias_var[layer][i] = y[n_u + b], var[n_u + b]


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


def _f8(a: np.ndarray) -> Floats:
    return a.astype(np.float64)
