"""`gcmf export`: everything a model found, as files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gcmf.cli.terminal import AsJson, ModelFile, console, load_model, show_json
from gcmf.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Kind(StrEnum):
    """What the files are."""

    parquet = "parquet"
    csv = "csv"


def export(
    model: ModelFile,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Where the tables go; or postgresql://HOST/DATABASE.")],
    kind: Annotated[Kind, typer.Option("--format", help="What the files are.")] = Kind.parquet,
    table: Annotated[
        list[str] | None,
        typer.Option(
            metavar="<what>=<table>",
            help="For a database, what goes into which table: factors_user=my_schema.my_table; may be repeated.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files, or rows of tables, that are there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write factors per entity set, structure, variance explained and biases as tables."""
    from gcmf.io import results
    from gcmf.io.sources.postgres import is_address

    fitted = load_model(model)
    if is_address(folder):
        files: Sequence[object] = results.export_to(fitted, folder, table or [], force=force)
    elif table:
        msg = "--table is for databases: leave it out, or give postgresql://HOST/DATABASE in place of a folder."
        raise OptionError(msg)
    else:
        files = results.export(fitted, Path(folder), kind=kind.value, force=force)
    if as_json:
        show_json({"tables" if is_address(folder) else "files": [str(file) for file in files]})
    else:
        for file in files:
            console().print(str(file), soft_wrap=True)
