"""Predictions on the screen or into a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gcmf.cli.screen import console, show_json, show_note, stopping, visible
from gcmf.io.outputs import as_json_lines, without_formulas, write_table
from gcmf.io.predictions import find_relation, predict_all, predict_table
from gcmf.io.sources.specs import Source
from gcmf.io.sources.tables import open_table
from gcmf.storage import load

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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
        table = open_table(Source(source=cells.name), cells.absolute().parent)
        chosen = find_relation(model, relation, table.columns)
        parts = predict_table(model, chosen, table, columns=columns, unknown=unknown)
    if out is None:
        with stopping("the list above is not complete."):
            _print(parts, as_json=as_json)
        return
    rows = write_table(parts, out)
    if as_json:
        show_json({"predictions": rows, "file": str(out)})
        return
    console(stderr=True).print(f"{rows:,} predictions written: {out}", soft_wrap=True)


def _print(parts: Iterable[pd.DataFrame], *, as_json: bool) -> None:
    """Print part by part; what a terminal would obey is shown as its escape, in files as well as on the screen."""
    changed = False
    for number, part in enumerate(parts):
        if as_json:
            print(as_json_lines(part), end="")
            continue
        text = without_formulas(part).to_csv(index=False, header=number == 0, lineterminator="\n")
        shown = visible(text, kept="\n\t")
        changed |= shown != text
        print(shown, end="")
    if changed:
        show_note("Characters that do not print are shown as their escapes, such as \\x1b; -o writes them as they are.")
