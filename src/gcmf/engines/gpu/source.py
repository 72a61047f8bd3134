"""The CUDA source of the GPU engine: what never changes lies in cuda/, what depends on a fit is written before it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gcmf.engines.base import MAX_HALVINGS
from gcmf.engines.quadrature import quadrature
from gcmf.errors import OptionError
from gcmf.likelihoods import bernoulli, poisson
from gcmf.likelihoods.negative_binomial import NEGATIVE_BINOMIAL

if TYPE_CHECKING:
    from gcmf.likelihoods import Likelihood

#: Rows that one block of threads adds up.
GROUP = 64
#: Groups that one thread adds up.
FOLD = 128
#: Turns of a guard: whether rows are short, each look at those that are not after half a step, and two more.
N_TURNS = MAX_HALVINGS + 3
#: How the cells of a block are held, and their values.
LISTED, DENSE, FILLED = range(3)
BYTES, SINGLE, DOUBLE = range(3)
VALUE_TYPES = {np.dtype(np.uint8): BYTES, np.dtype(np.float32): SINGLE, np.dtype(np.float64): DOUBLE}
#: The mathematics of a cell that likelihoods.cuh knows; the first two are least squares.
SQUARES, WEIGHED_SQUARES = "SQUARES_KIND", "WEIGHED_SQUARES_KIND"
KINDS = {
    bernoulli.EXACT: "BERNOULLI_EXACT_KIND",
    bernoulli.TIGHT: "BERNOULLI_TIGHT_KIND",
    bernoulli.CURVED: "BERNOULLI_CURVED_KIND",
    poisson.EXACT: "POISSON_EXACT_KIND",
    poisson.CELLS["tight"]: "POISSON_TIGHT_KIND",
    poisson.CELLS["cell"]: "POISSON_CELL_KIND",
    poisson.CELLS["paper"]: "POISSON_PAPER_KIND",
    NEGATIVE_BINOMIAL: "NEGATIVE_BINOMIAL_KIND",
}
_CODES = {name: code for code, name in enumerate([SQUARES, WEIGHED_SQUARES, *KINDS.values()])}
_FOLDER = Path(__file__).parent / "cuda"

#: Fields of the records that kernels are given, each of 8 bytes: one relation seen from the set that is swept,
BLOCK_FIELDS = {
    "layout": "word", "value_type": "word", "nowhere": "word", "least_squares": "word", "mild": "word",
    "biased": "word", "proposed": "word", "valued": "word", "own": "word", "twin": "word",
    "center": "double", "inverse_scale": "double", "zero_weight": "double", "scale": "double", "slope": "double",
    "offset": "double", "noise_half": "double", "floor": "double",
    "indptr": "const word*", "partner": "const int*", "value": "const void*", "weight": "const float*",
    "members": "const int*", "parameters": "const double*", "tasks": "const Task*", "firsts": "const word*",
    "pairs": "real*", "partner_bias": "real*", "bias": "real*", "bias_var": "real*",
    "sums": "double*", "values": "double*", "reach": "const double*", "own_mates": "const word*",
    "own_scale": "const double*", "own_scale_var": "const double*",
    # Of the noise of the partners and of the rows, and how many cells tell of the latter; 0 where all are as the
    # relation, and where it is not learned.
    "partner_precision": "const double*", "precision": "double*", "noise_cells": "const double*",
}  # fmt: skip
#: those of its fields that kernels over cells are given as parameters (CELL_PARAMETERS in cells.cu), in their order,
CELL_FIELDS = (
    "layout", "value_type", "nowhere", "valued", "center", "inverse_scale", "zero_weight", "indptr", "partner", "value",
    "weight", "members", "parameters", "tasks", "pairs", "partner_bias", "partner_precision", "sums", "values",
)  # fmt: skip
#: and a pass over the rows of a set.
PASS_FIELDS = {
    "n_factors": "word", "n_blocks": "word", "n_columns": "word", "point": "word", "drawing": "word", "key": "word",
    "prior_mean_step": "word", "prior_precision_step": "word", "bias_prior_mean_step": "word",
    "bias_prior_precision_step": "word",
    "rows": "const int*", "active": "const word*", "mean": "real*", "var": "real*",
    "prior_mean": "const double*", "prior_precision": "const double*", "bias_prior_mean": "const double*",
    "bias_prior_precision": "const double*", "blocks": "const Block*",
    "row_mean": "double*", "row_var": "double*", "row_bias": "double*", "row_bias_var": "double*",
    "old_mean": "double*", "old_var": "double*", "old_bias": "double*", "old_bias_var": "double*",
    "row_scale": "double*", "before": "double*", "after": "double*", "worth": "double*", "ratio": "double*",
    "busy": "int*", "n_busy": "int*", "totals": "double*", "room": "double*",
}  # fmt: skip
BLOCK, PASS = (
    np.dtype([(name, np.float64 if kind == "double" else np.int64) for name, kind in fields.items()])
    for fields in (BLOCK_FIELDS, PASS_FIELDS)
)


class Variant(NamedTuple):
    """What kernels are compiled for: the working precision, the padded number of factors, and the kind of cells."""

    dtype: str
    width: int
    kind: str | None = None
    """None: the kernels of rows, which do not look at cells."""
    drawing: bool = False


def kind_of(likelihood: Likelihood, *, weighed: bool) -> str:
    """Return the name of a likelihood's mathematics; raise OptionError for one that the GPU does not know."""
    if likelihood.least_squares:
        return WEIGHED_SQUARES if weighed else SQUARES
    if likelihood.cell not in KINDS:
        msg = (f"device='gpu' knows the likelihoods of the library, and {likelihood!r} is none of them: "
               f"fit with device='cpu', which compiles any.")  # fmt: skip
        raise OptionError(msg)
    return KINDS[likelihood.cell]


def width_of(n_factors: int, dtype: np.dtype[np.floating]) -> int:
    """So many factors, padded: by 16 where small matrices are multiplied, else by 32."""
    step = 16 if dtype.itemsize == 4 and n_factors <= 64 else 32
    return max(-(-n_factors // step), 1) * step


def n_sums(width: int) -> int:
    """Numbers that the cells of a row sum up to: SUMS in sums.cuh."""
    return width * (width + 1) // 2 + 3 * width + 8


@cache
def source_of(variant: Variant) -> str:
    """The source of all kernels of a variant."""
    names = ["sums.cuh", "random.cuh"]
    if variant.kind is None:
        names += ["system.cuh", "narrow.cuh", "rows.cu", "totals.cu"]
    else:
        names += ["polya_gamma.cuh", "likelihoods.cuh", "gram.cuh", "cells.cu"]
    texts = [_defined(variant), _read("warp.cuh"), *map(_struct, ("Block", "Pass"), (BLOCK_FIELDS, PASS_FIELDS))]
    if variant.kind is not None:
        texts.append(_tables(variant.dtype))
    return "\n".join([*texts, *map(_read, names)])


def _defined(variant: Variant) -> str:
    single = variant.dtype == "float32"
    constants = {
        "real": "float" if single else "double", "SINGLE_PRECISION": int(single), "WIDTH": variant.width,
        "GROUP": GROUP, "FOLD": FOLD, "N_TURNS": N_TURNS, "LISTED": LISTED, "DENSE": DENSE, "FILLED": FILLED,
        "SINGLE": SINGLE, "DOUBLE": DOUBLE, "DRAWING": int(variant.drawing), **_CODES,
        "BYTES": BYTES, "KIND": _CODES[variant.kind or SQUARES], "CELL_THREADS": cell_threads(variant.width),
        "CURVATURE_PER_COUNT": poisson.CURVATURE_PER_COUNT, **tuning(variant),
    }  # fmt: skip
    return "\n".join(f"#define {name} {value}" for name, value in constants.items())


def cell_threads(width: int) -> int:
    """Threads of a block that goes over cells: as many as have room for their partners in fast memory."""
    return 64 if width <= 32 else 32


def cell_bytes(variant: Variant) -> int:
    """Fast memory of such a block: two times 32 partners for each warp, where small matrices are multiplied."""
    tensor = variant.dtype == "float32" and variant.width <= 64
    return 2 * cell_threads(variant.width) * (2 * variant.width + 8) * 4 if tensor else 0


def solve_bytes(n_factors: int, n_blocks: int, width: int) -> tuple[int, int]:
    """Fast memory that one warp needs to solve for a row, and to have its system as a whole."""
    n = n_factors + n_blocks
    system = 8 * (n * (n + 1) // 2 + 3 * n)
    return (8 * (33 * width + 35 * n_blocks) if width <= 32 else system), system


def tuning(variant: Variant) -> dict[str, int]:
    """What measurements on an H200 say of registers: docs/engine.md.

    How many eights of cells a warp multiplies at once, how many blocks of warps share a multiprocessor, whether the
    products of 32 cells are summed apart, and after how many cells sums in float32 go to float64: bounds their error.
    """
    narrow = variant.width <= 32
    return {"EIGHTS_AT_ONCE": 2 if narrow else 1, "BLOCKS": 6, "SUMMED_APART": int(narrow),
            "FLUSH": 512 if narrow else 128}  # fmt: skip


def _struct(name: str, fields: dict[str, str]) -> str:
    return f"struct {name} {{\n" + "".join(f"    {kind} {field};\n" for field, kind in fields.items()) + "};"


def _tables(dtype: str) -> str:
    """The nodes of all rules, as `quadrature` has them."""
    tables, kinds = quadrature(dtype), {"FIRST_NODE": "int"}
    lines = [f"#define N_RULES {len(tables['FIRST_NODE']) - 2}"]
    for name, values in tables.items():
        numbers = ", ".join("1e300" if value == np.inf else repr(value) for value in values)
        kind = kinds.get(name, "real" if name != "REACH" else "double")
        lines.append(f"__device__ const {kind} {name}[] = {{{numbers}}};")
    return "\n".join(lines)


@cache
def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
