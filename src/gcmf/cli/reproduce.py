"""`gcmf reproduce`: the paper's experiments, listed or run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment, or all; without it, they are listed.")] = None,
    quick: Annotated[  # noqa: FBT002 - as Typer wants it
        bool, typer.Option("--quick/--full", help="A few minutes in all, or the size of the paper (hours).")
    ] = True,
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and results.md.")] = Path("results"),
    seed: Annotated[int, typer.Option(help="Decides what is drawn, what is hidden and where fits start.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace files that gcmf did not write.")] = False,  # noqa: FBT002
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Run the experiments of the paper, and set its claims beside what comes out."""
    from gcmf.cli.reproduce_screen import run_and_show, show_list  # noqa: PLC0415 - help must not wait for them
    from gcmf.experiments.base import Size  # noqa: PLC0415
    from gcmf.experiments.registry import experiments, find  # noqa: PLC0415

    if name is None:
        show_list(experiments(), as_json=as_json)
        return
    chosen = experiments() if name == "all" else (find(name),)
    run_and_show(chosen, Size.QUICK if quick else Size.FULL, out=out, seed=seed, force=force, as_json=as_json)
