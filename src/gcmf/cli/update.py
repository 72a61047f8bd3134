"""`gcmf update`: more cells for a model, in place of another fit."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import gcmf
from gcmf.cli.terminal import (
    AsJson,
    ModelFile,
    ProjectFile,
    console,
    load_model,
    show_json,
    show_note,
    show_written,
    waiting,
)
from gcmf.errors import counted

INCOMPLETE = 4
"""The exit code of an update that leaves out some of what is new."""


def update(
    model: ModelFile,
    project: ProjectFile,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The model file that is written; else the one that is updated.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file --out that is no model.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.")] = False,
    as_json: AsJson = False,
) -> None:
    """Take in the cells that a project file names and the model has not seen, also of new ids.

    What the model knows of an entity is what its new cells meet; a few sweeps
    go over them alone. Where many cells have come, or old ones have changed,
    fit again. If there is no new cell, there is nothing to do. Of relations
    whose blanks are zeros, that have weights or whose columns are standardized,
    nothing new can be taken in: what that leaves out is said, and the exit code
    is 4.
    """
    from gcmf.interrupts import Interrupts
    from gcmf.io.outputs import check_model
    from gcmf.io.updates import news
    from gcmf.storage.files import claiming

    started, target = time.monotonic(), out or model
    check_model(target, force=force)
    with claiming(target):
        known = load_model(model)
        with waiting("Reading", quiet=quiet) as report:
            found = news(known, gcmf.read_project(project, report=report).collection)
        for name, left in found.left_out.items():
            show_note(f"{name}: {left} were not taken in, since {left.why}. Fit again to take them in.")
        if found.relations:
            known.update(found.relations)
        if found.relations or target != model:
            with Interrupts():  # the file is written first
                known.save(target)
    seconds = round(time.monotonic() - started, 3)
    if as_json:
        left_out = {name: asdict(left) for name, left in found.left_out.items()}
        show_json({"model": str(target), "updated": bool(found.relations), "new_cells": found.n_new,
                   "seen_cells": found.n_seen, "left_out": left_out, "seconds": seconds})  # fmt: skip
    elif not quiet and not found.relations and found.left_out:
        console().print(f"Nothing was taken in: {model} is as it was.")
    elif not quiet and not found.relations:
        console().print(f"Nothing to do: {model} has seen all of {counted(found.n_seen, 'cell')}.")
    elif not quiet:
        console().print(f"{counted(found.n_new, 'new cell')}, {found.n_seen:,} seen before")
        show_written(target, more=f"({seconds:.1f} s in all)")
    if found.left_out:
        raise typer.Exit(INCOMPLETE)
