"""Predictions on the screen or into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gcmf.cli.screen import console, show_json
from gcmf.io.predictions import find_relation, predict_all, predict_table
from gcmf.io.results import write_parts
from gcmf.io.schema import Source
from gcmf.io.tables import open_table
from gcmf.storage import load

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd


def predict_and_show(
    path: Path,
    cells: Path | None,
    out: Path | None,
    *,
    relation: str | None,
    columns: tuple[str | None, str | None],
    unknown: Literal["error", "prior"],
    as_json: bool,
) -> None:
    """Predict part by part; nothing but the part at hand is kept."""
    model = load(path)
    parts: Iterable[pd.DataFrame]
    if cells is None:
        parts = predict_all(model, find_relation(model, relation))
    else:
        table = open_table(Source(source=str(cells)), Path())
        chosen = find_relation(model, relation, table.columns)
        parts = predict_table(model, chosen, table, columns=columns, unknown=unknown)
    if out is not None:
        rows = write_parts(parts, out)
        if as_json:
            show_json({"predictions": rows, "file": str(out)})
            return
        console(stderr=True).print(f"{rows:,} predictions written: {out}", markup=False, soft_wrap=True)
        return
    for number, part in enumerate(parts):
        text = part.to_json(orient="records", lines=True) if as_json else part.to_csv(index=False, header=number == 0)
        print(text, end="")
