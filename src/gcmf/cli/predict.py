"""`gcmf predict`: ids in, means and deviations out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gcmf.cli.terminal import ModelFile, console, load_model, show_json, show_note, stopping, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

    from gcmf.io.outputs import Target


Out = Annotated[
    str | None,
    typer.Option(
        "--out", "-o",
        help="A .parquet, .csv, .tsv or .jsonl file, or postgresql://HOST/DATABASE; else CSV on the screen.",
    ),
]  # fmt: skip
IntoTable = Annotated[str | None, typer.Option("--table", help="Which table of a database -o is written.")]


class Unknown(StrEnum):
    """What to do with ids that the model has never heard of."""

    error = "error"
    prior = "prior"


def predict(
    model: ModelFile,
    cells: Annotated[
        Path | None, typer.Argument(help="A table with the ids of a cell per line: CSV, Parquet, Arrow, JSON lines.")
    ] = None,
    out: Out = None,
    table: IntoTable = None,
    relation: Annotated[str | None, typer.Option(help="Which relation, where there are several.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Predict every cell of the relation.")] = False,
    row: Annotated[str | None, typer.Option(help="The column of row ids.")] = None,
    col: Annotated[str | None, typer.Option(help="The column of column ids.")] = None,
    interval: Annotated[
        float | None, typer.Option(help="Add lower and upper, which hold a cell with this probability, such as 0.9.")
    ] = None,
    new: Annotated[
        list[str] | None,
        typer.Option(
            "--new",
            metavar="<file>",
            help="Cells of new row entities, a line each with its value: FILE or RELATION=FILE; may be repeated.",
        ),
    ] = None,
    unknown: Annotated[Unknown, typer.Option(help="Refuse ids never seen, or use the prior.")] = Unknown.error,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file, or the rows of a table, that is there.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines; with --out, a report.")] = False,
) -> None:
    """Predict cells by id: mean and standard deviation of what would be observed, and intervals."""
    from gcmf.io.answers import fold_in
    from gcmf.io.outputs import target_of
    from gcmf.io.predictions import find_relation, predict_all, predict_table
    from gcmf.io.sources.postgres import refuse_address
    from gcmf.io.sources.specs import Source
    from gcmf.io.sources.tables import open_table
    from gcmf.options import check_level

    if (cells is None) != every:
        msg = "Give a table of CELLS, or --all for every cell of a relation."
        raise typer.BadParameter(msg)
    check_level(interval)
    target = target_of(out, table, force=force)
    fitted, rows = load_model(model), None
    parts: Iterable[pd.DataFrame]
    if new:
        fitted, rows = fold_in(fitted, new, entity=None)
    if cells is None:
        parts = predict_all(fitted, find_relation(fitted, relation), interval, rows=rows)
    else:
        refuse_address(cells, what="CELLS")
        listed = open_table(Source(source=cells.name), cells.absolute().parent)
        chosen = find_relation(fitted, relation, listed.columns)
        parts = predict_table(fitted, chosen, listed, columns=(row, col), unknown=unknown.value, interval=interval)
    give_parts(parts, target, noun="predictions", as_json=as_json)


def give_parts(parts: Iterable[pd.DataFrame], out: Target | None, *, noun: str, as_json: bool) -> None:
    """Print a table part by part, or write it and say how many lines it has."""
    from gcmf.io.outputs import write_table

    if out is None:
        with stopping("the list above is not complete."):
            _print(parts, as_json=as_json)
        return
    n_lines = write_table(parts, out)
    if as_json:
        show_json({noun: n_lines, "file" if isinstance(out, Path) else "table": str(out)})
    else:
        console(stderr=True).print(f"{n_lines:,} {noun} written: {out}", soft_wrap=True)


def _print(parts: Iterable[pd.DataFrame], *, as_json: bool) -> None:
    """Print part by part; what a terminal would obey is shown as its escape, in files as well as on the screen."""
    from gcmf.io.outputs import as_json_lines, without_formulas

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
