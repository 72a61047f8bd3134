"""`gcmf evaluate`: whether each extra relation helps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

import gcmf
from gcmf.cli.terminal import AsJson, Progress, ProjectFile, console, plain_table, show_json, show_note, waiting
from gcmf.errors import UnknownIdError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd


def evaluate(
    project: ProjectFile,
    relation: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="Only the errors of this relation; may be repeated.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Parts that are hidden in turn.", min=2)] = 5,
    max_iter: Annotated[
        int | None, typer.Option(help="Sweeps of each fit, at most; else as the project file says, or 1000.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides what is hidden.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare cross-validated errors of gCMF, CMF, gCMF without each other relation, one matrix, and biases only.

    Hidden cells are judged by the RMSE (numbers), by log-loss and AUC (0/1), or
    by the negative log-likelihood per cell (counts, and the numbers of a
    features section, whose columns have units of their own).
    """
    from gcmf.io import evaluate as comparison

    with waiting("Reading") as report:
        read = gcmf.read_project(project, report=report)
    data, options = read.collection, dict(read.options)
    if max_iter is not None:
        options["max_iter"] = max_iter
    for name in relation or ():
        if name not in data.relations:
            known = ", ".join(data.relations)
            msg = f"There is no relation {name!r}; the project has {known}.{did_you_mean(name, data.relations)}"
            raise UnknownIdError(msg)
    targets = relation or list(data.relations)
    columns = ("{task.description}", BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, transient=True) as bars:
        task = bars.add_task("fitting", total=folds * sum(len(comparison.methods(data, name)) for name in targets))
        table = comparison.evaluate(
            data, options, relations=targets, n_folds=folds, random_state=seed,
            report=lambda said: bars.update(task, advance=1, description=said),
        )  # fmt: skip
    if as_json:
        show_json(table.to_dict(orient="records"))
    else:
        _show(table)
    stopped, fits = table["unconverged"].sum(), table["folds"].sum()
    if stopped:
        show_note(f"{stopped} of {fits} fits stopped at max_iter before converging: raise --max-iter.")


def _show(table: pd.DataFrame) -> None:
    from gcmf.io.evaluate import GROUP, MEASURES

    screen = console()
    for relation, lines in table.groupby("relation", sort=False):
        measure, folds, hidden = lines[["measure", "folds", "hidden"]].iloc[0]
        more = [name for name in ("auc", "average_precision") if lines[name].notna().any()]
        screen.print(f"{relation}: hidden cells, means of {folds} folds of {hidden:,} cells", style="bold")
        shown = plain_table(
            "method", MEASURES[measure], "minus gCMF's", "± std. error", *(MEASURES[name] for name in more)
        )
        digits = _decimals(lines["error"].abs().max())
        for row in lines.to_dict(orient="records"):
            gap = [f"{row['difference']:+.{digits + 1}f}", f"{row['difference_se']:.{digits + 1}f}"]
            gap = ["", ""] if row["method"] == GROUP else gap
            shown.add_row(row["method"], f"{row['error']:.{digits}f}", *gap, *(f"{row[name]:.4f}" for name in more))
        screen.print(shown)
        screen.print()


def _decimals(largest: float) -> int:
    """Return how many decimals show four digits of the largest number in a column."""
    return max(0, 3 - math.floor(math.log10(largest))) if 0 < largest < math.inf else 4
