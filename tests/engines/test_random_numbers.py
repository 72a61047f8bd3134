"""Random numbers of the kernels: the generator by its published test, distributions by what is known of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gcmf.engines.compiled import kernel
from gcmf.engines.polya_gamma_kernels import polya_gamma
from gcmf.engines.random_kernels import STREAM, begin, gamma, normal, philox, uniform
from gcmf.engines.reference import polya_gamma as reference_polya_gamma

N = 60_000


@kernel
def mixed(words, out):
    first, second = philox(words[0], words[1], words[2], words[3], words[4])
    out[0], out[1] = first, second


@kernel
def fill(kind, shape, tilt, stream, out):
    for n in range(len(out)):
        begin(stream, np.uint64(7), np.uint64(n), np.uint64(3), np.uint64(1))
        if kind == 0:
            out[n] = uniform(stream)
        elif kind == 1:
            out[n] = normal(stream)
        elif kind == 2:
            out[n] = gamma(shape, stream)
        else:
            out[n] = polya_gamma(shape, tilt, stream)


def drawn(kind, shape=1.0, tilt=0.0, n=N):
    out = np.zeros(n)
    fill(kind, shape, tilt, np.zeros(STREAM, np.uint64), out)
    return out


def test_philox_as_published():
    """The known answer of its authors for a counter and a key of zeros."""
    out = np.zeros(2, np.uint64)
    mixed(np.zeros(5, np.uint64), out)
    assert [int(w) for w in out] == [0xE169C58D6627E8D5, 0x9B00DBD8BC57AC4C]


@pytest.mark.parametrize(
    ("kind", "shape", "law"),
    [(0, 1.0, stats.uniform()), (1, 1.0, stats.norm()), (2, 0.2, stats.gamma(0.2)), (2, 1.0, stats.gamma(1.0)),
     (2, 37.5, stats.gamma(37.5))],
)  # fmt: skip
def test_distributions(kind, shape, law):
    assert stats.kstest(drawn(kind, shape), law.cdf).pvalue > 1e-3


def moments(b, c):
    if c == 0.0:
        return b / 4.0, b / 24.0
    t = np.tanh(c / 2.0)
    return b * t / (2.0 * c), b * (2.0 * t - c * (1.0 - t * t)) / (4.0 * c**3)


def laplace(b, c, t):
    """E exp(−tω) = cosh(c/2)^b / cosh(√(c²/4 + t/2))^b, by logarithms."""

    def log_cosh(x):
        return x + np.log1p(np.exp(-2.0 * x)) - np.log(2.0)

    return np.exp(b * (log_cosh(abs(c) / 2.0) - log_cosh(np.sqrt(c * c / 4.0 + t / 2.0))))


@pytest.mark.parametrize("b", [1.0, 3.0, 0.3, 2.5, 40.2, 1000.0])
@pytest.mark.parametrize("c", [0.0, -1.3, 6.0, 45.0])
def test_polya_gamma(b, c):
    omega, (mean, var) = drawn(3, b, c), moments(b, c)
    assert abs(omega.mean() - mean) < 4.5 * np.sqrt(var / N)
    assert omega.var() == pytest.approx(var, rel=0.06)
    for t in (0.3 / mean, 3.0 / mean):
        values = np.exp(-t * omega)
        assert abs(values.mean() - laplace(b, c, t)) < 4.5 * values.std() / np.sqrt(N) + 1e-12


def test_the_references_are_of_the_same_law():
    rng = np.random.default_rng(0)
    for b, c in ((1.0, 0.0), (2.5, -3.0)):
        omega = reference_polya_gamma(np.full(4000, b), np.full(4000, c), rng)
        assert stats.ks_2samp(omega, drawn(3, b, c, 4000)).pvalue > 1e-3


def test_streams_differ_by_each_of_their_words():
    base, out = np.array([5, 1, 2, 3, 4], np.uint64), np.zeros(2, np.uint64)
    found = set()
    for n in range(6):
        words = base.copy()
        if n < 5:
            words[n] += np.uint64(1)
        mixed(words, out)
        found.add(tuple(int(w) for w in out))
    assert len(found) == 6
