"""`gcmf report`: a model as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import gcmf
from gcmf.cli.terminal import AsJson, ModelFile, load_model, show_json, show_written, waiting


def report(
    model: ModelFile,
    test: Annotated[
        list[str] | None,
        typer.Option(
            "--test",
            metavar="DATA",
            help="Cells that were not fitted: a project file or its folder, or a table with a cell and its value per"
            " line, FILE or RELATION=FILE; may be repeated.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write what a model found to one HTML file that needs nothing else: pictures, tables, search."""
    from gcmf.io.outputs import check_new

    check_new(out, force=force)
    fitted = load_model(model)
    fitted.report(out, test=_held_out(fitted, test) if test else None)
    if as_json:
        show_json({"file": str(out), "bytes": out.stat().st_size})
    else:
        show_written(out)


def _held_out(model: Any, given: list[str]) -> Any:
    """What a project file describes, or tables hold."""
    from gcmf.io.answers import held_out

    first = Path(given[0])
    if len(given) > 1 or not (first.is_dir() or first.suffix == ".toml"):
        return held_out(model, given)
    with waiting("Reading") as told:
        return gcmf.read_project(first, report=told).collection
