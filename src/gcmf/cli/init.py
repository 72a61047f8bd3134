"""`gcmf init`: a first project file for a folder of tables or a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def init(
    source: Annotated[Path, typer.Argument(help="A folder of tables, one table, or a database file.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The project file; else gcmf.toml in or beside the source.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,  # noqa: FBT002 - as Typer wants it
    as_json: Annotated[bool, typer.Option("--json", help="Report as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Look at tables, and write a first gcmf.toml with every guess explained."""
    from gcmf.cli.reading import waiting  # noqa: PLC0415 - help must not wait for it
    from gcmf.cli.screen import console, show_json  # noqa: PLC0415 - help must not wait for them
    from gcmf.errors import counted  # noqa: PLC0415
    from gcmf.io.guess.discover import discover  # noqa: PLC0415
    from gcmf.io.guess.draft import check_target, write_project  # noqa: PLC0415
    from gcmf.io.guess.look import files_of  # noqa: PLC0415

    target = out or (source if source.is_dir() else source.parent) / "gcmf.toml"
    files_of(source)  # a source that is not there is refused first
    check_target(target, replace=force)
    with waiting("Looking at") as report:
        found = discover(source, base=target.parent, report=report)
    write_project(found, target, replace=force)
    if as_json:
        show_json({
            "project": str(target), "relations": [one.name for one in found.relations],
            "features": [one.name for one in found.features], "entities": [one.name for one in found.entities],
            "ambiguities": found.notes, "unused": found.unused,
        })  # fmt: skip
        return
    screen = console(wide=True)
    for note in found.notes:
        screen.print(f"to be checked: {note}", markup=False)
    for one in found.relations:
        screen.print(f"relation {one.name}: {one.rows} × {one.cols} ({one.likelihood})", markup=False)
    for feature in found.features:
        count = len(feature.numeric) + len(feature.booleans) + len(feature.categories)
        screen.print(f"features {feature.name}: {counted(count, 'column')} of {feature.rows}", markup=False)
    if found.unused:
        screen.print(f"not used: {', '.join(found.unused)}", markup=False)
    screen.print(f"Written: {target}", markup=False, soft_wrap=True)
