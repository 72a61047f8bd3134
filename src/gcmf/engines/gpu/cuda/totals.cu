// Sums over rows: each block of threads adds up GROUP rows one after the other, and writes to a place of its own.

// Sums and maxima of what was found in groups, (n, size) to (n/FOLD, size), in the order of the groups.
KERNEL add_groups(const double* groups, word n, word size, double* out) {
    word columns = (size + blockDim.x - 1) / blockDim.x, k = blockIdx.x % columns * blockDim.x + threadIdx.x;
    word fold = blockIdx.x / columns, end = smallest((fold + 1) * FOLD, n);
    if (k >= size) return;
    double total = 0.0;
#pragma unroll 8
    for (word group = fold * FOLD; group < end; group++) total += groups[group * size + k];
    out[fold * size + k] = total;
}

KERNEL largest_of_groups(const double* groups, word n, word size, double* out) {
    word columns = (size + blockDim.x - 1) / blockDim.x, k = blockIdx.x % columns * blockDim.x + threadIdx.x;
    word fold = blockIdx.x / columns, end = smallest((fold + 1) * FOLD, n);
    if (k >= size) return;
    double most = 0.0;
#pragma unroll 8
    for (word group = fold * FOLD; group < end; group++) most = largest(most, groups[group * size + k]);
    out[fold * size + k] = most;
}

// The values of the cells of each block, (B,), then Σ [(ū − prior mean)² + ũ] and Σ log ũ of each factor, (2, WIDTH), then
// Σ b̄, Σ (b̄² + b̃) and Σ log b̃, (3, B).
KERNEL sum_moments(const Pass* pass, word at, word n, double* out) {
    word first = (word)blockIdx.x * GROUP, end = smallest(first + GROUP, n), n_blocks = pass->n_blocks;
    out += blockIdx.x * (2 * WIDTH + 4 * n_blocks);
    for (int b = threadIdx.x; b < n_blocks; b += blockDim.x) {
        double total = 0.0;
        for (word slot = first; slot < end; slot++) total += pass->totals[slot * n_blocks + b];
        out[b] = total;
    }
    out += n_blocks;
    for (int k = threadIdx.x; k < WIDTH; k += blockDim.x) {
        double square = 0.0, logs = 0.0;
        for (word slot = first; slot < end && k < pass->n_factors; slot++) {
            double center = pass->prior_mean[pass->rows[at + slot] * pass->prior_mean_step + k];
            double away = pass->row_mean[slot * WIDTH + k] - center, var = pass->row_var[slot * WIDTH + k];
            square += away * away + var;
            logs += var > 0.0 ? log(var) : 0.0;
        }
        out[k] = square;
        out[WIDTH + k] = logs;
    }
    for (int b = threadIdx.x; b < n_blocks; b += blockDim.x) {
        double total = 0.0, square = 0.0, logs = 0.0;
        for (word slot = first; slot < end; slot++) {
            double bias = pass->row_bias[slot * n_blocks + b], var = pass->row_bias_var[slot * n_blocks + b];
            total += bias;
            square += bias * bias + var;
            logs += var > 0.0 ? log(var) : 0.0;
        }
        out[2 * WIDTH + b] = total;
        out[2 * WIDTH + n_blocks + b] = square;
        out[2 * WIDTH + 2 * n_blocks + b] = logs;
    }
}

// What the cells of block b say of its scales, as SUMS numbers: the triangle of Σ w p pᵀ, then Σ w r p, then Σ w ⟨p²⟩.
KERNEL sum_scaling(const Pass* pass, word b, word n, double* out) {
    word first = (word)blockIdx.x * GROUP, end = smallest(first + GROUP, n), n_blocks = pass->n_blocks;
    out += (word)blockIdx.x * (TRIANGLE + 2 * WIDTH);
    for (int k = threadIdx.x; k < WIDTH; k += blockDim.x) {
        for (int j = k; j < WIDTH; j++) {
            double total = 0.0;
            for (word slot = first; slot < end; slot++) {
                const double* mean = pass->row_mean + slot * WIDTH;
                total += mean[k] * mean[j] * sums_of(pass, (int)b, slot)[place_of(k, j)];
            }
            out[place_of(k, j)] = pass->blocks[b].scale * total;
        }
        double linear = 0.0, square = 0.0;
        for (word slot = first; slot < end; slot++) {
            const double* S = sums_of(pass, (int)b, slot);
            double u = pass->row_mean[slot * WIDTH + k], var = pass->row_var[slot * WIDTH + k];
            linear += u * (S[TARGET + k] - pass->row_bias[slot * n_blocks + b] * S[FIRST + k]);
            square += (u * u + var) * (S[place_of(k, k)] + S[SPREAD + k]);
        }
        out[TRIANGLE + k] = pass->blocks[b].scale * linear;
        out[TRIANGLE + WIDTH + k] = pass->blocks[b].scale * square;
    }
}

// What each factor is worth to the cells of block b: gain and energy, (2, WIDTH).
KERNEL sum_worth(const Pass* pass, word b, word n, double* out) {
    word first = (word)blockIdx.x * GROUP, end = smallest(first + GROUP, n), n_blocks = pass->n_blocks;
    out += (word)blockIdx.x * 2 * WIDTH;
    for (int k = threadIdx.x; k < WIDTH; k += blockDim.x) {
        double gain = 0.0, energy = 0.0;
        for (word slot = first; slot < end; slot++) {
            const double *S = sums_of(pass, (int)b, slot), *mean = pass->row_mean + slot * WIDTH;
            double u = mean[k], var = pass->row_var[slot * WIDTH + k], diagonal = S[place_of(k, k)];
            double fitted = pass->row_bias[slot * n_blocks + b] * S[FIRST + k];
            for (int j = 0; j < WIDTH; j++) fitted += S[place_of(k, j)] * mean[j];
            double square = diagonal * u * u, spread = (u * u + var) * S[SPREAD + k] + var * diagonal;
            gain += u * (S[TARGET + k] - fitted) + 0.5 * (square - spread);
            energy += square;
        }
        out[k] = pass->blocks[b].scale * gain;
        out[WIDTH + k] = pass->blocks[b].scale * energy;
    }
}
