"""`gcmf predict`: ids in, means and deviations out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Unknown(StrEnum):
    """What to do with ids that the model has never heard of."""

    error = "error"
    prior = "prior"


def predict(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    cells: Annotated[
        Path | None, typer.Argument(help="A table with the ids of a cell per line: CSV, Parquet, Arrow, JSON lines.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A .parquet, .csv, .tsv or .jsonl file; else CSV on the screen.")
    ] = None,
    relation: Annotated[str | None, typer.Option(help="Which relation, where there are several.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Predict every cell of the relation.")] = False,  # noqa: FBT002 - as Typer wants it
    row: Annotated[str | None, typer.Option(help="The column of row ids.")] = None,
    col: Annotated[str | None, typer.Option(help="The column of column ids.")] = None,
    unknown: Annotated[Unknown, typer.Option(help="Refuse ids never seen, or use the prior.")] = Unknown.error,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,  # noqa: FBT002
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines; with --out, a report.")] = False,  # noqa: FBT002
) -> None:
    """Predict cells by id: mean and standard deviation of what would be observed."""
    from gcmf.cli.predict_screen import predict_and_show  # noqa: PLC0415 - help must not wait for them
    from gcmf.io.outputs import check_new, table_kind  # noqa: PLC0415

    if (cells is None) != every:
        msg = "Give a table of CELLS, or --all for every cell of a relation."
        raise typer.BadParameter(msg)
    if out is not None:
        check_new(out, force=force)
        table_kind(out)
    predict_and_show(model, cells, out, relation=relation, columns=(row, col), unknown=unknown.value, as_json=as_json)
