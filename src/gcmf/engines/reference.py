"""The oracle: NumPy, one row at a time, in the order of docs/model.md. Slow on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.engines.base import MAX_HALVINGS, Swept, proposes
from gcmf.engines.host import HostState, no_scaling, noise_sums
from gcmf.engines.order import order_of

if TYPE_CHECKING:
    from gcmf.engines.base import Array, Block, Floats, Given, Problem

    Form = tuple[Floats, Floats, Floats, Floats, Floats]
    Row = tuple[Floats, Floats, Floats, Floats]
    System = tuple[Floats, Floats, np.ndarray]


class ReferenceEngine(HostState):
    """Every update as the formula says, in float64."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._cells = [[[_row_cells(block, i) for i in range(d)] for block in blocks]
                       for d, blocks in zip(problem.sizes, problem.blocks, strict=True)]  # fmt: skip

    def sweep(self, e: int, given: Given) -> Swept:
        """Update every row of entity set e, and bound the relations it completes."""
        blocks, totals = self._problem.blocks[e], np.full(self._problem.n_relations, np.nan)
        completed = [b for b in range(len(blocks)) if self._problem.measured(e, b)]
        totals[[blocks[b].relation for b in completed]] = 0.0
        scaling = no_scaling(self._problem, given)
        self._writable()
        order = order_of(self._problem, e)
        for i in range(self._problem.sizes[e]) if order is None else order.rows.tolist():
            forms = [self._form(e, i, b, given) for b in range(len(blocks))]
            self._update_row(e, i, given, forms)
            self._update_noise(e, i, given)
            for b in completed:
                form = self._form(e, i, b, given) if blocks[b].likelihood.least_squares else forms[b]
                totals[blocks[b].relation] += self._bound_row(e, i, b, form, given)
                if given.scales is not None:
                    scaling[blocks[b].relation] += self._scaling_row(e, i, b, form, given)
        for b, block in enumerate(blocks):
            if self._problem.own(e, b):
                totals[block.relation] = block.times * self._measure_block(e, b, given)
                for i in range(self._problem.sizes[e] if given.scales is not None else 0):
                    row = self._scaling_row(e, i, b, self._form(e, i, b, given, again=True), given)
                    scaling[block.relation] += block.times * row
        return self._summary(e, totals, scaling, given)

    def lean(self, e: int, k: int, given: Given) -> Floats:
        """1/C_kk − α and y_k/C_kk − α m, with C = A⁻¹ and y = A⁻¹h of each row."""
        out, at = np.zeros((2, self._problem.sizes[e])), int(given.on[e][:k].sum())
        for i in range(self._problem.sizes[e]):
            A, h, seen = self._system(e, i, given, [self._form(e, i, b, given) for b in range(len(self._cells[e]))])
            if not seen.any():
                continue
            spread, (mean, precision) = np.linalg.inv(A)[at, at], self._expected(e, i, given)
            found = np.linalg.solve(A, h)[at]
            out[:, i] = max(1.0 / spread - precision[at], 0.0), found / spread - precision[at] * mean[at]
        return out

    def _form(self, e: int, i: int, b: int, given: Given, *, again: bool = False) -> Form:
        """m, v, w, wz and the values of the cells of row i in block b; `again`: with other random numbers."""
        block, (j, x, times) = self._problem.blocks[e][b], self._cells[e][b][i]
        p, (m, v) = given.parameters[block.relation], self._moments(e, i, block, j, given)
        times = times * self._precision(block.layer, i, given) * self._precision(block.other_layer, j, given)
        value = times * (block.likelihood.value(x, m, v, p) + given.floor_of(block.relation))
        if given.key is None or block.likelihood.trials is None or proposes(block, given):
            w, wz = block.likelihood.quadratic(x, m, v, p)
            return m, v, times * w, times * wz, value
        n, shift = block.likelihood.trials(x, p)
        times = times * block.likelihood.times(x)
        w = polya_gamma(times * n, m - shift, np.random.default_rng([given.key, e, i, b, again]))
        return m, v, w, times * (x - n / 2.0) + w * shift, value

    def _precision(self, layer: int, at: Array | int, given: Given) -> Floats | float:
        """⟨ρ⟩ of rows of a layer; 1 where they have the noise of the relation."""
        return self._state.precision[layer][at] if given.is_noisy(layer) else 1.0

    def _update_noise(self, e: int, i: int, given: Given) -> None:
        """⟨ρ_i⟩ = shape/rate from τ Σ_j σ_j e_ij; draws leave it as it is."""
        for b, block in enumerate(self._problem.blocks[e]):
            if given.key is not None or given.noise is None or block.noise_cells is None:
                continue
            half, rho = float(given.noise[block.layer]), self._state.precision[block.layer]
            if np.isfinite(half) and block.noise_cells[i] > 0:
                total = -2.0 * given.slope[block.relation] * self._form(e, i, b, given)[-1].sum() / rho[i]
                rho[i] = (half + block.noise_cells[i] / 2.0) / (half + total / 2.0)

    def _bound_row(self, e: int, i: int, b: int, form: Form, given: Given) -> float:
        """Σ value + [ wz (m′ − m) − w/2 (m′² + v′ − m² − v) ]/slope, m′ and v′ after the row's step.

        Least squares need no form, and without a bound, or where steps were guarded, the cells are looked at again.
        """
        block = self._problem.blocks[e][b]
        if block.likelihood.least_squares or self._guarded(e):
            return float(self._form(e, i, b, given)[-1].sum())
        m, v, w, wz, value = form
        new, new_v = self._moments(e, i, block, self._cells[e][b][i][0], given)
        step = wz * (new - m) - 0.5 * w * (new**2 + new_v - m**2 - v)
        return float((value + step / given.slope[block.relation]).sum())

    def _scaling_row(self, e: int, i: int, b: int, form: Form, given: Given) -> Floats:
        """Σ w p pᵀ, Σ w (z − b̄_i − b̄_j) p and Σ w ⟨d²⟩⟨u_i²⟩⟨u_j²⟩ of a row's cells, with the forms before its step."""
        block, s, j = self._problem.blocks[e][b], self._state, self._cells[e][b][i][0]
        _, _, w, wz, _ = form
        u, u_var = _f8(s.mean[e][i]), _f8(s.var[e][i])
        theirs, their_var = self._partners(block, j, given)
        p = u * theirs
        rest = wz - w * (s.bias_mean[block.layer][i] + s.bias_mean[block.other_layer][j] + block.offset)
        return np.vstack([(p.T * w) @ p, rest @ p, (u**2 + u_var) * (w @ (theirs**2 + their_var))])

    def _partners(self, block: Block, j: np.ndarray, given: Given) -> tuple[Floats, Floats]:
        """Means and variances of the partners' factors as a row of this block sees them, times the scales."""
        mean, var = _f8(self._state.mean[block.other][j]), _f8(self._state.var[block.other][j])
        return (mean, var) if given.scales is None else given.scales.scaled(block.relation, block.side, mean, var)

    def _summary(self, e: int, totals: Floats, scaling: Floats, given: Given) -> Swept:
        s, layers = self._state, [block.layer for block in self._problem.blocks[e]]
        present = np.any([self._has_cells[layer] for layer in layers], axis=0)[:, None]
        mean, var = _f8(s.mean[e]) - np.where(present & given.on[e], given.priors[e].mean, 0.0), _f8(s.var[e])
        bias, bias_var = (np.stack([_f8(a[n]) for n in layers]) for a in (s.bias_mean, s.bias_var))
        return Swept(
            totals, (mean**2 + var).sum(axis=0), _sum_log(var), np.array(layers),
            np.stack([bias.sum(axis=1), (bias**2 + bias_var).sum(axis=1), _sum_log(bias_var.T)]), scaling,
            noise_sums(self._problem, e, given, s),
        )  # fmt: skip

    def measure(self, given: Given) -> Floats:
        """Summed values of the cells per relation, at the current parameters."""
        totals = np.empty(self._problem.n_relations)
        for e, blocks in enumerate(self._problem.blocks):
            for b, block in enumerate(blocks):
                if block.side == 0:
                    totals[block.relation] = block.times * self._measure_block(e, b, given)
        return totals

    def weigh(self, given: Given) -> tuple[Floats, Floats]:
        """Gain w [2 r p + p² − v_k]/2 and energy w p² of each factor, summed over each relation's cells."""
        shape = (self._problem.n_relations, given.on.shape[1])
        gain, energy, s = np.zeros(shape), np.zeros(shape), self._state
        for e, blocks in enumerate(self._problem.blocks):
            for b, block in enumerate(blocks):
                for i, (j, _, _) in enumerate(self._cells[e][b] if block.side == 0 else ()):
                    m, _, w, wz, _ = self._form(e, i, b, given)
                    w, wz = block.times * w, block.times * wz
                    u, u_var = _f8(s.mean[e][i]), _f8(s.var[e][i])
                    p_j, p_var = self._partners(block, j, given)
                    p, spread = u * p_j, (u**2 + u_var) * p_var + u_var * p_j**2
                    gain[block.relation] += (wz - w * m) @ p + 0.5 * w @ (p**2 - spread)
                    energy[block.relation] += w @ p**2
        return gain, energy

    def _measure_block(self, e: int, b: int, given: Given) -> float:
        return sum(float(self._form(e, i, b, given)[-1].sum()) for i in range(self._problem.sizes[e]))

    def _moments(self, e: int, i: int, block: Block, j: np.ndarray, given: Given) -> tuple[Floats, Floats]:
        """m = ū_i·ū_j + b̄_i + b̄_j + offset and v = Σ_k [ū²_ik ũ_jk + ũ_ik ū²_jk + ũ_ik ũ_jk] + b̃_i + b̃_j.

        Where there are scales, d u_j takes the place of u_j.
        """
        s = self._state
        u, u_var = _f8(s.mean[e][i]), _f8(s.var[e][i])
        p, p_var = self._partners(block, j, given)
        mine, theirs = block.layer, block.other_layer
        m = p @ u + s.bias_mean[mine][i] + s.bias_mean[theirs][j] + block.offset
        v = p_var @ (u**2 + u_var) + p**2 @ u_var + s.bias_var[mine][i] + s.bias_var[theirs][j]
        return m, v

    def _update_row(self, e: int, i: int, given: Given, forms: list[Form]) -> None:
        """Solve the row's system with its biases: means jointly, variances 1/diag. Or draw the row from it."""
        if given.key is None:
            self._write_row(e, i, self._system(e, i, given, forms), given)
        else:
            self._draw_row(e, i, given, forms)

    def _system(self, e: int, i: int, given: Given, forms: list[Form]) -> System:
        """A and h of the row's factors and biases, and which of them are there."""
        blocks, s = self._problem.blocks[e], self._state
        on = np.flatnonzero(given.on[e])
        n, n_u = len(on) + len(blocks), len(on)
        A, h, seen = np.zeros((n, n)), np.zeros(n), np.zeros(n, dtype=bool)
        mean, precision = self._expected(e, i, given)
        A[:n_u, :n_u], h[:n_u] = np.diag(precision), precision * mean
        for b, block in enumerate(blocks):
            j = self._cells[e][b][i][0]
            biased = self._problem.biased[block.layer]
            prior_mean, prior = (values[b] for values in self._expected_bias(e, i, given))
            A[n_u + b, n_u + b] = prior if biased and len(j) else 1.0
            if len(j) == 0:
                continue
            _, _, w, wz, _ = forms[b]
            wt = wz - w * (s.bias_mean[block.other_layer][j] + block.offset)
            p, p_var = (a[:, on] for a in self._partners(block, j, given))
            A[:n_u, :n_u] += (p.T * w) @ p + np.diag(w @ p_var)
            h[:n_u] += wt @ p
            seen[:n_u] = True
            if biased:
                seen[n_u + b] = True
                A[:n_u, n_u + b] = A[n_u + b, :n_u] = w @ p
                A[n_u + b, n_u + b] += w.sum()
                h[n_u + b] = wt.sum() + prior * prior_mean
        return A, h, seen

    def _draw_row(self, e: int, i: int, given: Given, forms: list[Form]) -> None:
        """u′ ~ N(A⁻¹h, A⁻¹); where some cells have no Gaussian form, a proposal q(u′|u), taken as Metropolis does.

        log r = log p(u′, x) − log p(u, x) + log q(u|u′) − log q(u′|u).
        """
        rng, blocks = np.random.default_rng([given.key or 0, e, i]), self._problem.blocks[e]
        proposed = [b for b, block in enumerate(blocks) if proposes(block, given)]
        A, h, seen = self._system(e, i, given, forms)
        n_u, mean, old = int(given.on[e].sum()), np.linalg.solve(A, h), self._get_row(e, i, given)
        noise = np.linalg.solve(np.linalg.cholesky(A).T, rng.standard_normal(len(h)))
        y, none = np.where(seen, mean + noise, 0.0), np.zeros(len(h))
        here = self._log_joint(e, i, given, forms) + _log_normal(y[seen], mean[seen], A[np.ix_(seen, seen)])
        self._set_row(e, i, given, (y[:n_u], none[:n_u], y[n_u:], none[n_u:]))
        if not proposed:
            return
        forms = [self._form(e, i, b, given) if b in proposed else form for b, form in enumerate(forms)]
        A, h, _ = self._system(e, i, given, forms)
        before, mean = np.concatenate([old[0], old[2]]), np.linalg.solve(A, h)
        there = self._log_joint(e, i, given, forms) + _log_normal(before[seen], mean[seen], A[np.ix_(seen, seen)])
        if not np.log(rng.random()) < there - here:
            self._set_row(e, i, given, old)

    def _log_joint(self, e: int, i: int, given: Given, forms: list[Form]) -> float:
        """Log density of a row that is a point and of its cells, those with drawn weights by Σ wz θ − w θ²/2."""
        u, _, bias, _ = self._get_row(e, i, given)
        (mean, precision), (expected, of_bias) = self._expected(e, i, given), self._expected_bias(e, i, given)
        total = -0.5 * float(precision @ (u - mean) ** 2)
        for b, block in enumerate(self._problem.blocks[e]):
            j, _, w, wz, _ = self._cells[e][b][i][0], *forms[b][1:]
            if proposes(block, given):
                total += given.slope[block.relation] * float(self._form(e, i, b, given)[-1].sum())
            else:
                theta = self._moments(e, i, block, j, given)[0]
                total += float(wz @ theta - 0.5 * w @ theta**2)
            if self._problem.biased[block.layer] and len(j):
                total -= 0.5 * float(of_bias[b] * (bias[b] - expected[b]) ** 2)
        return total

    def _write_row(self, e: int, i: int, system: System, given: Given) -> None:
        A, h, seen = system
        n_u = int(given.on[e].sum())
        y = np.where(seen, np.linalg.solve(A, h), 0.0)
        var = np.asarray(np.where(seen & (not given.priors[e].point), 1.0 / np.diag(A), 0.0))
        self._step_row(e, i, given, (y[:n_u], var[:n_u], y[n_u:], var[n_u:]))

    def _step_row(self, e: int, i: int, given: Given, new: Row) -> None:
        """Set the row; where a likelihood has no quadratic bound, halve the step until the row's value holds."""
        if not (self._guarded(e) and new[0].size + np.count_nonzero(new[3])):
            self._set_row(e, i, given, new)
            return
        old = self._get_row(e, i, given)
        before = self._row_value(e, i, given)
        for _ in range(MAX_HALVINGS):
            self._set_row(e, i, given, new)
            if self._row_value(e, i, given) >= before - 1e-13 * abs(before):
                return
            new = ((new[0] + old[0]) / 2, _halfway(new[1], old[1]), (new[2] + old[2]) / 2, _halfway(new[3], old[3]))
        self._set_row(e, i, given, old)

    def _guarded(self, e: int) -> bool:
        return not all(block.likelihood.quadratic_is_bound for block in self._problem.blocks[e])

    def _expected(self, e: int, i: int, given: Given) -> tuple[Floats, Floats]:
        """Prior mean and precision of the factors of row i that are on."""
        prior, on, shape = given.priors[e], given.on[e], (self._problem.sizes[e], given.on.shape[1])
        return np.broadcast_to(prior.mean, shape)[i, on], np.broadcast_to(prior.precision, shape)[i, on]

    def _expected_bias(self, e: int, i: int, given: Given) -> tuple[Floats, Floats]:
        """Prior means and precisions of the biases of row i."""
        prior, shape = given.priors[e], (self._problem.sizes[e], len(self._problem.blocks[e]))
        return np.broadcast_to(prior.bias_mean, shape)[i], np.broadcast_to(prior.bias_precision, shape)[i]

    def _get_row(self, e: int, i: int, given: Given) -> Row:
        s, on, layers = self._state, np.flatnonzero(given.on[e]), [b.layer for b in self._problem.blocks[e]]
        biases = ([s.bias_mean[layer][i] for layer in layers], [s.bias_var[layer][i] for layer in layers])
        return _f8(s.mean[e][i, on]), _f8(s.var[e][i, on]), np.array(biases[0], float), np.array(biases[1], float)

    def _set_row(self, e: int, i: int, given: Given, row: Row) -> None:
        s, on = self._state, np.flatnonzero(given.on[e])
        s.mean[e][i], s.var[e][i] = 0.0, 0.0
        s.mean[e][i, on], s.var[e][i, on] = row[0], row[1]
        for b, block in enumerate(self._problem.blocks[e]):
            s.bias_mean[block.layer][i], s.bias_var[block.layer][i] = row[2][b], row[3][b]

    def _row_value(self, e: int, i: int, given: Given) -> float:
        """The terms of the bound that depend on one row: its cells, its factors and its biases."""
        mean, var, bias, bias_var = self._get_row(e, i, given)
        prior, (expected, precision) = given.priors[e], self._expected(e, i, given)
        entropy = 0.0 if prior.point else 0.5
        value = float(-0.5 * precision @ ((mean - expected) ** 2 + var))
        with np.errstate(divide="ignore"):
            value += float(np.log(var).sum()) * entropy if entropy else 0.0
            for b, block in enumerate(self._problem.blocks[e]):
                j = self._cells[e][b][i][0]
                value += given.slope[block.relation] * float(self._form(e, i, b, given)[-1].sum())
                if self._problem.biased[block.layer] and len(j):
                    center, precise = (values[b] for values in self._expected_bias(e, i, given))
                    value -= 0.5 * float(precise * ((bias[b] - center) ** 2 + bias_var[b]))
                    value += float(np.log(bias_var[b])) * entropy if entropy else 0.0
        return value


def _row_cells(block: Block, i: int) -> tuple[np.ndarray, Floats, Floats | float]:
    """Partners and standardised values of the cells that row i has in this block, and how many each stands for."""
    (partner, value), side = block.cells.row(i), block.cells
    times = 1.0 if side.weight is None else _f8(side.weight[side.indptr[i] : side.indptr[i + 1]])
    return partner, (value - block.center) / block.scale, times


def _log_normal(y: Array, mean: Array, precision: Floats) -> float:
    """Log N(y; mean, precision⁻¹), without its constant."""
    return float(0.5 * (np.linalg.slogdet(precision)[1] - (y - mean) @ precision @ (y - mean)))


def polya_gamma(b: Floats, c: Floats, rng: np.random.Generator) -> Floats:
    """ω ~ PG(b, c), 1/(2π²) Σ g_k/((k − ½)² + c²/(4π²)) with g_k ~ Gamma(b, 1): 200 terms, and the mean of the rest."""
    k, a2 = np.arange(200) + 0.5, (c[:, None] / (2.0 * np.pi)) ** 2
    g = rng.gamma(np.broadcast_to(b[:, None], (len(b), len(k))))
    rest = b * (np.arctan2(np.abs(c), 400.0 * np.pi) / np.where(c == 0.0, 1.0, np.abs(c) / (2.0 * np.pi)))
    rest = np.where(c == 0.0, b / 200.0, rest)
    return np.asarray(((g / (k**2 + a2)).sum(axis=1) + rest) / (2.0 * np.pi**2))


def _halfway(new: Floats, old: Floats) -> Floats:
    """Halve the step of variances in their precisions."""
    total = new + old
    return np.where(total > 0, 2 * new * old / np.where(total > 0, total, 1.0), new)


def _sum_log(var: Floats) -> Floats:
    """Σ log ũ over the entities that have a variance."""
    return np.asarray(np.log(np.where(var > 0, var, 1.0)).sum(axis=0))


def _f8(a: np.ndarray) -> Floats:
    return a.astype(np.float64)
