"""`python -m reproduction NAME`: run an experiment of the paper, or all; without a name, list them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box, progress
from rich.table import Table
from rich.text import Text

from gcmf.cli.terminal import bar_text, console, show_error, show_stop, stopping
from gcmf.errors import DataError, GcmfError
from gcmf.io.outputs import make_folder
from reproduction import faces, figure2, genes, likelihood, recommenders, vb_vs_map
from reproduction.base import Progress, Size
from reproduction.real import missing_data
from reproduction.runner import check_files, run_one, say_time, write, write_results

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from reproduction.base import AnyExperiment, Outcome

EXPERIMENTS: tuple[AnyExperiment, ...] = tuple(
    module.EXPERIMENT for module in (figure2, likelihood, vb_vs_map, genes, faces, recommenders)
)
"""In the order of the paper."""
_VERDICTS = {"yes": "green", "no": "bold red"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 if it cannot be run, 130 if it was stopped."""
    options = _options(argv)
    if options.name is None:
        _show_list()
        return 0
    chosen = [one for one in EXPERIMENTS if options.name in (one.name, "all")]
    try:
        _run_and_show(chosen, options.size, out=options.out, seed=options.seed, force=options.force)
    except GcmfError as error:
        show_error(str(error))
        return 1
    except KeyboardInterrupt as stop:
        show_stop(str(stop) or "nothing was written.")
        return 130
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    parser.add_argument("name", nargs="?", choices=(*(one.name for one in EXPERIMENTS), "all"), metavar="NAME")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const=Size.QUICK, help="a few minutes in all")
    size.add_argument("--full", dest="size", action="store_const", const=Size.FULL, help="the paper's size: hours")
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for tables, figures and results.md")
    parser.add_argument("--seed", type=int, default=0, help="decides what is drawn, what is hidden, where fits start")
    parser.add_argument("--force", action="store_true", help="replace files that no earlier run wrote")
    parser.set_defaults(size=Size.QUICK)
    options = parser.parse_args(argv)
    if options.seed < 0:
        parser.error("--seed is to be 0 or more")
    return options


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


def _show_list() -> None:
    """Show the name and title of every experiment, and which data it lacks."""
    table = _table("experiment", "what it shows", "data")
    for experiment in EXPERIMENTS:
        lacking = missing_data(experiment.needs)
        there = Text(", ".join(experiment.needs) or "simulated")
        data = Text(f"missing: {', '.join(lacking)}", "yellow") if lacking else there
        table.add_row(Text(experiment.name, "bold"), experiment.title, data)
    screen = console()
    screen.print(table)
    words = "\nRun one with `python -m reproduction NAME`, or every one with `python -m reproduction all`."
    screen.print(Text(words, "bright_black"))


def _run_and_show(chosen: Sequence[AnyExperiment], size: Size, *, out: Path, seed: int, force: bool) -> None:
    """Run experiments one after the other, write each as soon as it is done, and show its claims."""
    make_folder(out)
    check_files(chosen, out, force=force)
    done: list[str] = []
    for experiment in chosen:
        lacking = missing_data(experiment.needs)
        if lacking:
            _skip(experiment, lacking, alone=len(chosen) == 1)
            continue
        with stopping(_left(done, out)):
            outcome = _run_and_write(experiment, size, out=out, seed=seed)
        done.append(experiment.name)
        _show(experiment, outcome)
    results = write_results(out, EXPERIMENTS)
    console().print(
        "Written:", Text(str(results), "bold") + Text(", with a table and a figure of each."), soft_wrap=True
    )


def _run_and_write(experiment: AnyExperiment, size: Size, *, out: Path, seed: int) -> Outcome:
    with Bar(experiment.name) as bar:
        outcome = run_one(experiment, size, progress=bar, seed=seed)
    command = f"python -m reproduction {experiment.name} --{size.value} --seed {seed}"
    with stopping(f"what {out} has of {experiment.name} is not complete."):
        write(experiment, outcome, out, command=command)
    return outcome


def _left(done: Sequence[str], out: Path) -> str:
    """Say what Ctrl-C leaves of a run of several experiments."""
    return f"{out} has what was done before: {', '.join(done)}; results.md is not up to date." if done else ""


def _skip(experiment: AnyExperiment, lacking: list[str], *, alone: bool) -> None:
    """Say which data is missing; an error if nothing else was asked for."""
    said = (
        f"{experiment.name} needs the data folder {', '.join(lacking)}, which is not there: put it under the folder "
        "that GCMF_DATA names, or under ../shared/data beside the project."
    )
    if alone:
        raise DataError(said)
    console(stderr=True).print(Text.assemble(("Skipped: ", "bold yellow"), said, "\n"))


def _show(experiment: AnyExperiment, outcome: Outcome) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
