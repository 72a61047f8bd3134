"""`gcmf report`: a model as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import gcmf
from gcmf.cli.terminal import AsJson, ModelFile, show_json, show_written, waiting


def report(
    model: ModelFile,
    test: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="Cells that were not fitted: a project file, or a folder with a gcmf.toml."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write what a model found to one HTML file that needs nothing else: pictures, tables, search."""
    from gcmf.io.outputs import check_new

    check_new(out, force=force)
    fitted, held = gcmf.load(model), None
    if test is not None:
        with waiting("Reading") as told:
            held = gcmf.read_project(test, report=told).collection
    fitted.report(out, test=held)
    if as_json:
        show_json({"file": str(out), "bytes": out.stat().st_size})
    else:
        show_written(out)
