"""The experiments in the terminal: a list, a bar while one runs, its claims when it is done."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box, progress
from rich.table import Table
from rich.text import Text

from gcmf.cli.screen import bar_text, console, show_json, stopping
from gcmf.errors import DataError
from gcmf.experiments.base import Progress
from gcmf.experiments.demo_figure import make_folder
from gcmf.experiments.registry import experiments
from gcmf.experiments.runner import check_files, missing_data, run_one, say_time, write, write_results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from gcmf.experiments.base import Experiment, Outcome, Size

_VERDICTS = {"yes": "green", "no": "bold red"}


class Bar(Progress):
    """A bar of the stage that runs, and what was done last."""

    def __init__(self, title: str) -> None:
        self._bars = progress.Progress(
            bar_text(title),
            progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            bar_text("{task.description}", style="bright_black"),
            console=console(stderr=True),
            transient=True,
        )
        self._task: progress.TaskID | None = None

    def __enter__(self) -> Bar:
        self._bars.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._bars.stop()

    def start(self, total: int, what: str) -> None:
        """Show a new bar in place of the last one."""
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._task = self._bars.add_task(what, total=total)

    def step(self, text: str = "") -> None:
        """Move the bar by one."""
        if self._task is not None:
            self._bars.update(self._task, advance=1, description=text)


def show_list(known: Sequence[Experiment], *, as_json: bool = False) -> None:
    """Show the name and title of every experiment, and which data it lacks."""
    if as_json:
        show_json([{"name": one.name, "title": one.title, "needs": one.needs, "missing": missing_data(one)}
                   for one in known])  # fmt: skip
        return
    table = _table("experiment", "what it shows", "data")
    for one in known:
        lacking = missing_data(one)
        there = Text(", ".join(one.needs) or "simulated")
        data = Text(f"missing: {', '.join(lacking)}", "yellow") if lacking else there
        table.add_row(Text(one.name, "bold"), one.title, data)
    screen = console()
    screen.print(table)
    screen.print(Text("\nRun one with `gcmf reproduce NAME`, or every one with `gcmf reproduce all`.", "bright_black"))


def run_and_show(
    chosen: Sequence[Experiment], size: Size, *, out: Path, seed: int, force: bool = False, as_json: bool = False
) -> None:
    """Run experiments one after the other, write each as soon as it is done, and show its claims."""
    make_folder(out)
    check_files(chosen, out, force=force)
    reports: list[dict[str, Any]] = []
    for experiment in chosen:
        lacking = missing_data(experiment)
        if lacking:
            _skip(experiment, lacking, alone=len(chosen) == 1)
            continue
        with stopping(_left(reports, out)):
            outcome = _run_and_write(experiment, size, out=out, seed=seed)
        claims = [asdict(claim) for claim in outcome.claims]
        reports.append({"name": experiment.name, "seconds": outcome.seconds, "claims": claims})
        if not as_json:
            _show(experiment, outcome)
    results = write_results(out, experiments())
    if as_json:
        show_json({"experiments": reports, "results": str(results)})
        return
    console().print(
        "Written:", Text(str(results), "bold") + Text(", with a table and a figure of each."), soft_wrap=True
    )


def _run_and_write(experiment: Experiment, size: Size, *, out: Path, seed: int) -> Outcome:
    with Bar(experiment.name) as bar:
        outcome = run_one(experiment, size, progress=bar, seed=seed)
    with stopping(f"what {out} has of {experiment.name} is not complete."):
        write(experiment, outcome, out, command=f"gcmf reproduce {experiment.name} --{size.value} --seed {seed}")
    return outcome


def _left(reports: list[dict[str, Any]], out: Path) -> str:
    """Say what Ctrl-C leaves of a run of several experiments."""
    if not reports:
        return ""
    done = ", ".join(report["name"] for report in reports)
    return f"{out} has what was done before: {done}; results.md is not up to date."


def _skip(experiment: Experiment, lacking: list[str], *, alone: bool) -> None:
    """Say which data is missing; an error if nothing else was asked for."""
    said = (
        f"{experiment.name} needs the data folder {', '.join(lacking)}, which is not there: put it under the folder "
        "that GCMF_DATA names, or under ../shared/data beside the project."
    )
    if alone:
        raise DataError(said)
    console(stderr=True).print(Text.assemble(("Skipped: ", "bold yellow"), said, "\n"))


def _show(experiment: Experiment, outcome: Outcome) -> None:
    table = _table("claim", "paper", "ours", "holds?")
    for claim in outcome.claims:
        table.add_row(claim.text, claim.paper, claim.ours, Text(claim.verdict, _VERDICTS.get(claim.verdict, "yellow")))
    screen = console()
    screen.print(Text.assemble((experiment.title, "bold"), f"  ({experiment.name}, {say_time(outcome.seconds)})"))
    screen.print(table)
    screen.print()


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column)
    return table
