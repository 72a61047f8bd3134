"""Pólya-Gamma numbers, compiled: ω ~ PG(b, c), with which logistic cells are Gaussian (Polson, Scott and Windle, 2013).

    PG(b, c) = 1/(2π²) Σ_k g_k / ((k − ½)² + c²/(4π²)),   g_k ~ Gamma(b, 1)
    E ω = b tanh(c/2)/(2c),   E e^(−tω) = cosh(c/2)^b / cosh(√(c²/4 + t/2))^b

PG(1, c), and small whole b as a sum of them, are drawn exactly (Devroye's alternating series). For other b, `TERMS` of
the sum above are drawn, and one Gamma stands for all others, with their mean and variance: what is left wrong is the
third cumulant, by 2e-5 of itself for |c| up to 10, 4e-4 up to 20, and 2% at 50.
"""

from __future__ import annotations

import math

from gcmf.engines.compiled import part
from gcmf.engines.random_kernels import exponential, gamma, normal, uniform

#: Up to this many PG(1, c) are added up one by one.
MOST_ALONE = 4.0
TERMS = 10
#: Where the two series of the density of J*(1, z) = 4 PG(1, 2z) meet.
SPLIT = 0.64


@part
def polya_gamma(b, c, stream):
    """ω ~ PG(b, c), b > 0."""
    if b <= MOST_ALONE and b == math.floor(b):
        total = 0.0
        for _ in range(int(b)):
            total += _unit_shape(0.5 * abs(c), stream)
        return 0.25 * total
    return _by_gammas(b, c, stream)


@part
def _by_gammas(b, c, stream):
    """The first terms of the sum, and a Gamma with the mean and the variance of the rest.

    Σ_(k>N) f(k − ½) is the integral of f from N on, and f′(N)/24.
    """
    a2 = (c / (2.0 * math.pi)) ** 2
    total = 0.0
    for k in range(TERMS):
        total += gamma(b, stream) / ((k + 0.5) * (k + 0.5) + a2)
    N, end = float(TERMS), TERMS * TERMS + a2
    a = math.sqrt(a2)
    if a < 0.1 * N:
        s = a2 / (N * N)
        first = (1.0 - s / 3.0 + s * s / 5.0 - s * s * s / 7.0) / N
        second = (1.0 / 3.0 - 2.0 * s / 5.0 + 3.0 * s * s / 7.0 - 4.0 * s * s * s / 9.0) / (N * N * N)
    else:
        first = math.atan(a / N) / a
        second = (first - N / end) / (2.0 * a2)
    mean = first - N / (12.0 * end * end)
    var = second - N / (6.0 * end * end * end)
    total += gamma(b * mean * mean / var, stream) * (var / mean)
    return total / (2.0 * math.pi * math.pi)


@part
def _unit_shape(z, stream):
    """J ~ J*(1, z): a proposal from a left and a right piece, kept or not by partial sums of the alternating series."""
    K = math.pi * math.pi / 8.0 + 0.5 * z * z
    root = 1.0 / math.sqrt(SPLIT)
    # Probability that IG(1/z, 1) is below the split; beyond z = 20 the second term is nothing.
    below = _normal_cdf(root * (SPLIT * z - 1.0))
    if z < 20.0:
        below += math.exp(2.0 * z) * _normal_cdf(-root * (SPLIT * z + 1.0))
    right = math.pi / (4.0 * K) * math.exp(z - K * SPLIT)
    while True:
        if uniform(stream) * (right + below) < right:
            x = SPLIT + exponential(stream) / K
        else:
            x = _short_inverse_gaussian(z, stream)
        total, n = _coefficient(0, x), 0
        y = uniform(stream) * total
        while True:
            n += 1
            if n % 2 == 1:
                total -= _coefficient(n, x)
                if y <= total:
                    return x
            else:
                total += _coefficient(n, x)
                if y > total:
                    break


@part
def _coefficient(n, x):
    """a_n(x), either of the two forms that the density has."""
    h = n + 0.5
    if x > SPLIT:
        return math.pi * h * math.exp(-0.5 * h * h * math.pi * math.pi * x)
    return math.pi * h * (2.0 / (math.pi * x)) ** 1.5 * math.exp(-2.0 * h * h / x)


@part
def _short_inverse_gaussian(z, stream):
    """X ~ IG(1/z, 1), given that it is below the split."""
    if z * SPLIT < 1.0:
        while True:
            e, other = exponential(stream), exponential(stream)
            while e * e > 2.0 * other / SPLIT:
                e, other = exponential(stream), exponential(stream)
            x = SPLIT / ((1.0 + SPLIT * e) * (1.0 + SPLIT * e))
            if uniform(stream) <= math.exp(-0.5 * z * z * x):
                return x
    mean = 1.0 / z
    while True:
        y = normal(stream)
        y = mean * y * y
        x = mean * (1.0 + 0.5 * (y - math.sqrt(4.0 * y + y * y)))
        if uniform(stream) * (mean + x) > mean:
            x = mean * mean / x
        if x < SPLIT:
            return x


@part
def _normal_cdf(x):
    """Φ(x)."""
    return 0.5 * math.erfc(-x * math.sqrt(0.5))
