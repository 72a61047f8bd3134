"""How far draws can be trusted: effective sample sizes, and R-hat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


#: Draws of a chain below which nothing can be said of it.
SHORTEST = 8
#: R-hat of halves that are constant and differ: beyond any that draws have, and a number that files can hold.
APART = 99.0


def r_hat(chains: Floats) -> Floats:
    """R-hat of halves of chains, (C, S, n) → (n,): 1 where all halves agree, 0 where there are too few draws to tell.

    The larger one of two: of the draws, which sees places that differ, and of their distances from the median, which
    sees widths that differ. Both by normal scores of ranks, so that a few draws far out hide nothing (Vehtari and
    others, 2021).
    """
    if chains.shape[1] < SHORTEST:
        return np.zeros(chains.shape[2])
    halves = _halves(chains)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_ratio(_scores(halves)), _ratio(_scores(folded)))


def _scores(halves: Floats) -> Floats:
    """Φ⁻¹((rank − ⅜)/(N + ¼)) among all N draws; equal ones share a rank."""
    flat = halves.reshape(-1, halves.shape[2])
    scores: Floats = ndtri((rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25)).reshape(halves.shape)
    return scores


def _ratio(halves: Floats) -> Floats:
    """√(total variance / variance within)."""
    n = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    ratio = np.divide(between, within, out=np.where(between > 0, APART**2, 0.0), where=within > 0)
    return np.asarray(np.minimum(np.sqrt(np.where(between > 0, (n - 1) / n, 1.0) + ratio), APART))


def effective_size(chains: Floats) -> Floats:
    """C S / (1 + 2 Σ_t ρ_t), (C, S, n) → (n,): ρ_t the autocorrelation of halves of chains, with what sets them apart.

    The sum ends where two neighbors ρ_2t + ρ_2t+1 are no longer positive, and these never rise (Geyer, 1992). 0 where
    there are too few draws to tell.
    """
    if chains.shape[1] < SHORTEST:
        return np.zeros(chains.shape[2])
    halves = _halves(chains)
    m, n = halves.shape[:2]
    away = halves - halves.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(away, 2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(power, axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1)
    total = covariance[0] + halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        rho = 1.0 - (within - covariance * n / (n - 1)) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(n // 2, 2, -1).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    summed = np.where(positive, np.minimum.accumulate(pairs, axis=0), 0.0).sum(axis=0)
    size = m * n / np.maximum(2.0 * summed - 1.0, 1.0 / np.log10(max(m * n, 10)))
    return np.where(within > 0, size, float(m * n))


def _halves(chains: Floats) -> Floats:
    n = chains.shape[1] // 2
    return np.concatenate([chains[:, :n], chains[:, chains.shape[1] - n :]]).astype(np.float64)
