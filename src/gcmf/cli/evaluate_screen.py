"""A comparison in the terminal: a bar while it runs, a table per relation when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import progress

from gcmf.cli.reading import waiting
from gcmf.cli.screen import bar_text, console, plain_table, show_json
from gcmf.errors import UnknownIdError, did_you_mean
from gcmf.io.evaluate import GROUP, evaluate, methods
from gcmf.io.holdout import MEASURES
from gcmf.io.project import read_project

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


def evaluate_and_show(
    path: Path, relations: list[str] | None, *, n_folds: int, chosen: dict[str, Any], seed: int, as_json: bool
) -> None:
    """Read, fit many times, compare."""
    with waiting("Reading") as reported:
        project = read_project(path, report=reported)
    data = project.collection
    for name in relations or ():
        if name not in data.relations:
            known = ", ".join(data.relations)
            msg = f"There is no relation {name!r}; the project has {known}.{did_you_mean(name, data.relations)}"
            raise UnknownIdError(msg)
    targets = relations or list(data.relations)
    columns = (bar_text("{task.description}"), progress.BarColumn(bar_width=24), progress.MofNCompleteColumn(),
               progress.TimeRemainingColumn())  # fmt: skip
    bars = progress.Progress(*columns, console=console(stderr=True), transient=True)
    with bars:
        task = bars.add_task("fitting", total=n_folds * sum(len(methods(data, name)) for name in targets))
        table = evaluate(data, {**project.options, **chosen}, relations=targets, n_folds=n_folds, random_state=seed,
                         report=lambda said: bars.update(task, advance=1, description=said))  # fmt: skip
    if as_json:
        show_json(table.to_dict(orient="records"))
    else:
        _show(table)


def _show(table: pd.DataFrame) -> None:
    screen = console()
    for relation, lines in table.groupby("relation", sort=False):
        measure, folds, hidden = lines[["measure", "folds", "hidden"]].iloc[0]
        more = [name for name in ("auc", "average_precision") if lines[name].notna().any()]
        screen.print(f"{relation}: hidden cells, means of {folds} folds of {hidden:,} cells", style="bold")
        shown = plain_table(
            "method", MEASURES[measure], "minus gCMF's", "± std. error", *(MEASURES[name] for name in more)
        )
        for row in lines.to_dict(orient="records"):
            first = row["method"] == GROUP
            gap = ("", "") if first else (f"{row['difference']:+.4g}", f"{row['difference_se']:.2g}")
            shown.add_row(row["method"], f"{row['error']:.4g}", *gap, *(f"{row[name]:.4g}" for name in more))
        screen.print(shown)
        screen.print()
