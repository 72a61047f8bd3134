"""One relation: a matrix of observed and missing cells between two entity sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gcmf.data.adapters import read
from gcmf.data.adapters.listings import read_long
from gcmf.data.raw import BLANKS, RawCells, Request, Source
from gcmf.data.schema import TIMES, RelationSchema, check_likelihood, likelihood_name, show_shape
from gcmf.errors import DataError
from gcmf.markup import shown_table

if TYPE_CHECKING:
    from gcmf.data.vocabulary import Vocabulary
    from gcmf.likelihoods import Likelihood


class Relation:
    """Cells between the entities of two sets, as a user gives them.

    Its form is checked here; its values and ids are checked by `Collection`, which reports the faults
    of all relations together. Arrays are not copied before a collection is built: do not change them until then.

    Parameters
    ----------
    name : str
        What to call it, for example "ratings".
    rows, cols : str
        The entity sets of its rows and columns, for example "user" and "movie". Relations that name the
        same set share its entities.
    data : array, sparse matrix, data frame or triplets
        A 2-D NumPy array (NaN is missing), a `numpy.ma` array (masked is missing), a `scipy.sparse` matrix
        (needs `blanks`), a wide data frame (ids are its index and columns, null is missing, sparse columns need
        `blanks`; for frames without an index see `gcmf.data.adapters.wide`), or a tuple
        `(row_ids, col_ids, values)`.
    likelihood : {"gaussian", "bernoulli", "poisson", "negative_binomial"} or likelihood object
        What kind of number a cell is.
    blanks : {"missing", "zero"}, optional
        What a cell is that is not listed: never observed, or an observed zero. Sparse matrices and frames must say;
        triplets are "missing" unless they say "zero"; other data has no blanks. Zeros lie between all ids of this
        relation: the rows and columns of a matrix; for triplets and long tables the ids that they mention and those
        that `Collection(..., entities=)` declares. An id that only other relations bring is not observed here.
    row_ids, col_ids : list of ids, optional
        The ids of the rows and columns of an array or a sparse matrix; positions 0..n-1 if not given.
    symmetric : bool, optional
        Of a set with itself, which must say: True if (i, j) and (j, i) are one cell, as in friendships (one triangle or
        both may be given; where the two values differ by rounding alone, as `np.corrcoef` makes them, the first is
        taken), False if they are two, as in who follows whom. No entity has a cell with itself.
    weight : array, optional
        Of triplets: how many cells each counts as in the fit, a number above 0. A cell of weight 2 is two cells.

    Examples
    --------
    >>> import numpy as np
    >>> ratings = Relation("ratings", "user", "movie", np.array([[5, np.nan, 1], [4, 2, np.nan]]))
    >>> ratings.shape, ratings.n_cells
    ((2, 3), 4)
    """

    name: str
    rows: str
    cols: str
    likelihood: str | Likelihood
    symmetric: bool | None
    raw: RawCells

    def __init__(  # noqa: PLR0913 - the signature is the public contract
        self,
        name: str,
        rows: str,
        cols: str,
        data: object,
        likelihood: str | Likelihood = "gaussian",
        *,
        blanks: str | None = None,
        row_ids: Source = None,
        col_ids: Source = None,
        symmetric: bool | None = None,
        weight: Source = None,
    ) -> None:
        _check_names(name, rows, cols)
        check_likelihood(likelihood, relation=name)
        _check_symmetric(name, rows, cols, symmetric)
        self.name, self.rows, self.cols, self.likelihood = name, rows, cols, likelihood
        self.symmetric = None if symmetric is None else bool(symmetric)
        request = Request(name, rows, cols, blanks, row_ids, col_ids, weight)
        self.raw = data if isinstance(data, RawCells) else read(data, request)

    @classmethod
    def from_frame(  # noqa: PLR0913 - the signature is the public contract
        cls,
        name: str,
        frame: Source,
        *,
        rows: str,
        cols: str,
        row: str,
        col: str,
        value: str | None,
        likelihood: str | Likelihood = "gaussian",
        blanks: str = "missing",
        symmetric: bool | None = None,
        weight: str | None = None,
    ) -> Relation:
        """Return the relation that a long data frame holds, one line per cell.

        Parameters
        ----------
        name : str
            What to call the relation.
        frame : data frame
            pandas, polars, Arrow, or any other that narwhals knows.
        rows, cols : str
            The entity sets of the rows and columns.
        row, col, value : str
            The frame's columns that hold the row id, the column id and the value of each cell. A null
            value is a missing cell; a null id is refused. `value=None` makes every line a 1. A model that is fitted
            to the relation remembers these names: `update` and `fold_in` read frames by them.
        likelihood : {"gaussian", "bernoulli", "poisson", "negative_binomial"} or likelihood object
            What kind of number a cell is.
        blanks : {"missing", "zero"}
            What a pair of ids is that no line lists: never observed, or an observed zero (see `Relation`).
        symmetric : bool, optional
            Of a set with itself: whether a pair is the same both ways (see `Relation`).
        weight : str, optional
            The frame's column that says how many cells each line counts as (see `Relation`).

        Examples
        --------
        Implicit feedback, who clicked what; a user or page without a click is declared, to be all zeros:

        >>> import pandas as pd
        >>> clicks = pd.DataFrame({"who": ["ann", "bob"], "what": ["home", "news"]})
        >>> clicked = Relation.from_frame("clicks", clicks, rows="user", cols="page", row="who", col="what",
        ...                               value=None, likelihood="bernoulli", blanks="zero")
        >>> clicked
        <Relation clicks: user × page (bernoulli), 2 × 2, 4 cells (100% observed, blanks are zeros)>
        >>> from gcmf import Collection
        >>> Collection([clicked], entities={"user": ["ann", "bob", "cat"]}).n_cells
        6
        """
        _check_names(name, rows, cols)
        request = Request(name, rows, cols, blanks)
        if blanks not in BLANKS:
            request.explain_blanks("a long table")
        cells = read_long(frame, request, row=row, col=col, value=value, weight=weight)
        return cls(name, rows, cols, cells, likelihood, symmetric=symmetric)

    @property
    def schema(self) -> RelationSchema:
        """The relation without its data."""
        kind = likelihood_name(self.likelihood)
        return RelationSchema(self.name, self.rows, self.cols, kind, self.symmetric, self.raw.columns)

    @property
    def row_ids(self) -> Vocabulary:
        """The row ids that it brings; positions for a bare array or a sparse matrix."""
        return self.raw.row_ids

    @property
    def col_ids(self) -> Vocabulary:
        """The column ids that it brings; positions for a bare array or a sparse matrix."""
        return self.raw.col_ids

    @property
    def shape(self) -> tuple[int, int]:
        """The number of row ids and column ids that it brings."""
        return self.raw.shape

    @property
    def n_cells(self) -> int:
        """The number of observed cells."""
        return self.raw.n_cells

    def __repr__(self) -> str:
        return f"<Relation {self.schema}, {self._size}>"

    def _repr_html_(self) -> str:
        line = (f"{self.rows} {TIMES} {self.cols}", self.schema.kind, self._size)
        return shown_table(f"Relation {self.name}", ("joins", "kind", "size"), [line])

    @property
    def _size(self) -> str:
        return size_in_words(self.n_cells, self.shape, self.shape if self.raw.filled else None)


def size_in_words(
    n_cells: int, shape: tuple[int, int], zeros: tuple[int, int] | None = None, *, possible: int | None = None
) -> str:
    """Return the size of a relation in words, ending in "4 cells (66.7% observed)".

    `zeros` is how many entities of either set have zeros for blanks, if any have; `possible`, how many cells there
    could be, if not all of the shape.
    """
    share = n_cells / max(shape[0] * shape[1] if possible is None else possible, 1)
    where = "" if zeros is None or zeros == shape else f" between {show_shape(zeros)} of them"
    blanks = "" if zeros is None else f", blanks are zeros{where}"
    return f"{show_shape(shape)}, {n_cells:,} cells ({100 * share:.3g}% observed{blanks})"


def _check_symmetric(name: str, rows: str, cols: str, symmetric: object) -> None:
    if rows != cols:
        if symmetric is None:
            return
        why = (
            f"symmetric={symmetric!r} is for a relation of a set with itself, and this one joins {rows!r} and {cols!r}"
        )
        msg = f"relation {name!r}: {why}; leave it out."
    elif isinstance(symmetric, bool | np.bool_):
        return
    else:
        given = "" if symmetric is None else f", not {symmetric!r}"
        msg = (
            f"relation {name!r} joins the entity set {rows!r} with itself and must say which way its cells go{given}."
            " Give symmetric=True if (i, j) and (j, i) are one cell, as in friendships. Give symmetric=False if they"
            " are two, as in who follows whom."
        )
    raise DataError(msg)


def _check_names(name: object, rows: object, cols: object) -> None:
    faults = [
        f"relation {name!r}: {option}= must be a non-empty string, not {given!r}."
        for option, given in (("name", name), ("rows", rows), ("cols", cols))
        if not (isinstance(given, str) and given)
    ]
    if faults:
        raise DataError(faults)
