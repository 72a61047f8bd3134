"""`gcmf export`: everything a model found, as files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import gcmf
from gcmf.cli.terminal import AsJson, ModelFile, console, show_json


class Kind(StrEnum):
    """What the files are."""

    parquet = "parquet"
    csv = "csv"


def export(
    model: ModelFile,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the tables go.")],
    kind: Annotated[Kind, typer.Option("--format", help="What the files are.")] = Kind.parquet,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write factors per entity set, structure, variance explained and biases as tables."""
    from gcmf.io import results

    files = results.export(gcmf.load(model), folder, kind=kind.value, force=force)
    if as_json:
        show_json({"files": [str(file) for file in files]})
    else:
        for file in files:
            console().print(str(file), soft_wrap=True)
