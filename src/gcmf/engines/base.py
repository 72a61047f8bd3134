"""The line between methods and machines: what an engine is given, what it holds, and what it can be asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gcmf.data.cells import Side
    from gcmf.likelihoods import Likelihood

    Floats = NDArray[np.float64]
    Array = NDArray[Any]
    Features = Any
    """An array, or a sparse array of scipy, of which mypy knows nothing."""


#: Halvings of a guarded step before a row is left as it was.
MAX_HALVINGS = 8
#: Log odds of the ones of a relation beyond which they, or the zeros, are rare: 5%.
RARE = 3.0


@dataclass(frozen=True)
class Block:
    """One relation seen from one of its two entity sets: a block of the stacked symmetric matrix."""

    relation: int
    side: int
    """0 when the set being swept holds the rows of the relation, 1 when it holds the columns."""
    other: int
    """Entity set of the partners."""
    cells: Side
    likelihood: Likelihood
    center: float
    scale: float
    """Cells enter as (x − center)/scale."""
    offset: float
    """Fixed part of θ: the intercept of the relation where its cells cannot be centered."""
    symmetric: bool = False
    """Whether the relation is of the set with itself and the same both ways: this block then is all there is of it,
    each row lists its cells from its own end, and sums over the block count every cell twice."""
    noise_cells: Floats | None = None
    """How many cells tell of the noise of each row, (d,); None where all rows have the noise of the relation."""

    @property
    def layer(self) -> int:
        """Index of the bias layer on this side."""
        return 2 * self.relation + self.side

    @property
    def other_layer(self) -> int:
        """Index of the bias layer of the partners."""
        return self.layer if self.symmetric else 2 * self.relation + 1 - self.side

    @property
    def times(self) -> float:
        """What sums over the block are to be multiplied by to count every cell once."""
        return 0.5 if self.symmetric else 1.0


@dataclass(frozen=True)
class Problem:
    """The data of a fit: sizes, and the blocks that touch each entity set."""

    sizes: tuple[int, ...]
    blocks: tuple[tuple[Block, ...], ...]
    biased: tuple[bool, ...]
    """Per bias layer (2 × relation + side): whether it is fitted."""
    n_relations: int
    features: tuple[Features | None, ...] = ()
    """Per entity set what is known of its entities, F (d, p), if anything is; none at all if it is empty."""

    def measured(self, e: int, b: int) -> bool:
        """Whether sweeping set e completes an iteration for its block b: the later of the two sides does."""
        return self.blocks[e][b].other < e

    def own(self, e: int, b: int) -> bool:
        """Whether block b of set e is a relation of the set with itself, to be looked at once the set is swept."""
        return self.blocks[e][b].other == e and self.blocks[e][b].side == 0


@dataclass
class State:
    """Means and variances of all factors and biases. Entities without data hold zeros."""

    mean: list[Array]
    """Per entity set (d, K)."""
    var: list[Array]
    """Per entity set (d, K)."""
    bias_mean: list[Array]
    """Per layer (d,)."""
    bias_var: list[Array]
    """Per layer (d,)."""
    precision: list[Array] = field(default_factory=list)
    """Per layer (d,), float64: how many times as precise as its relation each row is, ⟨ρ⟩; 1 where it is as the
    relation. Nothing where no relation has noise of rows or columns."""

    def copy(self) -> State:
        """Independent arrays with the same values."""
        return State(*([a.copy() for a in group] for group in self.groups()))

    def groups(self) -> tuple[list[Array], ...]:
        """The five lists of arrays."""
        return self.mean, self.var, self.bias_mean, self.bias_var, self.precision


class RowPrior(NamedTuple):
    """What is expected of the rows of one entity set before their cells are seen: u ~ N(mean, 1/precision), and b."""

    mean: Floats
    """Of each factor; the same for all rows (1, K), or row by row (d, K)."""
    precision: Floats
    """Of each factor, (1, K) or (d, K)."""
    bias_mean: Floats
    """Of each bias layer of the set, in the order of its blocks; the same for all rows (1, B), or row by row (d, B)."""
    bias_precision: Floats
    """Of each bias layer of the set; the same for all rows (B,), or row by row (d, B)."""
    point: bool
    """Whether rows are points: their variances stay zero (MAP)."""


class Scales(NamedTuple):
    """How a factor acts in each relation, θ = Σ_k d_mk u_ik u_jk: mean and variance of d, zero where it does not."""

    mean: Floats
    """(M, K)."""
    var: Floats
    """(M, K)."""
    mates: NDArray[np.int64]
    """Which factor of the column factor k of the row meets: k, or in directed relations its mate, (M, K)."""

    def seen(self, m: int, side: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """For each factor of an entity on this side: mean and variance of the scale, and which factor it meets."""
        mates = self.mates[m]
        of = mates if side else slice(None)
        return self.mean[m][of], self.var[m][of], mates

    def scaled(self, m: int, side: int, mean: Floats, var: Floats) -> tuple[Floats, Floats]:
        """Mean d̄ ū and variance ⟨d²⟩⟨u²⟩ − d̄²ū² of d u, for factors of partners (..., K) of who is on this side."""
        d, d_var, mates = self.seen(m, side)
        mean, var = mean[..., mates], var[..., mates]
        return d * mean, (d**2 + d_var) * var + d_var * mean**2


class Given(NamedTuple):
    """What engines take as fixed while they sweep or measure."""

    on: NDArray[np.bool_]
    """Which factors live in which entity sets, (E, K)."""
    priors: tuple[RowPrior, ...]
    """Per entity set."""
    parameters: tuple[Floats, ...]
    """Of each relation's likelihood."""
    slope: Floats
    """By how much the bound changes per unit of a relation's summed values, (M,); of least squares −⟨τ⟩/2."""
    scales: Scales | None = None
    """Of relations and factors; None where all are 1. A row then sees its partners' u times d."""
    key: int | None = None
    """Rows are not updated but drawn, if there is a key: each from its conditional, all being points. The same key and
    state give the same draw."""
    proposing: bool = False
    """Whether rows with cells of which one value is rare (`is_rare`) are proposed in place of drawn given weights."""
    noise: Floats | None = None
    """ν/2 of each layer, (2M,), infinite where its rows have the noise of the relation; None if all have."""
    floor: Floats | None = None
    """ε² of each relation, (M,): a variance of its cells that nothing explains, so that no row or column is exact."""

    def floor_of(self, m: int) -> float:
        """ε² of relation m."""
        return 0.0 if self.floor is None else float(self.floor[m])

    def is_noisy(self, layer: int) -> bool:
        """Whether the rows of a layer have noise of their own."""
        return self.noise is not None and bool(np.isfinite(self.noise[layer]))


class Swept(NamedTuple):
    """What a sweep of an entity set leaves to know of it, so that nobody needs to look at its rows again."""

    measured: Floats
    """(M,): the cells' summed values per relation that the sweep completes, with the quadratic forms that its rows were
    updated with, so that touching again can only raise the bound (least squares: exactly). NaN elsewhere."""
    square: Floats
    """Σ_i [(ū − prior mean)² + ũ], (K,)."""
    log_var: Floats
    """Σ_i log ũ over the entities with data, (K,)."""
    layers: NDArray[np.int64]
    """Bias layers of the set, (B,)."""
    bias: Floats
    """Σ b̄, Σ (b̄² + b̃) and Σ log b̃ of each of these layers, (3, B)."""
    scaling: Floats
    """What the scales' update needs of the relations that the sweep completes, with the same quadratic forms,
    (M, K + 2, K): with p_k = d̄_k ū_ik ū_jk, Σ w p pᵀ, then Σ w (z − b̄_i − b̄_j) p, then Σ w ⟨d²⟩⟨u_i²⟩⟨u_j²⟩. Zero
    elsewhere; (0, 0, 0) where there are no scales."""
    noise: Floats
    """What `noise.sums_of` makes of the precisions of each layer, (6, B), zero where rows have no noise of their
    own; (0, 0) where no relation has."""


def is_proposed(likelihood: Likelihood) -> bool:
    """Whether rows with such cells have no Gaussian to be drawn from, and Metropolis' rule has to decide on them."""
    return not likelihood.least_squares and likelihood.trials is None


def is_rare(likelihood: Likelihood, offset: float) -> bool:
    """Whether cells are 0/1 with one value so rare that rows hardly move when drawn given Pólya-Gamma weights.

    A weight is E ω ≈ 1/(2|θ|), and what a cell tells is σ(1 − σ). Steps are as short as if all were told by weights, so
    that draws need about E ω/σ(1 − σ) sweeps to forget: 3 of 5% ones, 14 of 0.7% (Johndrow and others, 2019).
    """
    return likelihood.trials is not None and likelihood.support == "binary" and abs(offset) > RARE


def proposes(block: Block, given: Given) -> bool:
    """Whether Metropolis' rule has to decide on rows with the cells of a block in this sweep."""
    return is_proposed(block.likelihood) or (given.proposing and is_rare(block.likelihood, block.offset))


def stream_key(key: int, e: int, *, again: bool) -> int:
    """A key of 64 bits for the random numbers of entity set e."""
    return int(np.random.SeedSequence([key, e, again]).generate_state(1, np.uint64)[0])


class Engine(Protocol):
    """Holds the state of a run and computes with it: what, is written here; how and where, is its own business.

    Nobody else changes the state, or sees it before `fetch`. Nothing here needs more than a few numbers per factor to
    pass between the engine and who drives it, except `place`, `fetch`, the new factors of `extend`, and two numbers for
    each row of `lean`.
    """

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision in which the state is held at present."""

    # --- the state -------------------------------------------------------------------------------------------

    def place(self, state: State) -> None:
        """Take over these parameters; the arrays are the engine's from now on."""

    def fetch(self) -> State:
        """Return the parameters, in arrays of the caller's own."""

    def keep(self, slot: str) -> None:
        """Remember the state as it is now under this name, in place of what was kept there."""

    def restore(self, slot: str) -> None:
        """Go back to what was kept under this name, which stays kept."""

    def drop(self, slot: str) -> None:
        """Forget what was kept under this name."""

    # --- sweeps and sums over cells ---------------------------------------------------------------------------

    def sweep(self, e: int, given: Given) -> Swept:
        """Update every row of entity set e."""

    def measure(self, given: Given) -> Floats:
        """Per relation: the summed values of its cells at the current parameters, (M,)."""

    def weigh(self, given: Given) -> tuple[Floats, Floats]:
        """What each factor is worth to each relation, (M, K) each: the gain in the bound, and Σ w p².

        With p = ū_ik ū_jk, r the residual and v_k the variance of the factor's part of θ, and (w, z) held,
        gain = Σ w [2 r p + p² − v_k]/2 is what the bound of the cells would lose without the factor.
        """

    def lean(self, e: int, k: int, given: Given) -> Floats:
        """What the cells of each row of set e say of its factor k, the rest of the row being integrated out, (2, d).

        With points for all else: the precision of what they say, and that precision times its mean; zeros for an entity
        without cells. Given a key, with the weights that a sweep with that key would draw.
        """

    def regress(self, e: int) -> Floats:
        """Fᵀ ū and Fᵀ b̄ of the factors and the bias layers of a set with features, (p, K + B)."""

    def totals(self, e: int) -> Floats:
        """Σ_i ū of the factors of a set, (K,)."""

    # --- moves ------------------------------------------------------------------------------------------------

    def second_moments(self) -> Floats:
        """M_e = Σ_i (ū ūᵀ + diag ũ), (E, K, K)."""

    def transform(self, T: list[Floats]) -> tuple[Floats, Floats]:
        """ū ← ū T_e in every set, T_e (K, K′); ũ ← ũ (T_e ∘ T_e), the diagonal of the turned covariance.

        Returns Σ (ū² + ũ) and Σ log ũ of the new factors, (E, K′) each. A column with a single one keeps or copies a
        factor to the bit, a column of zeros switches it off.
        """

    def scale(self, factors: Floats) -> None:
        """ū ← √f ū and ũ ← f ũ, with f (E, K)."""

    def shift(self, step: Floats) -> None:
        """b̄ ← b̄ + step for the entities that have a cell in the layer's relation, step (2M,)."""

    def scale_noise(self, factors: Floats) -> None:
        """ρ ← f ρ of the rows of each layer, f (2M,)."""

    def leap(self, slot: str, length: float) -> tuple[Floats, Floats]:
        """ū ← ū + length (ū − ū kept under this name), and so the biases; variances stay.

        Returns Σ (ū² + ũ), (E, K), and Σ b̄ and Σ (b̄² + b̃) of every bias layer, (2, 2M).
        """

    def extend(self, mean: list[Array], var: list[Array]) -> tuple[Floats, Floats]:
        """Add factors after those there are, (d, n) per set; returns their sums as `transform` does."""
