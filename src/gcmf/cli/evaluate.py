"""`gcmf evaluate`: whether each part of the data, and of the model, helps."""

from __future__ import annotations

import math
from pathlib import Path
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
    columns: Annotated[bool, typer.Option("--columns", help="Leave out each column of covariates too.")] = False,
    forms: Annotated[
        bool, typer.Option("--forms", help="Take tables as covariates instead of relations too, and the reverse.")
    ] = False,
    factors: Annotated[bool, typer.Option("--factors", help="Leave out each factor too.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Fits at a time; else up to four.", min=1)] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the table into this file: .png, .svg or .pdf.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a picture that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare cross-validated errors of gCMF, CMF, gCMF without each other part, one matrix, and biases only.

    Hidden cells are judged by the RMSE (numbers), by log-loss and AUC (0/1), or
    by the negative log-likelihood per cell (counts, and the numbers of a
    features section, whose columns have units of their own).
    """
    from gcmf.io import evaluate as comparison
    from gcmf.io.outputs import check_new
    from gcmf.io.variants import variants

    if plot is not None:
        check_new(plot, force=force)
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
    shown = ("{task.description}", BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*shown, transient=True) as bars:
        compared = (variants(data, name, columns=columns, forms=forms) for name in targets)
        task = bars.add_task("fitting", total=folds * sum(map(len, compared)))
        table = comparison.evaluate(
            data, options, relations=targets, n_folds=folds, random_state=seed, columns=columns, forms=forms,
            factors=factors, n_jobs=jobs, report=lambda said: bars.update(task, advance=1, description=said),
        )  # fmt: skip
    if plot is not None:
        gcmf.plot.evaluation(table).savefig(plot)
    if as_json:
        show_json(table.to_dict(orient="records"))
    else:
        _show(table)
    fitted = table[table["kind"] != "factor"]
    stopped, fits = fitted["unconverged"].sum(), fitted["folds"].sum()
    if stopped:
        show_note(f"{stopped} of {fits} fits stopped at max_iter before converging: raise --max-iter.")


def _show(table: pd.DataFrame) -> None:
    from gcmf.io.evaluate import MEASURES
    from gcmf.io.variants import GROUP

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
