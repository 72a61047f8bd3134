"""`gcmf init`: a first project file for a folder of tables or a database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gcmf.cli.terminal import AsJson, console, show_json, waiting
from gcmf.errors import counted


def init(
    source: Annotated[Path, typer.Argument(help="A folder of tables, one table, or a database file.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The project file; else gcmf.toml in or beside the source.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Look at tables, and write a first gcmf.toml with every guess explained."""
    from gcmf.io.guess.discover import discover
    from gcmf.io.guess.draft import check_target, write_project
    from gcmf.io.guess.look import files_of
    from gcmf.io.sources.postgres import refuse_address

    refuse_address(source, what="What init looks at")
    target = out or (source if source.is_dir() else source.parent) / "gcmf.toml"
    files_of(source)  # a source that is not there is refused first
    check_target(target, replace=force)
    with waiting("Looking at") as report:
        draft = discover(source, base=target.parent, report=report)
    write_project(draft, target, replace=force)
    if as_json:
        names = {kind: [part.name for part in getattr(draft, kind)] for kind in ("relations", "features", "entities")}
        show_json({"project": str(target), **names, "ambiguities": draft.notes, "unused": draft.unused})
        return
    screen = console(wide=True)
    for note in draft.notes:
        screen.print(f"to be checked: {note}")
    for relation in draft.relations:
        way = {None: "", True: ", symmetric", False: ", directed"}[relation.symmetric]
        screen.print(f"relation {relation.name}: {relation.rows} × {relation.cols} ({relation.likelihood}{way})")
    for feature in draft.features:
        count = len(feature.numeric) + len(feature.booleans) + len(feature.categories)
        screen.print(f"features {feature.name}: {counted(count, 'column')} of {feature.rows}")
    if draft.unused:
        screen.print(f"not used: {', '.join(draft.unused)}")
    screen.print(f"Written: {target}", soft_wrap=True)
