"""`gcmf demo`: fit something, and show what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the model.")] = Path("gcmf-demo"),
    seed: Annotated[int, typer.Option(help="Decides what is hidden and where fits start.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace files that gcmf did not write.")] = False,  # noqa: FBT002 - as Typer wants it
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Fit handwritten digits cut in halves; show the schema, the structure found and held-out errors."""
    from gcmf.cli.demo_screen import Progress, show_demo, show_files  # noqa: PLC0415 - help must not wait for them
    from gcmf.cli.screen import show_json, stopping  # noqa: PLC0415
    from gcmf.demo import run_demo  # noqa: PLC0415
    from gcmf.demo_figure import check_files, save_demo  # noqa: PLC0415
    from gcmf.io.outputs import make_folder  # noqa: PLC0415
    from gcmf.io.results import describe  # noqa: PLC0415

    make_folder(out)
    check_files(out, force=force)
    with Progress() as progress:
        found = run_demo(seed=seed, report=progress.report)
    with stopping(f"what is in {out} is not complete."):
        files = save_demo(found, out)
    if as_json:
        explained = describe(found.model)
        show_json({"errors": found.errors.to_dict(orient="index"), **explained, "files": [str(file) for file in files]})
    else:
        show_demo(found)
        show_files(files)
