"""`gcmf recommend`, `gcmf similar` and `gcmf explain`: what a model says of ids."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.text import Text

import gcmf
from gcmf.cli.predict import IntoTable, Out, give_parts
from gcmf.cli.terminal import DASHES, AsJson, ModelFile, console, load_model, plain_table, show_json, waiting
from gcmf.errors import counted

if TYPE_CHECKING:
    import pandas as pd

Relation = Annotated[str | None, typer.Option(help="Which relation, where there are several.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file, or the rows of a table, that is there.")]
JsonLines = Annotated[bool, typer.Option("--json", help="JSON lines; with --out, a report.")]
_SHOWN = 5
"""Cells that are shown of each relation."""


By = StrEnum("By", ["mean", "lower", "upper", "sample"])
"""What items are ranked by."""


def recommend(
    model: ModelFile,
    ids: Annotated[
        list[str] | None, typer.Argument(help=f"Whom to recommend to; all if none is named. {DASHES}")
    ] = None,
    relation: Relation = None,
    n: Annotated[int, typer.Option("-n", help="Items for each.", min=1)] = 10,
    by: Annotated[By, typer.Option(help="Rank by mean, lower or upper bound, or a draw (sample).")] = By.mean,
    seen: Annotated[bool, typer.Option("--seen", help="Recommend what was observed too.")] = False,
    new: Annotated[
        list[str] | None,
        typer.Option("--new", metavar="<file>", help="Cells of new entities, to recommend to: FILE or RELATION=FILE."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of --by sample.", min=0)] = 0,
    out: Out = None,
    table: IntoTable = None,
    force: Force = False,
    as_json: JsonLines = False,
) -> None:
    """Recommend columns of a relation to its rows: the best of what they have no cell with."""
    from gcmf.io.answers import as_ids, fold_in, in_pandas
    from gcmf.io.outputs import target_of
    from gcmf.io.predictions import find_relation

    target = target_of(out, table, force=force)
    fitted = load_model(model)
    chosen = find_relation(fitted, relation)
    asked: Any = None
    if new:
        fitted, asked = fold_in(fitted, new, entity=chosen.rows)
    if ids:
        asked = as_ids(fitted, chosen.rows, ids)
    found = fitted.recommend(chosen.name, asked, n, exclude_seen=not seen, by=cast("Any", by.value), random_state=seed)
    give_parts([in_pandas(found)], target, noun="recommendations", as_json=as_json)


def similar(
    model: ModelFile,
    entity: Annotated[str, typer.Argument(help="An entity set, such as movie.")],
    ids: Annotated[list[str] | None, typer.Argument(help=f"Of whom; all if none is named. {DASHES}")] = None,
    n: Annotated[int, typer.Option("-n", help="Neighbors of each.", min=1)] = 10,
    relation: Annotated[str | None, typer.Option(help="Compare what they do in this relation alone.")] = None,
    out: Out = None,
    table: IntoTable = None,
    force: Force = False,
    as_json: JsonLines = False,
) -> None:
    """List the entities that are most alike, by what they do to predictions."""
    from gcmf.io.answers import as_ids, find_entity, in_pandas
    from gcmf.io.outputs import target_of

    target = target_of(out, table, force=force)
    fitted = load_model(model)
    asked = as_ids(fitted, find_entity(fitted, entity), ids) if ids else None
    found = fitted.similar(entity, asked, n, relation=relation)
    give_parts([in_pandas(found)], target, noun="neighbors", as_json=as_json)


def explain(
    model: ModelFile,
    row: Annotated[str, typer.Argument(help=f"The id of the row. {DASHES}")],
    col: Annotated[str, typer.Argument(help="The id of the column.")],
    relation: Relation = None,
    project: Annotated[
        Path | None,
        typer.Option(
            help="The project file that was fitted, or its folder: tells which cells the prediction rests on."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say why a cell is predicted as it is, in parts that add up."""
    from gcmf.io.answers import reasons
    from gcmf.io.predictions import find_relation

    fitted = load_model(model)
    chosen = find_relation(fitted, relation)
    data = None
    if project is not None:
        with waiting("Reading") as report:
            data = gcmf.read_project(project, report=report).collection
    table = reasons(fitted, chosen, row, col, data)
    if as_json:
        show_json([{key: _plain(value) for key, value in line.items()} for line in table.to_dict(orient="records")])
    else:
        _show(table, chosen.rows, chosen.cols)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value if isinstance(value, str | float | int) else None


def _show(table: pd.DataFrame, rows: str, cols: str) -> None:
    """A table for each way to tell the parts: by factors, by the cells of the row, by those of the column."""
    screen = console(wide=True)
    heads = {"factors": "By factors", "row cells": f"By the cells of the {rows}",
             "column cells": f"By the cells of the {cols}"}  # fmt: skip
    for by, lines in table.groupby("by", sort=False):
        screen.print(Text(heads[str(by)], "bold"))
        shown = plain_table("part", "relation", "with", "cell", "of which", "adds", left=3)
        cells = lines["part"] == "cell"
        for line in lines[~cells].to_dict(orient="records"):
            shown.add_row(
                line["part"], line["relation"] or "", _text(line["item"]), "", "", _adds(line["contribution"])
            )
        for relation, part in lines[cells].groupby("relation", sort=False):
            shown.add_row(counted(len(part), "cell"), str(relation), "", "", "", _adds(part["contribution"].sum()))
            for line in part.head(_SHOWN).to_dict(orient="records"):
                cell = f"{line['cell']:g}"
                shown.add_row("", str(relation), _text(line["item"]), cell, _adds(line["contribution"]), "")
        shown.add_section()
        shown.add_row("prediction", "", "", "", "", _adds(lines["contribution"].sum()))
        screen.print(shown)
        screen.print()


def _text(item: object) -> str:
    return "" if item is None else str(item)


def _adds(value: float) -> str:
    return f"{value:+.3f}"
