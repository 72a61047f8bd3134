"""`gcmf export`: everything a model found, as files."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Kind(StrEnum):
    """What the files are."""

    parquet = "parquet"
    csv = "csv"


def export(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the tables go.")],
    kind: Annotated[Kind, typer.Option("--format", help="What the files are.")] = Kind.parquet,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,  # noqa: FBT002 - as Typer wants it
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Write factors per entity set, structure, variance explained and biases as tables."""
    from gcmf.cli.screen import console, show_json  # noqa: PLC0415 - help must not wait for them
    from gcmf.estimators.load import load  # noqa: PLC0415
    from gcmf.io.results import export as write  # noqa: PLC0415

    files = write(load(model), folder, kind=kind.value, force=force)
    if as_json:
        show_json({"files": [str(file) for file in files]})
    else:
        for file in files:
            console().print(str(file), soft_wrap=True)
