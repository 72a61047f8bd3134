"""A comparison in the terminal: a bar while it runs, a table per relation when it is done."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich import progress

from gcmf.cli.reading import waiting
from gcmf.cli.screen import bar_text, console, plain_table, show_json, show_note
from gcmf.errors import UnknownIdError, did_you_mean
from gcmf.io.evaluate import GROUP, MEASURES, evaluate, methods
from gcmf.io.project.read import read_project

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
    stopped, fits = table["unconverged"].sum(), table["folds"].sum()
    if stopped:
        show_note(f"{stopped} of {fits} fits stopped at max_iter before converging: raise --max-iter.")


def _show(table: pd.DataFrame) -> None:
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
