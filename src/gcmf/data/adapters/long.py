"""Long data frames: one line per cell, with a column each for row id, column id and value."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import narwhals.stable.v1 as nw
import numpy as np

from gcmf.data.adapters.columns import frame_kind, number_values, open_frame
from gcmf.data.adapters.triplets import triplet_block
from gcmf.data.positions import parts
from gcmf.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from gcmf.data.adapters.columns import Frame
    from gcmf.data.block import Block, Request, Source


def read_long(frame: Source, request: Request, *, row: str, col: str, value: str) -> Block:
    """Read a long frame; null or NaN in the value column is a missing cell, whose ids still count."""
    opened = open_frame(frame)
    _check_columns(opened, request, wanted={"row": row, "col": col, "value": value})
    x = number_values(opened[value], what=f"relation {request.name!r}: the values in column {value!r}")
    block = triplet_block(nw.to_native(opened[row]), nw.to_native(opened[col]), x, request=request)
    block = replace(block, frame=frame_kind(opened))
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
