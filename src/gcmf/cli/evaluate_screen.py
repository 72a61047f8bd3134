"""A comparison in the terminal: a bar while it runs, a table per relation when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich import progress
from rich.text import Text

from gcmf.cli.reading import waiting
from gcmf.cli.screen import console, plain_table, show_json
from gcmf.errors import UnknownIdError, did_you_mean
from gcmf.io.evaluate import GROUP, evaluate, methods
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
    bars = progress.Progress(*progress.Progress.get_default_columns(), console=console(stderr=True), transient=True)
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
    for relation, own in table.groupby("relation", sort=False):
        folds, hidden = own[["folds", "hidden"]].iloc[0]
        screen.print(Text(f"{relation}: RMSE of hidden cells, mean of {folds} folds of {hidden:,} cells", "bold"))
        lines = plain_table("method", "error", "minus gCMF's", "± standard error")
        for row in own.itertuples():
            own_line = row.method == GROUP
            gap = ("", "") if own_line else (f"{row.difference:+.4g}", f"{row.difference_se:.2g}")
            lines.add_row(Text(str(row.method)), f"{row.error:.4g}", *gap)
        screen.print(lines)
        screen.print()
