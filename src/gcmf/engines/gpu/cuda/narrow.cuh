// The system of a row of up to 32 factors, in registers: lane j has column j of A, and fast memory the rows of U as they
// are finished. Biases, which meet no other bias, are eliminated first.

struct Solved {
    double y, var;  // of the lane's own factor
    double weight;  // ½ log det A − ½ hᵀ A⁻¹ h
};

DEVICE double noise_of(const Pass* pass, word row, int k) {
    Pair pair = philox((bits)pass->key, k / 2, 0, (bits)row & 0xFFFFFFFFull, 0);
    double length = sqrt(-2.0 * log(unit(pair.first))), angle = 6.283185307179586 * unit(pair.second);
    return length * (k & 1 ? sin(angle) : cos(angle));
}

// U lies in rows of 33; `of_biases` has for each bias 32 numbers A_bj, then its pivot, h and y.
DEVICE Solved solve_narrow(const Pass* pass, word slot, word row, double* U, double* of_biases) {
    const int n_u = (int)pass->n_factors, n_blocks = (int)pass->n_blocks, lane = lane_of();
    const bool there = lane < n_u;
    double column[WIDTH], h = 0.0, weight = 0.0, first_diagonal = 1.0;
#pragma unroll
    for (int i = 0; i < WIDTH; i++) column[i] = 0.0;
    for (int b = 0; b < n_blocks; b++) {
        const double *S = sums_of(pass, b, slot), scale = scales_of(pass, slot)[b];
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            if (i <= lane && there) column[i] += scale * fixed(S + place_of(i, lane));
        if (there) {
            first_diagonal = scale * fixed(S + SPREAD + lane);
            h += scale * fixed(S + TARGET + lane);
        }
        double* own = of_biases + 35 * b;
        const double* precision = pass->bias_prior_precision + row * pass->bias_prior_precision_step;
        const double* mean = pass->bias_prior_mean + row * pass->bias_prior_mean_step;
        const bool fitted = is_fitted(pass, b, slot);
        own[lane] = fitted && there ? scale * fixed(S + FIRST + lane) : 0.0;
        if (lane == 0) {
            own[32] = fitted ? scale * fixed(S + WEIGHT) + precision[b] : 1.0;
            own[33] = fitted ? scale * fixed(S + TARGETS) + precision[b] * mean[b] : 0.0;
        }
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            if (i == lane && there) column[i] += first_diagonal;
    }
    if (there) {
        const double alpha = pass->prior_precision[row * pass->prior_precision_step + lane];
        h += alpha * pass->prior_mean[row * pass->prior_mean_step + lane];
#pragma unroll
        for (int i = 0; i < WIDTH; i++)
            if (i == lane) column[i] += alpha;
    }
#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        if (i == lane) first_diagonal = there ? column[i] : column[i] = 1.0;
    Solved solved;
    solved.var = pass->point ? 0.0 : 1.0 / first_diagonal;
    meet();
    for (int b = 0; b < n_blocks; b++) {
        const double *own = of_biases + 35 * b, inverse = 1.0 / own[32], share = own[lane] * inverse;
#pragma unroll
        for (int i = 0; i < WIDTH; i++) column[i] -= own[i] * share;
        h -= own[33] * share;
        weight -= 0.5 * (log(inverse) + own[33] * own[33] * inverse);
    }
    double inverse = 1.0;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) {
        // Of a nearly collinear pair only rounding errors are left: no pivot is smaller.
        const double pivot = from_lane(largest(column[k], PIVOT * first_diagonal), k), own = 1.0 / pivot;
        const double h_k = from_lane(h, k), share = lane > k ? column[k] * own : 0.0;
        if (lane == k) inverse = own;
        U[33 * k + lane] = column[k];
        meet();
#pragma unroll
        for (int i = k + 1; i < WIDTH; i++) column[i] -= U[33 * k + i] * share;
        h -= h_k * share;
    }
    if (pass->drawing) {
        weight += sum_of_lanes(there ? -0.5 * (log(inverse) + h * h * inverse) : 0.0);
        if (there) h += noise_of(pass, row, lane) / sqrt(inverse);
    }
    double y = 0.0;
#pragma unroll
    for (int k = WIDTH - 1; k >= 0; k--) {
        const double y_k = from_lane(h * inverse, k);
        if (lane == k) y = y_k;
        if (lane < k) h -= U[33 * lane + k] * y_k;
    }
    for (int b = 0; b < n_blocks; b++) {
        double* own = of_biases + 35 * b;
        const double met = sum_of_lanes(own[lane] * y);
        if (lane == 0) {
            const double noise = pass->drawing ? noise_of(pass, row, n_u + b) * sqrt(own[32]) : 0.0;
            own[34] = (own[33] + noise - met) / own[32];
        }
    }
    meet();
    solved.y = y;
    solved.weight = weight;
    return solved;
}
