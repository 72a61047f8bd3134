"""The line between the driver and the machines: what an engine is given, and what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.cells import Side

    Floats = NDArray[np.float64]
    Array = NDArray[Any]


#: Code of the likelihoods whose expectation is exact and whose steps need guarding.
QUADRATURE = 6
#: Halvings of a step before a row is left as it was.
MAX_HALVINGS = 8


class CellMath(Protocol):
    """The part of a likelihood that an engine needs."""

    @property
    def code(self) -> int:
        """The number by which compiled engines know it."""

    @property
    def zero_weight(self) -> float:
        """How many cells each observed zero stands for."""

    def quadratic(self, x: Floats, m: Floats, v: Floats, weight: float) -> tuple[Floats, Floats]:
        """Weights w and weighted pseudo-data wz."""

    def lower_bound(self, x: Floats, m: Floats, v: Floats, weight: float) -> Floats:
        """Bounded expected log-likelihood of each cell (Gaussian: expected squared residual)."""

    def mean(self, m: Floats, v: Floats) -> Floats:
        """E x of a cell."""


@dataclass(frozen=True)
class Block:
    """One relation seen from one of its two entity sets: a block of the stacked symmetric matrix."""

    relation: int
    side: int
    """0 when the set being swept holds the rows of the relation, 1 when it holds the columns."""
    other: int
    """Entity set of the partners."""
    cells: Side
    likelihood: CellMath
    center: float
    scale: float
    """Cells enter as (x − center)/scale."""
    offset: float
    """Fixed part of θ: the intercept of the relation where its cells cannot be centered."""

    @property
    def layer(self) -> int:
        """Index of the bias layer on this side."""
        return 2 * self.relation + self.side

    @property
    def other_layer(self) -> int:
        """Index of the bias layer of the partners."""
        return 2 * self.relation + 1 - self.side


@dataclass(frozen=True)
class Problem:
    """The placed data: sizes, and the blocks that touch each entity set."""

    sizes: tuple[int, ...]
    blocks: tuple[tuple[Block, ...], ...]
    biased: tuple[bool, ...]
    """Per bias layer (2 × relation + side): whether it is fitted."""
    n_relations: int

    def measured(self, e: int, b: int) -> bool:
        """Whether sweeping set e completes an iteration for its block b: the later of the two sides does."""
        return self.blocks[e][b].other < e


@dataclass
class State:
    """The parameters that sweeps move. Entities without data hold zero means and variances."""

    mean: list[Array]
    """Per entity set (d, K)."""
    var: list[Array]
    """Per entity set (d, K)."""
    bias_mean: list[Array]
    """Per layer (d,)."""
    bias_var: list[Array]
    """Per layer (d,)."""

    def copy(self) -> State:
        """Independent arrays with the same values."""
        return State(*([a.copy() for a in group] for group in self._groups()))

    def copy_to(self, spare: State | None) -> State:
        """The same values in the arrays of `spare`, an earlier state of the same run, if they still fit."""
        mean = self.mean[0]
        if spare is None or (mean.shape, mean.dtype) != (spare.mean[0].shape, spare.mean[0].dtype):
            return self.copy()
        for group, others in zip(self._groups(), spare._groups(), strict=True):
            for a, other in zip(group, others, strict=True):
                np.copyto(other, a)
        return spare

    def convert(self, dtype: np.dtype[Any]) -> None:
        """Hold the arrays in this precision from now on."""
        for group in self._groups():
            group[:] = [a.astype(dtype, copy=False) for a in group]

    def _groups(self) -> tuple[list[Array], ...]:
        return self.mean, self.var, self.bias_mean, self.bias_var


class Hyper(NamedTuple):
    """What one sweep takes as fixed."""

    alpha: Floats
    """⟨α⟩, (E, K)."""
    on: NDArray[np.bool_]
    """Which factors live in which entity sets, (E, K)."""
    weight: Floats
    """⟨τ⟩ or the curvature of each relation, (M,)."""
    bias_mean: Floats
    """⟨μ⟩ of each bias layer, (2M,)."""
    bias_precision: Floats
    """1/σ² of each bias layer, (2M,)."""
    point: bool
    """MAP: all variances stay zero."""
    damping: float | None
    """λ of the Newton step; None solves exactly."""


class Swept(NamedTuple):
    """What a sweep of an entity set leaves to know of it, so that nobody needs to look at its rows again."""

    measured: Floats
    """(M,): the cells' bounds per relation that the sweep completes, with the quadratic forms that its rows were
    updated with, so that touching again can only raise them (Gaussian: expected squared residuals). NaN elsewhere."""
    square: Floats
    """Σ_i (ū² + ũ), (K,)."""
    log_var: Floats
    """Σ_i log ũ over the entities with data, (K,)."""
    layers: NDArray[np.int64]
    """Bias layers of the set, (B,)."""
    bias: Floats
    """Σ b̄, Σ (b̄² + b̃) and Σ log b̃ of each of these layers, (3, B)."""


class Engine(Protocol):
    """Takes parameters, sweeps one entity set, measures cells, weighs factors. How is its business; what is not."""

    def place(self, state: State) -> None:
        """Take over these parameters."""

    def sweep(self, e: int, hyper: Hyper) -> Swept:
        """Update every row of entity set e."""

    def measure(self, hyper: Hyper) -> Floats:
        """Per relation: the sum of `lower_bound` over its cells at the current parameters, (M,)."""

    def weigh(self, hyper: Hyper) -> tuple[Floats, Floats]:
        """What each factor is worth to each relation, (M, K) each: the gain in the bound, and Σ w p².

        With p = ū_ik ū_jk, r the residual and v_k the variance of the factor's part of θ, and (w, z) held,
        gain = Σ w [2 r p + p² − v_k]/2 is what the bound of the cells would lose without the factor.
        """
