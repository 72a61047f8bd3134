"""`gcmf doctor`: whether everything is in place."""

from __future__ import annotations

from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,  # noqa: FBT002 - as Typer wants it
) -> None:
    """Show versions, threads, devices and the cache, and fit something small; exit code 1 if that goes wrong."""
    from gcmf.cli.doctor_screen import examine, show  # noqa: PLC0415 - help must not wait for it
    from gcmf.cli.screen import show_json  # noqa: PLC0415

    found = examine()
    if as_json:
        show_json(found)
    else:
        show(found)
    if not found["self_test"]["passed"]:
        raise typer.Exit(1)
