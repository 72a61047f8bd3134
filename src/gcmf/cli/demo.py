"""`gcmf demo`: fit something, and show what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the model.")] = Path("gcmf-demo"),
    seed: Annotated[int, typer.Option(help="Decides what is hidden and where fits start.", min=0)] = 0,
) -> None:
    """Fit handwritten digits cut in halves; show the schema, the structure found and held-out errors."""
    from gcmf.cli.demo_screen import Progress, show_demo, show_files  # noqa: PLC0415 - help must not wait for them
    from gcmf.experiments.demo import run_demo  # noqa: PLC0415
    from gcmf.experiments.demo_figure import make_folder, save_demo  # noqa: PLC0415

    make_folder(out)
    with Progress() as progress:
        found = run_demo(seed=seed, report=progress.report)
    show_demo(found)
    show_files(save_demo(found, out))
