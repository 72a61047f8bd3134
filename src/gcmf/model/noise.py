"""Noise of rows and columns, x_ij ~ N(θ_ij, 1/(τ ρ_i σ_j)): which cells tell of it, how its spread ν is learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from gcmf.engines.noise import N_SUMS
from gcmf.gamma import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gcmf.data.cells import Side
    from gcmf.likelihoods import Likelihood

    Floats = NDArray[np.float64]

#: ν/2 with which fits begin, and its range: below it one row would decide on the relation's noise; above it the noise
#: of rows differs by less than 5%, and they have that of their relation from then on.
FIRST_HALF, LEAST_HALF, MOST_HALF = 5.0, 0.25, 100.0
#: Rows with fewer cells on average have the noise of their relation until the factors have settled: before, a few cells
#: that differ much from the others look like noise, and then no factor has to explain them.
FEW_CELLS = 40.0
#: ε² as a share of the mean noise variance of a relation: a row or column that the factors meet exactly, as pixels that
#: are blank in nearly all pictures, would be infinitely precise, and a cell of it that differs infinitely improbable.
#: Too small costs density without limit, too large ½ log of the excess: log density per cell of digits with a view
#: missing is −0.62 at 1e-3 and 0.32 at 1e-2.
FLOOR = 0.01


class Noise(NamedTuple):
    """What is known of the noise of the rows of each layer, apart from the rows themselves."""

    half: Floats
    """ν/2, (2M,): ρ ~ Gamma(ν/2, ν/2); infinite where rows have the noise of their relation."""
    sums: Floats
    """Σ ⟨ρ⟩, Σ ⟨log ρ⟩, Σ n ⟨log ρ⟩, Σ n/⟨ρ⟩, Σ 1/⟨ρ⟩ and the entropies, (6, 2M)."""
    n_rows: Floats
    n_cells: Floats
    """Rows that tell of their noise, and their cells, (2M,)."""
    floor: Floats
    """ε² of each relation, (M,): a variance of its cells that nothing explains; zero where rows have no noise."""
    rest: Floats
    """log ρ of the rows that do not tell of their noise, (2M,), and how many cells they have, (2M,)."""
    n_rest: Floats
    waits: NDArray[np.bool_]
    """Where ν is not learned yet, because rows have few cells, (2M,)."""


class RowNoise(NamedTuple):
    """The noise of rows and columns of a fitted model, per layer (2 × relation + side)."""

    precision: tuple[Floats, ...]
    """⟨ρ⟩: how many times as precise as its relation each row is, (d,)."""
    cells: tuple[Floats, ...]
    """How many cells told of it, (d,)."""
    half: Floats
    """ν/2, (2M,); zero where rows have the noise of their relation."""
    floor: Floats
    """ε² of each relation, (M,)."""

    def is_noisy(self, layer: int) -> bool:
        """Whether the rows of a layer have noise of their own."""
        return bool(self.half[layer] > 0.0)

    def given(self, relations: Sequence[int]) -> tuple[Floats, Floats]:
        """ν/2 of the layers and ε² of some relations, as engines take them."""
        half = self.half.reshape(-1, 2)[list(relations)].ravel()
        return np.where(half > 0.0, half, np.inf), self.floor[list(relations)]

    def at(self, layer: int, i: NDArray[np.integer]) -> Floats:
        """⟨ρ⟩ of these rows; 1 for position −1."""
        return np.asarray(np.append(self.precision[layer], 1.0)[i])

    def with_rows(self, layer: int, new: tuple[Floats, Floats], *, beside: bool) -> RowNoise:
        """The same with these rows (precisions, cells) in the place of those of a layer, or `beside` them."""
        old = self.precision[layer], self.cells[layer]
        now = [np.concatenate([a, b]) if beside else b for a, b in zip(old, new, strict=True)]
        changed = [(*group[:layer], a, *group[layer + 1 :])
                   for group, a in zip((self.precision, self.cells), now, strict=True)]  # fmt: skip
        return self._replace(precision=changed[0], cells=changed[1])

    def share(self, layer: int, i: NDArray[np.integer]) -> Any:  # noqa: ANN401 - a number where all are alike
        """⟨1/ρ_i⟩, the noise variance of rows as a share of their relation's; position −1: of anybody."""
        if not self.is_noisy(layer):
            return 1.0
        shape = self.half[layer] + self.cells[layer] / 2.0
        # Of a Gamma that is nearly flat ⟨1/ρ⟩ is infinite: what is known of such a row is its order of magnitude.
        share = shape / np.maximum(shape - 1.0, shape / 2.0) / self.precision[layer]
        known = share[self.cells[layer] > 0]
        return np.append(share, known.mean() if len(known) else 1.0)[i]


def fitted_noise(noise: Noise | None, precision: Sequence[Floats], cells: Sequence[Floats | None]) -> RowNoise | None:
    """What remains of a fit."""
    if noise is None or not np.isfinite(noise.half).any():
        return None
    there = np.isfinite(noise.half)
    known = [np.zeros(len(rho)) if n is None or not on else n
             for rho, n, on in zip(precision, cells, there, strict=True)]  # fmt: skip
    return RowNoise(
        tuple(np.where(n > 0.0, rho, 1.0) for rho, n in zip(precision, known, strict=True)), tuple(known),
        np.where(there, noise.half, 0.0),
        noise.floor,
    )  # fmt: skip


def cells_of_noise(side: Side, number: int, likelihood: Likelihood) -> Floats | None:
    """How many cells tell of the noise of each row of a side (0 or 1); None where rows have that of the relation.

    A row of which all cells are equal tells nothing: no noise at all would explain it best.
    """
    if likelihood.noise not in ("both", ("rows", "cols")[number]):
        return None
    return np.where(side.varying(), side.weights(), 0.0)


def start(cells: Sequence[Floats | None], n_all: Floats) -> Noise | None:
    """Where a fit begins: rows are as precise as their relation.

    `cells`: per layer, how many tell of each row; `n_all`: of all cells of each relation, (M,).
    """
    n_rows = np.array([0 if n is None else np.count_nonzero(n) for n in cells], dtype=float)
    n_cells = np.array([0.0 if n is None else n.sum() for n in cells])
    waits = n_cells < FEW_CELLS * n_rows
    half = np.where(n_rows > 0, np.where(waits, MOST_HALF, FIRST_HALF), np.inf)
    # The data have unit variance.
    floor = np.where((n_rows > 0).reshape(-1, 2).any(axis=1), FLOOR, 0.0)
    sums, rest = np.zeros((N_SUMS, len(cells))), np.zeros(len(cells))
    n_rest = np.repeat(n_all, 2) - n_cells
    return Noise(half, sums, n_rows, n_cells, floor, rest, n_rest, waits) if (n_rows > 0).any() else None


def released(noise: Noise) -> Noise:
    """The same, and rows with few cells no longer wait."""
    return noise._replace(waits=np.zeros_like(noise.waits))


def unit_mean(noise: Noise) -> tuple[Noise, Floats]:
    """Noise of which every layer has the mean ⟨ρ⟩ = 1, and what its rows are to be multiplied by, (2M,).

    τ takes the mean: no cell's weight changes, and the prior of ρ, whose mean is one, gains. Sweep by sweep, τ and ρ
    would creep there.
    """
    there = np.isfinite(noise.half)
    mean = np.where(there, noise.sums[0] / np.where(there, noise.n_rows, 1.0), 1.0)
    rho, log, n_log, n_inverse, inverse, entropy = noise.sums
    logs, n = np.log(mean), noise.n_rows
    sums = [rho / mean, log - n * logs, n_log - noise.n_cells * logs, n_inverse * mean, inverse * mean,
            entropy - n * logs]  # fmt: skip
    return noise._replace(sums=np.array(sums), rest=noise.rest - logs), 1.0 / mean


def update(noise: Noise, variance: Floats, *, early: bool) -> Noise:
    """log(ν/2) − ψ(ν/2) = mean(⟨ρ⟩ − ⟨log ρ⟩) − 1; rows that gain nothing by it have the noise of their relation.

    Not `early`, before factors have found what tells rows apart. `variance` is 1/⟨τ⟩ of each relation, (M,). ε² follows
    the mean noise variance of a relation downwards: so the bound rises.
    """
    half, there = noise.half.copy(), np.isfinite(noise.half)
    learned = there & ~noise.waits
    for layer in np.flatnonzero(learned).tolist():
        gap = (noise.sums[0, layer] - noise.sums[1, layer]) / noise.n_rows[layer] - 1.0
        half[layer] = max(shape_of(gap, MOST_HALF if early else 2.0 * MOST_HALF), LEAST_HALF)
    if not early:
        half[learned] = np.where(_gains(noise)[learned[there]] > 0.0, half[learned], np.inf)
    mean = np.where(there, noise.sums[3] / np.where(there, noise.n_cells, 1.0), 1.0).reshape(-1, 2).prod(axis=1)
    floor = np.where(noise.floor > 0.0, np.minimum(noise.floor, FLOOR * variance * mean), 0.0)
    return noise._replace(half=np.where(half > MOST_HALF, np.inf, half), floor=floor)


def expected(noise: Noise) -> float:
    """What noise of rows adds to the bound, apart from the weights of the cells."""
    return float(_expected(noise).sum())


def _expected(noise: Noise) -> Floats:
    """n [h log h − log Γ(h)] + (h − 1) Σ⟨log ρ⟩ − h Σ⟨ρ⟩ + H + ½ Σ n⟨log ρ⟩ of each noisy layer, h = ν/2."""
    there = np.isfinite(noise.half)
    h, n, (rho, log, n_log, _, _, entropy) = noise.half[there], noise.n_rows[there], noise.sums[:, there]
    prior = n * (h * np.log(h) - gammaln(h)) + (h - 1.0) * log - h * rho
    return np.asarray(prior + entropy + 0.5 * (n_log + noise.n_rest[there] * noise.rest[there]))


def _gains(noise: Noise) -> Floats:
    """By how much noise of rows raises the bound over ρ = 1, of each noisy layer.

    The cells have −½ Σ ⟨ρ⟩ E with it and −½ Σ E without, and E, the rows' sums of weighed squares, follow from
    ⟨ρ⟩ = (h + n/2)/(h + E/2).
    """
    there = np.isfinite(noise.half)
    h, n, n_cells = noise.half[there], noise.n_rows[there], noise.n_cells[there]
    rho, _, _, n_inverse, inverse, _ = noise.sums[:, there]
    with_it, without = h * n + 0.5 * n_cells - h * rho, h * inverse + 0.5 * n_inverse - h * n
    return np.asarray(_expected(noise) - with_it + without)
