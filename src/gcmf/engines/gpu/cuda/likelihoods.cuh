// The mathematics of one cell x whose predictor θ has mean m and variance v: `CellMath` of each likelihood, by KIND.
// `weigh` gives the weight w, the weighted target wz and the value of a cell that counts once.

struct Weighed {
    real w, wz;
    double value;
};

#define LEAST_SQUARES (KIND == SQUARES_KIND || KIND == WEIGHED_SQUARES_KIND)

DEVICE double sigmoid(double t) {
    double e = exp(-fabs(t));
    return (t >= 0.0 ? 1.0 : e) / (1.0 + e);
}
DEVICE double softplus(double t) { return largest(t, 0.0) + log1p(exp(-fabs(t))); }
DEVICE double log_softplus(double t) { return t > -30.0 ? log(softplus(t)) : t; }
DEVICE double softplus_slope(double t) { return t > -30.0 ? sigmoid(t) / softplus(t) : 1.0; }
DEVICE double twice_jaakkola(double t) {
    if (t < 1e-3) return 0.25 - t * t / 48.0;
    double e = exp(-t);
    return (1.0 - e) / ((1.0 + e) * 2.0 * t);
}
DEVICE double log_two_cosh(double t) { return 0.5 * t + log1p(exp(-t)); }

// Which rule is enough for a variance.
DEVICE int level_of(real v) {
    int level = 0;
    while (level < N_RULES - 1 && v > (real)REACH[level]) level++;
    return level;
}

DEVICE double stirling_series(double y) {
    double u = 1.0 / y, s = u * u;
    return u * (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0))));
}

// log Γ(x + r) − log Γ(r) − x log r, as `log_rising` in likelihoods/negative_binomial.py.
DEVICE double log_rising(double x, double r) {
    double shifted = r + 8.0, y = x + r + 8.0, factors = 1.0;
    for (int k = 0; k < 8; k++) factors *= 1.0 + x / (r + k);
    double stirling = (y - 0.5) * log1p(x / shifted) - x + x * log1p(8.0 / r);
    return stirling + stirling_series(y) - stirling_series(shifted) - log(factors);
}

// t E softplus(ψ), t E σ(ψ) and t E σ′(ψ) by pairs of nodes: 0/1 cells have t = 1 and ψ = θ, negative binomial counts
// t = x + r and ψ = θ − log r.
DEVICE Weighed weigh_logistic(real x, real m, real v, const double* p, bool binary, bool valued) {
    real shift = binary ? (real)0 : (real)p[1], trials = binary ? (real)1 : x + (real)p[0];
    real center = m - shift, deviation = sqrt(v), slope = 0, sigma = 0, soft = 0;
    int level = level_of(v);
    for (int q = FIRST_NODE[level]; q < FIRST_NODE[level + 1]; q++) {
        real node = NODE[q], share = SHARE[q], up = center + deviation * node, down = center - deviation * node;
        real e = exp(-fabs(up)), f = exp(-fabs(down)), d = (real)1 / ((real)1 + e), g = (real)1 / ((real)1 + f);
        sigma += share * ((up >= 0 ? d : e * d) + (down >= 0 ? g : f * g));
        slope += share * (e * d * d + f * g * g);
        if (valued) soft += share * (largest(up, (real)0) + largest(down, (real)0) + log1p(e) + log1p(f));
    }
    Weighed cell;
    cell.w = binary ? slope : largest(trials * slope, (real)1e-12);
    cell.wz = cell.w * m - trials * sigma + x;
    cell.value = valued ? (double)x * m - (double)trials * soft : 0.0;
    if (valued && !binary && x > 0) cell.value += log_rising(x, p[0]);
    return cell;
}

// Counts of mean s = softplus(θ): w = E f″ and wz = wm − E f′. Below θ = −80 log s is θ.
DEVICE Weighed weigh_poisson(real x, real m, real v) {
    real deviation = sqrt(v), first = 0, second = 0;
    double value = 0.0;
    int level = level_of(v);
    for (int q = 2 * FIRST_NODE[level]; q < 2 * FIRST_NODE[level + 1]; q++) {
        real share = SHARE[q / 2], theta = m + (q & 1 ? -deviation : deviation) * (real)NODE[q / 2];
        real held = largest(theta, (real)-80), e = exp(-fabs(held)), d = (real)1 / ((real)1 + e);
        real sigma = held >= 0 ? d : e * d, rest = held >= 0 ? e * d : d, s = largest(held, (real)0) + log1p(e);
        real log_s = log(s) + (theta - held), g = sigma / s;
        first += share * (sigma - x * g);
        second += share * (sigma * rest + x * (g * largest(g - rest, (real)0)));
        value += (double)(share * (x * log_s - s));
    }
    Weighed cell;
    cell.w = largest(second, (real)1e-12);
    cell.wz = cell.w * m - first;
    cell.value = value;
    return cell;
}

// The bounds, one by one and in float64.
DEVICE Weighed weigh_bound(double x, double m, double v, const double* p) {
    double w = 0.0, wz = 0.0, value = 0.0, xi = sqrt(m * m + v), hx = CURVATURE_PER_COUNT * x;
    if (KIND == BERNOULLI_TIGHT_KIND) {
        w = twice_jaakkola(xi);
        wz = x - 0.5;
        value = (x - 0.5) * m - log_two_cosh(xi);
    } else if (KIND == BERNOULLI_CURVED_KIND) {
        w = 0.25;
        wz = 0.25 * m - sigmoid(m) + x;
        value = x * m - softplus(m) - 0.125 * v;
    } else if (KIND == POISSON_TIGHT_KIND) {
        w = twice_jaakkola(xi) + hx;
        wz = x * softplus_slope(m) + hx * m - 0.5;
        value = x * log_softplus(m) - 0.5 * m - log_two_cosh(xi) - 0.5 * hx * v;
    } else {
        w = KIND == POISSON_CELL_KIND ? 0.25 + hx : p[0];
        wz = w * m - sigmoid(m) + x * softplus_slope(m);
        value = x * log_softplus(m) - softplus(m) - 0.5 * w * v;
    }
    Weighed cell = {(real)w, (real)wz, value};
    return cell;
}

DEVICE Weighed weigh(real x, real m, real v, const double* p, bool valued) {
    if (KIND == BERNOULLI_EXACT_KIND) return weigh_logistic(x, m, v, p, true, valued);
    if (KIND == NEGATIVE_BINOMIAL_KIND) return weigh_logistic(x, m, v, p, false, valued);
    if (KIND == POISSON_EXACT_KIND) return weigh_poisson(x, m, v);
    return weigh_bound(x, m, v, p);
}

// ω ~ PG(t, ψ) and x − t/2 + ω shift of a logistic cell that counts `times`.
DEVICE Weighed draw_weight(double x, double m, double times, const double* p, Stream& stream) {
    bool binary = KIND != NEGATIVE_BINOMIAL_KIND;
    double trials = binary ? 1.0 : x + p[0], shift = binary ? 0.0 : p[1];
    double w = polya_gamma(times * trials, m - shift, stream);
    Weighed cell = {(real)w, (real)(times * (x - 0.5 * trials) + w * shift), 0.0};
    return cell;
}
