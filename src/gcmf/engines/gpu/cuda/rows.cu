// What is done with rows once their cells are summed up: solve, write, bound, guard, draw. One warp per row, in float64.
// Rows come in batches: `slot` is a row's place in the batch, `at` the first of the batch in the order of all rows.

#define SLACK (SINGLE_PRECISION ? 1e-6 : 1e-13)
#define PRECISE (SINGLE_PRECISION ? 2e-2 : 1e-6)

// The parameters of the partners as a row sees them: d̄ ū, then ⟨d²⟩ũ + d̃ ū², with ū of the factor that each meets.
KERNEL pack(const real* mean, const real* var, word d, word n_columns, word n_factors, const word* mates,
            const double* scale, const double* scale_var, real* pairs) {
    word n = (word)blockIdx.x * blockDim.x + threadIdx.x, i = n / WIDTH;
    int k = (int)(n % WIDTH);
    if (i > d) return;
    double u = 0.0, u_var = 0.0;
    if (i < d && k < n_factors) {
        double d_mean = scale[k], d_var = scale_var[k], own = mean[i * n_columns + mates[k]];
        u = d_mean * own;
        u_var = (d_mean * d_mean + d_var) * (double)var[i * n_columns + mates[k]] + d_var * own * own;
    }
    pairs[i * (2 * WIDTH) + k] = (real)u;
    pairs[i * (2 * WIDTH) + WIDTH + k] = (real)u_var;
}

KERNEL pack_bias(const real* bias, const real* bias_var, word d, word offset_at, real* out) {
    word i = (word)blockIdx.x * blockDim.x + threadIdx.x;
    if (i > d) return;
    out[2 * i] = i < d ? (real)((double)bias[i] + *(const double*)offset_at) : (real)0;
    out[2 * i + 1] = i < d ? bias_var[i] : (real)0;
}

// The largest ū², ū² + ũ and ũ of each factor among GROUP partners, and first in the last row the largest |ū_j|²,
// (4, WIDTH): one warp for each group.
KERNEL find_reach(const real* pairs, word d, double* out) {
    word group = warp_of(), first = group * GROUP, end = smallest(first + GROUP, d);
    if (first >= d) return;
    out += group * 4 * WIDTH;
    for (int k = lane_of(); k < WIDTH; k += 32) {
        double square = 0.0, both = 0.0, spread = 0.0;
        for (word i = first; i < end; i++) {
            double u = pairs[i * (2 * WIDTH) + k], u_var = pairs[i * (2 * WIDTH) + WIDTH + k];
            square = largest(square, u * u);
            both = largest(both, u * u + u_var);
            spread = largest(spread, u_var);
        }
        out[k] = square;
        out[WIDTH + k] = both;
        out[2 * WIDTH + k] = spread;
        out[3 * WIDTH + k] = 0.0;
    }
    double longest = 0.0;
    for (word i = first; i < end; i++) {
        double length = 0.0;
        for (int k = lane_of(); k < WIDTH; k += 32) {
            double u = pairs[i * (2 * WIDTH) + k];
            length += u * u;
        }
        longest = largest(longest, sum_of_lanes(length));
    }
    meet();
    if (lane_of() == 0) out[3 * WIDTH] = longest;
}

// Copy the rows' parameters from the state; `row_scale` is τ ρ_i, by which the sums of a row are multiplied.
KERNEL load_rows(const Pass* pass, word at, word n) {
    word slot = warp_of();
    if (slot >= n) return;
    word row = pass->rows[at + slot], n_blocks = pass->n_blocks;
    if (slot == 0)
        for (int turn = lane_of(); turn < N_TURNS; turn += 32) pass->n_busy[turn] = 0;
    for (int k = lane_of(); k < WIDTH; k += 32) {
        bool there = k < pass->n_factors;
        word from = row * pass->n_columns + (there ? pass->active[k] : 0);
        pass->row_mean[slot * WIDTH + k] = there ? (double)pass->mean[from] : 0.0;
        pass->row_var[slot * WIDTH + k] = there ? (double)pass->var[from] : 0.0;
    }
    for (int b = lane_of(); b < n_blocks; b += 32) {
        const Block& block = pass->blocks[b];
        pass->row_bias[slot * n_blocks + b] = block.bias[row];
        pass->row_bias_var[slot * n_blocks + b] = block.bias_var[row];
        pass->row_scale[slot * n_blocks + b] = block.precision != 0 ? block.scale * block.precision[row] : block.scale;
    }
}

// Add up the sums of the pieces of long rows, in their order; one block of threads per row.
KERNEL add_pieces(const Pass* pass, word b, const Task* long_rows) {
    const Task own = long_rows[blockIdx.x];  // slot, first and last of its pieces
    double* sums = pass->blocks[b].sums;
    for (int n = threadIdx.x; n < SUMS; n += blockDim.x) {
        double total = 0.0;
        for (int piece = own.first; piece < own.last; piece++) total += sums[(word)piece * SUMS + n];
        sums[(word)own.slot * SUMS + n] = total;
    }
}

// Add up what the cells of each row are worth, into (n, B); only of rows that are `busy`, if `some` is set.
KERNEL add_values(const Pass* pass, word b, word at, word n, double* out, word some) {
    word slot = (word)blockIdx.x * blockDim.x + threadIdx.x;
    if (slot >= n || (some && !pass->busy[slot])) return;
    const word *firsts = pass->blocks[b].firsts + at, begin = firsts[0];
    double total = 0.0;
    for (word task = firsts[slot]; task < firsts[slot + 1]; task++) total += pass->blocks[b].values[task - begin];
    out[slot * pass->n_blocks + b] = total;
}

// The quadratic forms before the step.
KERNEL form_rows(const Pass* pass, word n, double* out) {
    word slot = warp_of(), n_blocks = pass->n_blocks;
    if (slot >= n) return;
    for (int b = 0; b < n_blocks; b++) {
        word own = slot * n_blocks + b;
        double form = form_of(pass, b, slot, pass->row_mean + slot * WIDTH, pass->row_var + slot * WIDTH,
                              pass->row_bias[own], pass->row_bias_var[own]);
        if (lane_of() == 0) out[own] = form;
    }
}

// Keep the rows' parameters as those before a step.
DEVICE void keep_row(const Pass* pass, word slot) {
    for (int k = lane_of(); k < pass->n_factors; k += 32) {
        word own = slot * WIDTH + k;
        pass->old_mean[own] = pass->row_mean[own];
        pass->old_var[own] = pass->row_var[own];
    }
    for (int b = lane_of(); b < pass->n_blocks; b += 32) {
        word own = slot * pass->n_blocks + b;
        pass->old_bias[own] = pass->row_bias[own];
        pass->old_bias_var[own] = pass->row_bias_var[own];
    }
}

// New parameters of the rows: variances 1/diag(A), and means that solve the system, or a draw from N(A⁻¹h, A⁻¹). Those
// before stay in old_*; `ratio` is −½ log det A + ½ hᵀA⁻¹h of a draw.
KERNEL solve_rows(const Pass* pass, word at, word n) {
    word slot = warp_of();
    if (slot >= n) return;
    word row = pass->rows[at + slot], n_blocks = pass->n_blocks;
    int n_u = (int)pass->n_factors;
    keep_row(pass, slot);
#if WIDTH <= 32
    double* U = shared_room + (threadIdx.x >> 5) * (33 * WIDTH + 35 * n_blocks);
    double* of_biases = U + 33 * WIDTH;
    Solved solved = solve_narrow(pass, slot, row, U, of_biases);
    if (lane_of() < n_u) {
        pass->row_mean[slot * WIDTH + lane_of()] = solved.y;
        pass->row_var[slot * WIDTH + lane_of()] = solved.var;
    }
    double weight = solved.weight;
    for (int b = lane_of(); b < n_blocks; b += 32) {
        bool fitted = is_fitted(pass, b, slot);
        pass->row_bias[slot * n_blocks + b] = fitted ? of_biases[35 * b + 34] : 0.0;
        pass->row_bias_var[slot * n_blocks + b] = fitted && !pass->point ? 1.0 / of_biases[35 * b + 32] : 0.0;
    }
#else
    System s = system_of(pass, slot);
    fill_system(pass, slot, row, s);
    for (int k = lane_of(); k < n_u; k += 32)
        pass->row_var[slot * WIDTH + k] = pass->point ? 0.0 : 1.0 / s.row(k)[k];
    for (int b = lane_of(); b < n_blocks; b += 32) {
        bool fitted = is_fitted(pass, b, slot) && !pass->point;
        pass->row_bias_var[slot * n_blocks + b] = fitted ? 1.0 / s.row(n_u + b)[n_u + b] : 0.0;
    }
    reduce(s);
    double weight = 0.0;
    if (pass->drawing) {
        weight = log_weight(s);
        add_noise(pass, row, s);
    }
    substitute(s);
    for (int k = lane_of(); k < n_u; k += 32) pass->row_mean[slot * WIDTH + k] = s.y[k];
    for (int b = lane_of(); b < n_blocks; b += 32)
        pass->row_bias[slot * n_blocks + b] = is_fitted(pass, b, slot) ? s.y[n_u + b] : 0.0;
#endif
    if (pass->drawing && lane_of() == 0) pass->ratio[slot] = -weight;
}

// Write the rows to the state, and keep what its precision has left of them; only `busy` ones, if `some` is set.
KERNEL write_rows(const Pass* pass, word at, word n, word some) {
    word slot = warp_of();
    if (slot >= n || (some && !pass->busy[slot])) return;
    word row = pass->rows[at + slot], n_blocks = pass->n_blocks;
    double *mean = pass->row_mean + slot * WIDTH, *var = pass->row_var + slot * WIDTH;
    for (int k = lane_of(); k < pass->n_factors; k += 32) {
        real u = (real)mean[k], u_var = (real)var[k];
        pass->mean[row * pass->n_columns + pass->active[k]] = u;
        pass->var[row * pass->n_columns + pass->active[k]] = u_var;
        mean[k] = u;
        var[k] = u_var;
    }
    for (int b = lane_of(); b < n_blocks; b += 32) {
        word own = slot * n_blocks + b;
        real bias = (real)pass->row_bias[own], bias_var = (real)pass->row_bias_var[own];
        pass->blocks[b].bias[row] = bias;
        pass->blocks[b].bias_var[row] = bias_var;
        pass->row_bias[own] = bias;
        pass->row_bias_var[own] = bias_var;
    }
    meet();
    // What the other rows of the set see of this one, as `pack` has it.
    for (int b = 0; b < n_blocks; b++) {
        const Block& block = pass->blocks[b];
        if (!block.own) continue;
        real* pairs = block.pairs + row * (2 * WIDTH);
        for (int k = lane_of(); k < pass->n_factors; k += 32) {
            word mate = block.own_mates[k];
            if (mate < 0) continue;
            double u = mean[mate], u_var = var[mate], d = block.own_scale[k], d_var = block.own_scale_var[k];
            pairs[k] = (real)(d * u);
            pairs[WIDTH + k] = (real)((d * d + d_var) * u_var + d_var * u * u);
        }
        if (lane_of() == 0) {
            block.partner_bias[2 * row] = (real)(pass->row_bias[slot * n_blocks + block.twin] + block.offset);
            block.partner_bias[2 * row + 1] = (real)pass->row_bias_var[slot * n_blocks + block.twin];
        }
    }
}

// The value of the cells of wanted blocks after the step, into (n, B). Least squares: Σ σ_j [(x − m)² + v + ε²], which
// cancellation spoils where residuals are small: such rows are `busy` afterwards in block b. Others: the value before,
// less half of what the quadratic form has grown by.
KERNEL bound_rows(const Pass* pass, word b, word n, double* out) {
    word slot = warp_of(), own = slot * pass->n_blocks + b;
    if (slot >= n) return;
    const double* S = sums_of(pass, (int)b, slot);
    double after = form_of(pass, (int)b, slot, pass->row_mean + slot * WIDTH, pass->row_var + slot * WIDTH,
                           pass->row_bias[own], pass->row_bias_var[own]);
    if (lane_of() > 0) return;
    if (pass->blocks[b].least_squares) {
        double total = S[SQUARES] + S[BIAS_SPREAD] + after;
        pass->busy[slot] = !(total >= PRECISE * S[SQUARES]);
        out[own] = total + pass->blocks[b].floor * S[WEIGHT];
    } else {
        out[own] = S[VALUE] - 0.5 * (after - pass->before[own]) / pass->blocks[b].slope;
    }
}

// ⟨ρ_i⟩ = (ν/2 + n/2)/(ν/2 + ½ τ Σ_j σ_j e_ij) of rows with noise of their own, if they are to be `learning` it from n > 0
// cells; `totals` has Σ_j σ_j e_ij before, and ⟨ρ_i⟩ times that afterwards.
KERNEL count_noise(const Pass* pass, word b, word at, word n, word learning) {
    word slot = (word)blockIdx.x * blockDim.x + threadIdx.x, place = slot * pass->n_blocks + b;
    if (slot >= n) return;
    const Block& block = pass->blocks[b];
    word row = pass->rows[at + slot];
    double half = block.noise_half, cells = learning ? block.noise_cells[row] : 0.0;
    if (cells > 0.0) {
        block.precision[row] = (half + 0.5 * cells) / (half + 0.5 * block.scale * pass->totals[place]);
        pass->row_scale[place] = block.scale * block.precision[row];
    }
    pass->totals[place] *= block.precision[row];
}

struct Step {  // a vector: how far means have moved
    const double *now, *old;

    DEVICE double operator[](int k) const { return now[k] - old[k]; }
};

// Whether a row's full step may lower its share of the bound: `busy`; what it rests on is told at `_is_short` in
// row_kernels.py.
KERNEL guard_rows(const Pass* pass, word n) {
    word slot = warp_of(), n_blocks = pass->n_blocks;
    if (slot >= n) return;
    int n_u = (int)pass->n_factors, lane = lane_of();
    const double *mean = pass->row_mean + slot * WIDTH, *var = pass->row_var + slot * WIDTH;
    const double *old = pass->old_mean + slot * WIDTH, *old_var = pass->old_var + slot * WIDTH;
    double length = 0.0, gained = 0.0;
    for (int k = lane; k < n_u; k += 32) {
        length += (mean[k] - old[k]) * (mean[k] - old[k]);
        if (var[k] > 0.0) {
            double times = old_var[k] / var[k];
            gained += 0.5 * (times - 1.0) * (times - 1.0) / largest(times, 1.0);
        }
    }
    length = sqrt(sum_of_lanes(length));
    gained = sum_of_lanes(gained);
    double squares = 0.0, spreads = 0.0, farthest = 0.0, widest = 0.0;
    bool is_long = false;
    for (int b = 0; b < n_blocks; b++) {
        const Block& block = pass->blocks[b];
        if (block.least_squares) continue;
        if (!block.mild) {
            is_long = true;
            break;
        }
        const double *S = sums_of(pass, b, slot), *reach = block.reach;
        word own = slot * n_blocks + b;
        double moved = pass->row_bias[own] - pass->old_bias[own];
        double wider = fabs(pass->row_bias_var[own] - pass->old_bias_var[own]), far = 0.0, wide = 0.0, square = 0.0;
        double spread = 0.0;
        for (int k = lane; k < n_u; k += 32) {
            double step = mean[k] - old[k], of_var = fabs(var[k] - old_var[k]);
            double of_mean = fabs(mean[k] * mean[k] - old[k] * old[k]);
            far += fabs(step) * sqrt(reach[k]);
            wide += of_var * reach[WIDTH + k] + of_mean * reach[2 * WIDTH + k];
            square += 2.0 * step * moved * S[FIRST + k];
            spread += of_var * (S[place_of(k, k)] + S[SPREAD + k]) + of_mean * S[SPREAD + k];
        }
        square += square_of(S, n_u, Step{mean, old});
        far = smallest(sum_of_lanes(far), length * sqrt(reach[3 * WIDTH])) + fabs(moved);
        farthest = largest(farthest, far);
        widest = largest(widest, sum_of_lanes(wide) + wider);
        squares += sum_of_lanes(square) + moved * moved * S[WEIGHT];
        spreads += sum_of_lanes(spread) + wider * S[WEIGHT];
    }
    double reached = farthest + 0.5 * widest;
    squares = largest(squares, 0.0);
    double products = smallest(farthest * spreads, sqrt(squares * spreads * widest));
    bool is_short = gained + squares >= exp(reached) * (squares + products + 0.25 * widest * spreads) - squares;
    if (lane > 0) return;
    pass->busy[slot] = is_long || !(reached <= 1.0) || !is_short;
    if (pass->busy[slot]) count(pass->n_busy);
}

DEVICE double growth(double away, double var, double was, double var_was) {
    return away * away + var - was * was - var_was;
}

DEVICE double log_ratio(double now, double before) { return now > 0.0 && before > 0.0 ? log(now / before) : 0.0; }

// By how much −½ Σ precision [(ū − mean)² + ũ] + ½ Σ log ũ has grown in a row's step, biases included.
DEVICE double gain_of_prior(const Pass* pass, word slot, word row) {
    const double* center = pass->prior_mean + row * pass->prior_mean_step;
    const double* precision = pass->prior_precision + row * pass->prior_precision_step;
    const double* bias_center = pass->bias_prior_mean + row * pass->bias_prior_mean_step;
    const double* bias_precision = pass->bias_prior_precision + row * pass->bias_prior_precision_step;
    double gain = 0.0;
    for (int k = lane_of(); k < pass->n_factors; k += 32) {
        word own = slot * WIDTH + k;
        double away = pass->row_mean[own] - center[k], was = pass->old_mean[own] - center[k];
        gain -= precision[k] * growth(away, pass->row_var[own], was, pass->old_var[own]);
        gain += log_ratio(pass->row_var[own], pass->old_var[own]);
    }
    for (int b = lane_of(); b < pass->n_blocks; b += 32) {
        word own = slot * pass->n_blocks + b;
        double away = pass->row_bias[own] - bias_center[b], was = pass->old_bias[own] - bias_center[b];
        gain -= bias_precision[b] * growth(away, pass->row_bias_var[own], was, pass->old_bias_var[own]);
        gain += log_ratio(pass->row_bias_var[own], pass->old_bias_var[own]);
    }
    return 0.5 * sum_of_lanes(gain);
}

// 1/((1 − share)/new + share/old); where the old one is zero there is nothing to go back to.
DEVICE double between(double now, double old, double share) {
    return old > 0.0 && now > 0.0 ? now * old / ((1.0 - share) * old + share * now) : now;
}

DEVICE void go_back(double* mean, double* var, const double* old, const double* old_var, word n, double share) {
    for (int k = lane_of(); k < n; k += 32) {
        mean[k] += share * (old[k] - mean[k]);
        var[k] = between(var[k], old_var[k], share);
    }
}

// Of `busy` rows: is the step good? Then they are busy no more; else it is taken back by half, or altogether.
KERNEL judge_rows(const Pass* pass, word at, word n, word all, word turn) {
    word slot = warp_of(), n_blocks = pass->n_blocks;
    if (slot >= n || !pass->busy[slot]) return;
    double gain = gain_of_prior(pass, slot, pass->rows[at + slot]), size = 0.0;
    for (int b = 0; b < n_blocks; b++) {
        const Block& block = pass->blocks[b];
        word own = slot * n_blocks + b;
        double value = block.mild ? pass->worth[own] : sums_of(pass, b, slot)[VALUE];
        size += fabs(block.slope * value);
        if (block.least_squares) {
            double form = form_of(pass, b, slot, pass->row_mean + slot * WIDTH, pass->row_var + slot * WIDTH,
                                  pass->row_bias[own], pass->row_bias_var[own]);
            gain -= 0.5 * pass->row_scale[own] * (form - pass->before[own]);
        } else {
            gain += block.slope * (pass->after[own] - value);
        }
    }
    if (gain >= -SLACK * size) {
        meet();
        if (lane_of() == 0) pass->busy[slot] = 0;
        return;
    }
    if (lane_of() == 0) count(pass->n_busy + turn);
    double share = all ? 1.0 : 0.5;
    go_back(pass->row_mean + slot * WIDTH, pass->row_var + slot * WIDTH, pass->old_mean + slot * WIDTH,
            pass->old_var + slot * WIDTH, pass->n_factors, share);
    go_back(pass->row_bias + slot * n_blocks, pass->row_bias_var + slot * n_blocks, pass->old_bias + slot * n_blocks,
            pass->old_bias_var + slot * n_blocks, n_blocks, share);
}

DEVICE void exchange(double* a, double* b, word n) {
    for (int k = lane_of(); k < n; k += 32) {
        double kept = a[k];
        a[k] = b[k];
        b[k] = kept;
    }
}

// Exchange the rows' parameters with those before their step; only `busy` ones, if `some` is set.
KERNEL swap_rows(const Pass* pass, word n, word some) {
    word slot = warp_of(), n_blocks = pass->n_blocks;
    if (slot >= n || (some && !pass->busy[slot])) return;
    exchange(pass->row_mean + slot * WIDTH, pass->old_mean + slot * WIDTH, pass->n_factors);
    exchange(pass->row_var + slot * WIDTH, pass->old_var + slot * WIDTH, pass->n_factors);
    exchange(pass->row_bias + slot * n_blocks, pass->old_bias + slot * n_blocks, n_blocks);
    exchange(pass->row_bias_var + slot * n_blocks, pass->old_bias_var + slot * n_blocks, n_blocks);
}

// What a proposal's ratio has of the sums as they are: sign (½ F − slope f) of the blocks that are proposed, at the
// rows' parameters (sign 1) or at those before (sign −1), where also g = ½ log det A − ½ hᵀA⁻¹h comes in.
KERNEL compare_rows(const Pass* pass, word at, word n, word forth) {
    word slot = warp_of(), n_blocks = pass->n_blocks;
    if (slot >= n) return;
    double total = 0.0, sign = forth ? 1.0 : -1.0;
    for (int b = 0; b < n_blocks; b++) {
        const Block& block = pass->blocks[b];
        if (!block.proposed) continue;
        word own = slot * n_blocks + b;
        const double* bias = forth ? pass->row_bias : pass->old_bias;
        const double* bias_var = forth ? pass->row_bias_var : pass->old_bias_var;
        double form = form_of(pass, b, slot, (forth ? pass->row_mean : pass->old_mean) + slot * WIDTH,
                              (forth ? pass->row_var : pass->old_var) + slot * WIDTH, bias[own], bias_var[own]);
        total += sign * (0.5 * form - block.slope * sums_of(pass, b, slot)[VALUE]);
    }
    if (!forth) {
        System s = system_of(pass, slot);
        fill_system(pass, slot, pass->rows[at + slot], s);
        reduce(s);
        total += log_weight(s);
    }
    if (lane_of() == 0) pass->ratio[slot] += total;
}

// Take each proposal, or go back, as Metropolis does.
KERNEL decide_rows(const Pass* pass, word at, word n) {
    word slot = warp_of();
    if (slot >= n || lane_of() > 0) return;
    Pair pair = philox((bits)pass->key, 0, 1, (bits)pass->rows[at + slot] & 0xFFFFFFFFull, 0);
    // Not a number: the proposal was absurd.
    pass->busy[slot] = !(log(unit(pair.first)) < pass->ratio[slot]);
}

// What the cells of each row say of its last factor, all else being integrated out: see `lean_rows` in row_kernels.py.
KERNEL lean_rows(const Pass* pass, word at, word n, double* out) {
    word slot = warp_of();
    if (slot >= n) return;
    word row = pass->rows[at + slot];
    int last = (int)pass->n_factors - 1;
    System s = system_of(pass, slot);
    double found[2];
    for (int turn = 0; turn < 2; turn++) {
        fill_system(pass, slot, row, s);
        if (turn == 1)
            for (int k = lane_of(); k < s.n; k += 32) s.h[k] = k == last ? 1.0 : 0.0;
        meet();
        reduce(s);
        substitute(s);
        found[turn] = s.y[last];
        meet();
    }
    double precision = pass->prior_precision[row * pass->prior_precision_step + last];
    double mean = pass->prior_mean[row * pass->prior_mean_step + last];
    if (lane_of() > 0) return;
    out[2 * row] = largest(1.0 / found[1] - precision, 0.0);
    out[2 * row + 1] = found[0] / found[1] - precision * mean;
}
