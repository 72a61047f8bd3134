"""What the kernels are given: records with named fields, in which an array stands as its address and its length.

A kernel cannot be given arrays in a number that it does not know, nor quickly many of them. Python fills the records by
`Record.set`, which checks types and keeps the arrays alive; a kernel makes an array of such a field by `array_of`.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Cells gathered at once: the chunk stays in the first-level cache.
CHUNK = 64
#: How the cells of a block are held. LISTED: those observed; rows that are `covered` list their holes, and are what the
#: sums of a whole row (`base`, `products`) leave of them. FILLED: covered rows have a value for every member: that of a
#: matrix, or zero where nothing is listed; holes are passed over. ZEROS: least squares and filled; the listed cells
#: correct the sums of a row of zeros.
LISTED, FILLED, ZEROS = range(3)
#: How values are held.
BYTES, SINGLE, DOUBLE = range(3)
VALUE_TYPES = {np.dtype(np.uint8): BYTES, np.dtype(np.float32): SINGLE, np.dtype(np.float64): DOUBLE}

#: Stands for the working precision, float32 or float64.
WORKING = None


def array(*items: Any) -> np.dtype[Any]:  # noqa: ANN401 - whatever makes a dtype
    """A field for an array of such items (of any of them): where it lies, and how many it has."""
    return np.dtype([("address", np.int64), ("size", np.int64)], metadata={"items": items})


#: The cells of one block, for the d rows of one entity set.
CELLS = np.dtype([
    ("layout", np.int64),
    ("indptr", array(np.int64)),  # (d+1,) into partner and value
    ("partner", array(np.int32)),  # the partner's row, or its position in members where unlisted cells are zeros
    ("value", array(*VALUE_TYPES)),
    ("value_type", np.int64),
    ("weight", array(np.float32)),  # how many cells each listed one stands for, or nothing: one each
    ("stride", np.int64),  # how far the values of a row are apart; 0: they are zero but for what is listed
    ("members", array(np.int32)),  # partners of a row of which all cells are observed
    ("covered", array(np.bool_)),  # (d,) which rows those are, or nothing
    ("center", np.float64),
    ("inverse_scale", np.float64),  # cells enter as (x − center)/scale
    ("fill", np.float64),  # what an unlisted zero enters as
])  # fmt: skip

#: One relation seen from the set being swept: its cells, its likelihood, and the parameters of the other side.
BLOCK = np.dtype([
    ("summed", CELLS),  # as they are best summed
    ("listed", CELLS),  # every observed cell, one by one
    ("least_squares", np.bool_),  # w is the same for all cells (times their weight) and z = x: no predictor is needed
    ("mild", np.bool_),  # see Likelihood.mild
    ("reach", array(np.float64)),  # (4, Kp): the largest factors of the partners, see pack
    ("zero_weight", np.float64),  # how many cells each observed zero stands for
    ("scale", np.float64),  # multiplies the sums
    ("slope", np.float64),  # by how much the bound changes with the value of the cells
    ("weigh_chunk", np.int64),  # address of the function of its likelihood, see likelihood_kernels.py
    ("draw_chunk", np.int64),  # address of what draws weights in its place, or 0
    ("proposed", np.bool_),  # whether steps of rows that are drawn are proposals, as its cells have no Gaussian form
    ("parameters", array(np.float64)),  # what that function is given besides the cells
    ("bias", array(WORKING)),  # (d,): biases of the rows, read and written
    ("bias_var", array(WORKING)),  # (d,)
    ("pairs", array(WORKING)),  # (n, 2 Kp): means, then variances, of the partners' active columns, zero-padded
    ("partner_bias", array(WORKING)),  # (n,), with the offset of the relation
    ("partner_bias_var", array(WORKING)),
    ("partner_precision", array(np.float64)),  # (n,): of the noise of the partners, or nothing: 1 each
    ("precision", array(np.float64)),  # (d,): of the noise of the rows, read and written; or nothing
    ("noise_cells", array(np.float64)),  # (d,): how many cells tell of it
    ("noise_half", np.float64),  # ν/2 of its prior
    ("floor", np.float64),  # ε²: a variance of least-squares cells that nothing explains
    ("own", np.bool_),  # whether the partners are rows of this set too: what is known of them is written after each row
    ("twin", np.int64),  # then, the block whose biases of the rows are the partners'
    ("offset", np.float64),  # and the fixed part of θ
    ("factor_scale", array(np.float64)),  # (Kp,) and the relation's scales of the active factors, and their variances
    ("factor_scale_var", array(np.float64)),
    ("mates", array(np.int64)),  # (Kp,) and which active factor of the partner each meets, or −1
    ("base", array(np.float64)),  # (Kp + 4, Kp): the sums of a whole row with all its cells at `fill`
    ("products", array(np.float64)),  # (d, Kp + 3): what its values add: Σ x ū_j, Σ x b_j, Σ x² and Σ x; or nothing
])  # fmt: skip

#: One pass over the rows of an entity set.
PASS = np.dtype([
    ("blocks", array(BLOCK)),  # (B,) of BLOCK
    ("n_factors", np.int64),  # active ones
    ("width", np.int64),  # Kp: active ones, padded to a multiple of LANES
    ("single", np.bool_),  # whether the working precision is float32
    ("point", np.bool_),  # MAP: all variances stay zero
    ("guarded", np.bool_),  # whether some quadratic forms are no bounds, so that steps may be too long
    ("drawing", np.bool_),  # whether rows are drawn: from N(A⁻¹h, A⁻¹), in place of the means
    ("proposing", np.bool_),  # whether that is a proposal, to be kept or not
    ("key", np.uint64),  # of the random numbers of this sweep and set
    ("first_row", np.int64),  # which row of the set the first one is, if they are a part of it: whose numbers are whose
    ("copy_row", np.int64),  # addresses of functions of cell_kernels.py, in the working precision,
    ("visit_cells", np.int64),
    ("sum_row", np.int64),  # and of row_kernels.py
    ("form_row", np.int64),
    ("solve_row", np.int64),
    ("hold_row", np.int64),
    ("propose_row", np.int64),
    ("sum_moments", np.int64),
    ("n_columns", np.int64),  # K: factors, active or not
    ("active", array(np.int64)),  # (Kp,), of which the first n_factors say which columns those are
    ("mean", array(WORKING)),  # (d, K): the rows' parameters, read and written
    ("var", array(WORKING)),  # (d, K)
    ("own_means", np.bool_),  # whether rows have prior means of their own, or all have the first
    ("own_precisions", np.bool_),
    ("own_bias_means", np.bool_),
    ("own_bias_precisions", np.bool_),
    ("prior_mean", array(np.float64)),  # (1 or d, n_factors)
    ("prior_precision", array(np.float64)),  # (1 or d, n_factors)
    ("bias_prior_mean", array(np.float64)),  # (1 or d, B)
    ("bias_prior_precision", array(np.float64)),  # (1 or d, B)
    ("present", array(np.bool_)),  # (d,) which rows have any cells
    ("biased", array(np.bool_)),  # (B,) which blocks have biases
    ("edges", array(np.int64)),  # range r of the rows begins at edges[r]
    ("order", array(np.int64)),  # (d,) which row comes where in a sweep, if not all in their order
    ("last_group", np.int64),  # group that a sweep ends before
    ("groups", array(np.int64)),  # ranges groups[g] to groups[g + 1] are swept one after the other, by one thread
    ("turn", array(np.int64)),  # (1,) the next range, counted by all threads together
    ("wanted", array(np.bool_)),  # (B,) blocks whose cells are to be measured or weighed
    ("longest", np.int64),  # cells of a row above which it has been summed in pieces
    ("pieces", array(np.int64)),  # (P, 4): row, block, first and last cell of the pieces of long rows, in this order
    ("parts", array(np.float64)),  # (P, Kp + 4, Kp): what the pieces sum up to
    ("totals", array(np.float64)),  # (d, B): what the cells of each row and block are worth
    ("sums", array(np.float64)),  # (R, 2, Kp): of the factors, by range
    ("bias_sums", array(np.float64)),  # (R, 3, B): of the biases
    ("worth", array(np.float64)),  # (R, 2, B, Kp): gain and energy of each factor
    ("leaning", array(np.float64)),  # (d, 2): what the cells of each row say of its last factor
    ("scaling", array(np.float64)),  # (G, B, Kp + 2, Kp): what the update of scales needs, by group; or nothing
])  # fmt: skip

#: Room for one thread: a chunk of cells in the working precision, and one row in float64.
SCRATCH = np.dtype([
    ("place", array(np.uint64)),  # row of each cell's partner
    ("order", array(np.uint64)),  # 0, 1, 2, …: the rows of `weighted`
    ("x", array(WORKING)),
    ("seen", array(WORKING)),  # how many cells it stands for: 1 if nothing else is said, 0 for a hole
    ("m", array(WORKING)),  # mean of θ
    ("v", array(WORKING)),  # and its variance
    ("weight", array(WORKING)),  # w
    ("target", array(WORKING)),  # w t, with t the target less the partner's bias
    ("weighted", array(WORKING)),  # (CHUNK, Kp): w ū_j
    ("moments", array(WORKING)),  # (3, Kp): ū_i, ū_i² + ũ_i and ũ_i of the row at hand
    ("chunk_sums", array(WORKING)),  # (Kp + 3, Kp): Σ w ū_j ū_jᵀ (upper triangle by tiles), Σ wt ū_j, Σ w ū_j, Σ w ũ_j
    ("row_mean", array(np.float64)),  # (Kp,): ū_i, zero-padded
    ("row_var", array(np.float64)),  # (Kp,): ũ_i
    ("row_bias", array(np.float64)),  # (B,)
    ("row_bias_var", array(np.float64)),  # (B,)
    ("row_sums", array(np.float64)),  # (B, Kp + 4, Kp): see cell_kernels.py for the places
    ("system", array(np.float64)),  # the augmented system [A | h], see row_kernels.py
    ("before", array(np.float64)),  # (B,): the quadratic forms before the step
    ("after", array(np.float64)),  # (B,): the values of guarded cells after it
    ("old_mean", array(np.float64)),  # (Kp,) and (B,): the row's parameters before the step
    ("old_var", array(np.float64)),
    ("old_bias", array(np.float64)),
    ("old_bias_var", array(np.float64)),
    ("product", array(np.float64)),  # (Kp,): of variances
    ("stream", array(np.uint64)),  # (STREAM,): random numbers, see random_kernels.py
])  # fmt: skip


class Record:
    """Records of one kind, all that was written into them, and the working precision."""

    def __init__(self, kind: np.dtype[Any], working: np.dtype[Any], n: int = 1) -> None:
        self.array = np.zeros(n, kind)
        self.working = working
        self._written = dict[tuple[int, str], Any]()

    def copy(self) -> Record:
        """The same records, to be changed on their own."""
        other = Record(self.array.dtype, self.working, 0)
        other.array, other._written = self.array.copy(), self._written.copy()
        return other

    def get(self, name: str, n: int = 0) -> Any:  # noqa: ANN401 - what was written there
        """What was written into a field of record n."""
        value = self._written[n, name]
        return value() if isinstance(value, weakref.ref) else value

    def set(self, n: int = 0, /, **fields: Any) -> None:  # noqa: ANN401 - numbers, arrays or records
        """Write fields of record n: numbers as they are, arrays by their address, records by their contents."""
        for name, value in fields.items():
            before = self._written.get((n, name))
            is_array = isinstance(value, np.ndarray)
            # Most are the same in every sweep, and this is much of what a sweep of a small set costs.
            if before is value or (not is_array and before == value):
                continue
            if is_array:
                self._check(name, value)
                self.array[n][name] = value.ctypes.data, value.size
            else:
                self.array[n][name] = value.array[0] if isinstance(value, Record) else value
            self._written[n, name] = value

    def lend(self, n: int = 0, /, **arrays: Array) -> None:
        """As `set`, of arrays that somebody else keeps alive while kernels run, and may replace."""
        for name, value in arrays.items():
            before = self._written.get((n, name))
            if before is None or before() is not value:
                self.set(n, **{name: value})
                self._written[n, name] = weakref.ref(value)

    def _check(self, name: str, value: Array) -> None:
        items = self.array.dtype[name].metadata["items"]
        if not value.flags.c_contiguous or value.dtype not in [item or self.working for item in items]:
            msg = f"{name} must be contiguous and of type {items}, not {value.dtype}"
            raise TypeError(msg)
