// The system of a row, A y = h for its factors and biases, solved by one warp in float64: A = Uᵀ D⁻¹ U.
// The upper triangle of A lies row by row, then h, the inverses of the pivots, and room for y. (Rows of up to 32 factors
// are solved in registers: narrow.cuh.)

#define PIVOT 4e-16

struct System {
    double *A, *h, *inverse, *y;
    int n;

    DEVICE double* row(int k) const { return A + k * n - k * (k + 1) / 2; }
};

DEVICE System system_of(const Pass* pass, word slot) {
    System s;
    s.n = (int)(pass->n_factors + pass->n_blocks);
    word size = (word)s.n * (s.n + 1) / 2 + 3 * s.n;
    s.A = pass->room != 0 ? pass->room + slot * size : shared_room + (threadIdx.x >> 5) * size;
    s.h = s.A + s.n * (s.n + 1) / 2;
    s.inverse = s.h + s.n;
    s.y = s.inverse + s.n;
    return s;
}

DEVICE const double* sums_of(const Pass* pass, int b, word slot) { return pass->blocks[b].sums + slot * SUMS; }

// What multiplies the sums of a row in each block: τ ρ_i, or 1.
DEVICE const double* scales_of(const Pass* pass, word slot) { return pass->row_scale + slot * pass->n_blocks; }

// Whether the row has a bias of its own in block b.
DEVICE bool is_fitted(const Pass* pass, int b, word slot) {
    return pass->blocks[b].biased != 0 && sums_of(pass, b, slot)[WEIGHT] > 0.0;
}

// The system of a row from its sums and its prior; the diagonal of an absent bias is one.
DEVICE void fill_system(const Pass* pass, word slot, word row, const System& s) {
    int n_u = (int)pass->n_factors, n_blocks = (int)pass->n_blocks, lane = lane_of();
    const double* mean = pass->prior_mean + row * pass->prior_mean_step;
    const double* precision = pass->prior_precision + row * pass->prior_precision_step;
    const double* bias_mean = pass->bias_prior_mean + row * pass->bias_prior_mean_step;
    const double* bias_precision = pass->bias_prior_precision + row * pass->bias_prior_precision_step;
    const double* scale = scales_of(pass, slot);
    meet();
    for (int k = 0; k < n_u; k++) {
        double* A = s.row(k);
        for (int j = k + lane; j < n_u; j += 32) {
            double total = j == k ? precision[k] : 0.0;
            for (int b = 0; b < n_blocks; b++) {
                const double* S = sums_of(pass, b, slot);
                total += fixed(scale + b) * (fixed(S + place_of(k, j)) + (j == k ? fixed(S + SPREAD + k) : 0.0));
            }
            A[j] = total;
        }
        for (int b = lane; b < n_blocks; b += 32)
            A[n_u + b] = is_fitted(pass, b, slot) ? scale[b] * sums_of(pass, b, slot)[FIRST + k] : 0.0;
    }
    for (int k = lane; k < n_u; k += 32) {
        double total = precision[k] * mean[k];
        for (int b = 0; b < n_blocks; b++) total += scale[b] * sums_of(pass, b, slot)[TARGET + k];
        s.h[k] = total;
    }
    for (int b = lane; b < n_blocks; b += 32) {
        const double *S = sums_of(pass, b, slot), w = scale[b];
        bool fitted = is_fitted(pass, b, slot);
        for (int other = b + 1; other < n_blocks; other++) s.row(n_u + b)[n_u + other] = 0.0;
        s.row(n_u + b)[n_u + b] = fitted ? w * S[WEIGHT] + bias_precision[b] : 1.0;
        s.h[n_u + b] = fitted ? w * S[TARGETS] + bias_precision[b] * bias_mean[b] : 0.0;
    }
    meet();
}

// U and U A⁻¹ h in place of A and h. Of a nearly collinear pair only rounding errors are left: no pivot is smaller.
DEVICE void reduce(const System& s) {
    int n = s.n, lane = lane_of();
    for (int k = lane; k < n; k += 32) s.inverse[k] = s.row(k)[k];
    meet();
    for (int k = 0; k < n; k++) {
        const double* A = s.row(k);
        double inverse = 1.0 / largest(A[k], PIVOT * s.inverse[k]), h = s.h[k];
        meet();
        if (lane == 0) s.inverse[k] = inverse;
        for (int j = k + 1 + lane; j < n; j += 32) {
            double share = A[j] * inverse;
            int i = k + 1;
            // Four at a time, so that they do not wait for each other.
            for (; i + 3 <= j; i += 4) {
                double *a = s.row(i) + j, *b = s.row(i + 1) + j, *c = s.row(i + 2) + j, *d = s.row(i + 3) + j;
                double p = *a - A[i] * share, q = *b - A[i + 1] * share;
                double r = *c - A[i + 2] * share, t = *d - A[i + 3] * share;
                *a = p, *b = q, *c = r, *d = t;
            }
            for (; i <= j; i++) s.row(i)[j] -= A[i] * share;
            s.h[j] -= h * share;
        }
        meet();
    }
}

// The y with U y = h.
DEVICE void substitute(const System& s) {
    int n = s.n, lane = lane_of();
    for (int k = n - 1; k >= 0; k--) {
        double y = s.h[k] * s.inverse[k];
        for (int i = lane; i < k; i += 32) s.h[i] -= s.row(i)[k] * y;
        if (lane == 0) s.y[k] = y;
        meet();
    }
}

// ½ log det A − ½ hᵀ A⁻¹ h, of a system that is reduced.
DEVICE double log_weight(const System& s) {
    double total = 0.0;
    for (int k = lane_of(); k < s.n; k += 32) total -= 0.5 * (log(s.inverse[k]) + s.h[k] * s.h[k] * s.inverse[k]);
    return sum_of_lanes(total);
}

// √D n is added to what U y is to be: then y ~ N(A⁻¹ h, A⁻¹).
DEVICE void add_noise(const Pass* pass, word row, const System& s) {
    for (int k = lane_of(); k < s.n; k += 32) {
        Pair pair = philox((bits)pass->key, k / 2, 0, (bits)row & 0xFFFFFFFFull, 0);
        double length = sqrt(-2.0 * log(unit(pair.first))), angle = 6.283185307179586 * unit(pair.second);
        s.h[k] += length * (k & 1 ? sin(angle) : cos(angle)) / sqrt(s.inverse[k]);
    }
    meet();
}

// uᵀ (Σ w ū_j ū_jᵀ) u, each lane with its share: by columns, so that lanes read side by side.
template <typename Vector> DEVICE double square_of(const double* S, int n_u, const Vector& u) {
    double total = 0.0;
    for (int j = lane_of(); j < n_u; j += 32) {
        double above = 0.0;
#pragma unroll 4
        for (int i = 0; i < j; i++) above += fixed(S + place_of(i, j)) * u[i];
        total += u[j] * (2.0 * above + fixed(S + place_of(j, j)) * u[j]);
    }
    return total;
}

// Σ w [(z − m)² + v] less Σ w (t² + b̃_j): the quadratic form of a row's cells in block b at these parameters.
DEVICE double form_of(const Pass* pass, int b, word slot, const double* mean, const double* var, double bias,
                      double bias_var) {
    const double* S = sums_of(pass, b, slot);
    int n_u = (int)pass->n_factors;
    double total = square_of(S, n_u, mean);
    for (int k = lane_of(); k < n_u; k += 32) {
        double u = mean[k], u_var = var[k];
        total += (u * u + u_var) * S[SPREAD + k] + u_var * S[place_of(k, k)];
        total -= 2.0 * u * (S[TARGET + k] - bias * S[FIRST + k]);
    }
    return sum_of_lanes(total) - 2.0 * bias * S[TARGETS] + (bias * bias + bias_var) * S[WEIGHT];
}
