"""Long data frames: one line per cell, with a column each for row id, column id and value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import narwhals.stable.v1 as nw
import numpy as np

from gcmf.data.adapters.columns import frame_kind, number_values, open_frame
from gcmf.data.adapters.triplets import triplet_block
from gcmf.data.block import fill_blanks
from gcmf.data.positions import parts
from gcmf.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from gcmf.data.adapters.columns import Frame
    from gcmf.data.block import Block, Request, Source


def read_long(frame: Source, request: Request, *, row: str, col: str, value: str | None) -> Block:
    """Read a long frame; without a value column every line is a 1.

    Null or NaN in the value column is a missing cell, whose ids still count; where blanks are zeros no cell can be
    missing, and it is left for the checks to refuse.
    """
    opened = open_frame(frame)
    named = {"row": row, "col": col, "value": value}
    _check_columns(opened, request, wanted={option: name for option, name in named.items() if name is not None})
    if value is None:
        x = np.ones(len(opened), dtype=np.uint8)
    else:
        x = number_values(opened[value], what=f"relation {request.name!r}: the values in column {value!r}")
    block = triplet_block(nw.to_native(opened[row]), nw.to_native(opened[col]), x, request=request)
    block = replace(block, frame=frame_kind(opened))
    if request.filled:
        return fill_blanks(block)
    if not any(np.isnan(x[part]).any() for part in parts(len(x))):
        return block
    missing = np.isnan(x)
    # A null id is a fault even where the value is missing too, so those lines stay for the checks to see.
    kept = ~missing | (block.i[:] < 0) | (block.j[:] < 0)
    return replace(block, i=block.i[kept], j=block.j[kept], x=x[kept])


def _check_columns(frame: Frame, request: Request, *, wanted: dict[str, str]) -> None:
    known = list(frame.columns)
    shown = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
    faults = [
        f"relation {request.name!r}: {option}={name!r} is not a column of the frame, which has {shown}."
        f"{did_you_mean(name, map(str, known))}"
        for option, name in wanted.items()
        if name not in known
    ]
    if faults:
        raise DataError(faults)
