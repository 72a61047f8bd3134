// Pólya-Gamma numbers ω ~ PG(b, c), as engines/polya_gamma_kernels.py draws them and explains.

#define PI 3.141592653589793
#define SPLIT 0.64

DEVICE double normal_cdf(double x) { return 0.5 * erfc(-x * 0.7071067811865476); }

DEVICE double coefficient(int n, double x) {
    double h = n + 0.5;
    if (x > SPLIT) return PI * h * exp(-0.5 * h * h * PI * PI * x);
    double r = 2.0 / (PI * x);
    return PI * h * r * sqrt(r) * exp(-2.0 * h * h / x);
}

// X ~ IG(1/z, 1), given that it is below the split.
DEVICE double short_inverse_gaussian(double z, Stream& s) {
    if (z * SPLIT < 1.0) {
        while (true) {
            double e = exponential(s), other = exponential(s);
            while (e * e > 2.0 * other / SPLIT) {
                e = exponential(s);
                other = exponential(s);
            }
            double x = SPLIT / ((1.0 + SPLIT * e) * (1.0 + SPLIT * e));
            if (uniform(s) <= exp(-0.5 * z * z * x)) return x;
        }
    }
    double mean = 1.0 / z;
    while (true) {
        double y = normal(s);
        y = mean * y * y;
        double x = mean * (1.0 + 0.5 * (y - sqrt(4.0 * y + y * y)));
        if (uniform(s) * (mean + x) > mean) x = mean * mean / x;
        if (x < SPLIT) return x;
    }
}

// J ~ J*(1, z) = 4 PG(1, 2z), by Devroye's alternating series.
DEVICE double unit_shape(double z, Stream& s) {
    double K = PI * PI / 8.0 + 0.5 * z * z, root = 1.25;
    double below = normal_cdf(root * (SPLIT * z - 1.0));
    if (z < 20.0) below += exp(2.0 * z) * normal_cdf(-root * (SPLIT * z + 1.0));
    double right = PI / (4.0 * K) * exp(z - K * SPLIT);
    while (true) {
        double x;
        if (uniform(s) * (right + below) < right)
            x = SPLIT + exponential(s) / K;
        else
            x = short_inverse_gaussian(z, s);
        double total = coefficient(0, x), y = uniform(s) * total;
        for (int n = 1;; n++) {
            if (n & 1) {
                total -= coefficient(n, x);
                if (y <= total) return x;
            } else {
                total += coefficient(n, x);
                if (y > total) break;
            }
        }
    }
}

// The first ten terms of the sum, and a Gamma with the mean and the variance of the rest.
DEVICE double by_gammas(double b, double c, Stream& s) {
    double a2 = (c / (2.0 * PI)) * (c / (2.0 * PI)), total = 0.0;
    for (int k = 0; k < 10; k++) total += gamma_number(b, s) / ((k + 0.5) * (k + 0.5) + a2);
    double N = 10.0, end = 100.0 + a2, a = sqrt(a2), first, second;
    if (a < 0.1 * N) {
        double t = a2 / (N * N);
        first = (1.0 - t / 3.0 + t * t / 5.0 - t * t * t / 7.0) / N;
        second = (1.0 / 3.0 - 2.0 * t / 5.0 + 3.0 * t * t / 7.0 - 4.0 * t * t * t / 9.0) / (N * N * N);
    } else {
        first = atan(a / N) / a;
        second = (first - N / end) / (2.0 * a2);
    }
    double mean = first - N / (12.0 * end * end), var = second - N / (6.0 * end * end * end);
    total += gamma_number(b * mean * mean / var, s) * (var / mean);
    return total / (2.0 * PI * PI);
}

DEVICE double polya_gamma(double b, double c, Stream& s) {
    if (b <= 4.0 && b == floor(b)) {
        double total = 0.0;
        for (int n = 0; n < (int)b; n++) total += unit_shape(0.5 * fabs(c), s);
        return 0.25 * total;
    }
    return by_gammas(b, c, s);
}
