"""What every source of data is read into: its own ids, and cells as positions among them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd

from gcmf.data.positions import parts
from gcmf.errors import DataError

if TYPE_CHECKING:
    import numpy.typing as npt

    from gcmf.data.positions import Positions
    from gcmf.data.schema import Columns
    from gcmf.data.units import Units
    from gcmf.data.vocabulary import Vocabulary

Source = Any
"""Data as a user gives it, before anything is known of it."""
BLANKS = ("missing", "zero")
"""What a cell that is not listed may be."""
_NUMBERS = {"floating", "integer", "mixed-integer-float", "boolean", "decimal", "empty"}


@dataclass(frozen=True)
class Request:
    """What a reader is told beside the data, and how it refuses what it cannot read."""

    name: str
    rows: str
    cols: str
    blanks: str | None = None
    row_ids: Source = None
    col_ids: Source = None
    weight: Source = None

    @property
    def filled(self) -> bool:
        """Whether what is not listed is an observed zero."""
        return self.blanks == "zero"

    def refuse(self, why: str) -> NoReturn:
        """Raise the error of data that cannot be read."""
        msg = f"relation {self.name!r}: {why}"
        raise DataError(msg)

    def refuse_ids(self, what: str) -> None:
        """Refuse `row_ids=` and `col_ids=` for data that brings its own."""
        if self.row_ids is not None or self.col_ids is not None:
            self.refuse(
                "row_ids= and col_ids= name the rows and columns of arrays and sparse matrices;"
                f" {what} has ids of its own. Leave them out."
            )

    def refuse_weight(self) -> None:
        """Refuse `weight=` for data that does not list its cells, or of which blanks are zeros."""
        if self.weight is not None:
            self.refuse(
                "weight= is for cells that are listed: triplets, with a weight for each, and Relation.from_frame, with"
                " the column of weights. Give the data so."
            )

    def weights(self, n: int) -> npt.NDArray[np.float64] | None:
        """Return how many cells each of n listed ones counts as, NaN for null; None if nothing is said."""
        if self.weight is None:
            return None
        if self.filled:
            self.refuse('weight= cannot be combined with blanks="zero" yet: list the zeros too, each with its weight.')
        weight = self.as_numbers(self.weight, "the weights").astype(np.float64)
        if weight.shape != (n,):
            shape = f" in an array of shape {weight.shape}" if weight.ndim != 1 else ""
            self.refuse(f"there are {n} cells and {weight.size} weights{shape}; give a list with one for each cell.")
        return weight

    def refuse_blanks(self, what: str, missing: str) -> None:
        """Refuse `blanks=` for data that has no blanks."""
        if self.blanks is not None:
            self.refuse(
                f"blanks={self.blanks!r} is for data that lists its cells, sparse matrices, triplets and long tables;"
                f" {what} has a value for every cell, and a missing one is {missing}. Leave blanks= out."
            )

    def explain_blanks(self, what: str) -> NoReturn:
        """Say what the two choices are to who has made none, or another one."""
        given = "" if self.blanks is None else f" blanks={self.blanks!r} is neither of the two choices."
        self.refuse(
            f"{what} must say what its blanks are.{given}"
            ' Give blanks="missing" if a blank cell was never observed, as in ratings.'
            ' Give blanks="zero" if a blank cell is an observed zero, as in word counts.'
        )

    def as_numbers(self, values: Source, what: str = "the values") -> npt.NDArray[Any]:
        """Return values of any numeric kind as an array of at most 64 bits each, with NaN for null.

        Text is refused and never parsed: "7" may be a code as well as a count.
        """
        array = np.asarray(values)
        if array.dtype.kind in "biuf":
            return array.astype(np.float64) if array.dtype.itemsize > 8 else array
        kind = pd.api.types.infer_dtype(array.ravel(), skipna=True)
        if array.dtype.kind == "O" and kind in _NUMBERS:
            return np.where(pd.isna(array), np.nan, array).astype(np.float64)
        self.refuse(f"{what} are not numbers but {'text' if kind == 'string' else kind}; convert or drop them.")


@dataclass(frozen=True, eq=False)
class RawCells:
    """The cells of one relation as read: nothing is checked yet beyond their form.

    Numbers that the source holds in arrays are referred to and not copied, since a collection makes its own copies.
    """

    row_ids: Vocabulary
    col_ids: Vocabulary
    i: Positions
    j: Positions
    """The row and the column of each listed cell, as positions among the ids; -1 where its id is null."""
    x: npt.NDArray[Any]
    """Its value, in the type that it came in: boolean, integer or floating."""
    filled: bool = False
    """Whether every cell that is not listed is an observed zero."""
    bounded: bool = True
    """Whether these ids are all that it covers, as of a matrix. A listing of a user can only mention some, so that
    the ids that the collection declares belong to it too."""
    faults: tuple[str, ...] = ()
    """What was found wrong with the ids while reading. There is then no telling which line is whose."""
    frame: str | None = None
    """The kind of frame that it was read from, "pandas" or "polars", if any."""
    units: Units | None = None
    """What its columns were standardized by, if they were."""
    weight: npt.NDArray[np.float64] | None = None
    """How many cells each listed one counts as; None: one each."""
    columns: Columns | None = None
    """What the columns of the long table are called that it was read from, if it was."""
    lead: npt.NDArray[np.int64] | None = None
    """Of columns that are levels of categories: the first column of the category of each; itself if alone."""

    @property
    def shape(self) -> tuple[int, int]:
        """The number of row ids and of column ids."""
        return len(self.row_ids), len(self.col_ids)

    @property
    def n_cells(self) -> int:
        """The number of observed cells."""
        return self.shape[0] * self.shape[1] if self.filled else len(self.x)

    def fill_blanks(self) -> RawCells:
        """Return the same with zeros wherever no cell is listed; zeros that are listed need no listing then."""
        zero = self.x == 0
        if not zero.any():
            return replace(self, filled=True)
        i, j = self.i[:], self.j[:]
        place = i.astype(np.int64) * max(self.shape[1], 1) + j
        if len(np.unique(place[zero])) < zero.sum() or np.isin(place[zero], place[~zero]).any():
            return replace(self, filled=True)  # a cell is given twice, which must stay to be seen
        return replace(self, i=i[~zero], j=j[~zero], x=self.x[~zero], filled=True)


def narrow(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the values as float32 where that loses nothing, else as float64."""
    return x.astype(value_type(x), copy=False)


def value_type(x: npt.NDArray[Any]) -> type[np.float32 | np.float64]:
    """Return float32 where that loses nothing, else float64."""
    if np.can_cast(x.dtype, np.float32):
        return np.float32
    return np.float32 if all(_is_narrow(x[part]) for part in parts(len(x))) else np.float64


def alike(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """x = y, or |x − y| <= 16 ε max(|x|, |y|) and not both are whole: which values are the same but for rounding.

    `np.corrcoef` and kernels compute the two halves of a symmetric matrix in another order each.
    """
    same: npt.NDArray[np.bool_] = np.equal(x, y)
    if x.dtype.kind != "f":
        return same
    near = np.abs(x - y) <= 16.0 * np.finfo(x.dtype).eps * np.maximum(np.abs(x), np.abs(y))
    whole = (x == np.rint(x)) & (y == np.rint(y))
    return np.asarray(same | (near & ~whole))


def _is_narrow(x: npt.NDArray[Any]) -> bool:
    with np.errstate(over="ignore"):
        small = x.astype(np.float32)
    # NaN, which is a fault or a missing cell, must not force the wide type by being unequal to itself.
    return bool((np.equal(small, x) | np.isnan(small)).all())
