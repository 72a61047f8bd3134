"""`gcmf describe`: what a model found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def describe(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,  # noqa: FBT002 - as Typer wants it
) -> None:
    """Show schema, structure, variance explained, noise and convergence of a model."""
    from gcmf.cli.describe_screen import show_model  # noqa: PLC0415 - help must not wait for them
    from gcmf.cli.screen import show_json  # noqa: PLC0415
    from gcmf.estimators.load import load  # noqa: PLC0415
    from gcmf.io.results import describe as say  # noqa: PLC0415

    found = say(load(model))
    if as_json:
        show_json(found)
    else:
        show_model(found)
