"""The demonstration in the terminal: progress while it fits, tables when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box, progress
from rich.columns import Columns
from rich.console import Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gcmf.cli.screen import bar_text, console
from gcmf.demo import GROUP, MAX_ITER, METHODS, findings
from gcmf.errors import counted

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from rich.console import RenderableType

    from gcmf.demo import Demo
    from gcmf.fit import StepInfo

_ROLE_STYLES = {"shared": "cyan", "partial": "magenta", "private": "yellow"}
_FIT_NAMES = {"left": "left alone", "right": "right alone"}


class Progress:
    """One line per fit: a bar, sweeps, factors alive, time."""

    def __init__(self) -> None:
        self._bars = progress.Progress(
            bar_text("{task.description:<12}"),
            progress.BarColumn(bar_width=24),
            bar_text("{task.fields[state]}"),
            progress.TimeElapsedColumn(),
            console=console(stderr=True),
        )
        self._tasks: dict[str, progress.TaskID] = {}

    def __enter__(self) -> Progress:
        self._bars.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._finish()
        self._bars.stop()

    def report(self, name: str, info: StepInfo | None) -> None:
        """Open a line for a fit that starts, or move the one of a fit that runs."""
        if info is None:
            self._finish()
            state = "starting (may have to compile)" if not self._tasks else "starting"
            self._tasks[name] = self._bars.add_task(_FIT_NAMES.get(name, name), total=None, state=state)
            return
        state = (
            f"{counted(info.iteration, 'sweep'):>10}, {counted(info.n_factors, 'factor'):>10}, ELBO {info.elbo:,.0f}"
        )
        self._bars.update(self._tasks[name], total=MAX_ITER, completed=info.iteration, state=state)

    def _finish(self) -> None:
        """Fill the bars of fits that converged before their last sweep."""
        for task in self._bars.tasks:
            if not task.finished:
                done = max(task.completed, 1)
                self._bars.update(task.id, total=done, completed=done)


def show_demo(demo: Demo) -> None:
    """Show the schema, the structure found, the errors, and what they mean."""
    screen = console()
    screen.print()
    screen.print(_panel("The collection", _schema(demo)))
    screen.print(_panel("The structure found", _structure(demo)))
    screen.print(_panel("Held-out error", Group(_errors(demo), *_words(demo))))


def show_files(files: list[Path]) -> None:
    """Say where the figure and the model were written."""
    console().print("Written:", Text(", ".join(map(str, files)), "bold"), soft_wrap=True)


def _panel(title: str, content: RenderableType) -> Panel:
    return Panel(content, title=f"[bold]{title}", title_align="left", border_style="bright_black", padding=(1, 2))


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    return table


def _schema(demo: Demo) -> Table:
    table = _table("relation", "joins", "kind", "seen", "hidden", "explained")
    table.columns[1].justify = table.columns[2].justify = "left"
    explained = demo.model.variance_explained()["total"]
    for name, own in demo.train.relations.items():
        rows, cols = (f"{entity} ({demo.train.entities[entity].size:,})" for entity in (own.rows, own.cols))
        hidden = demo.whole.relations[name].n_cells - own.n_cells
        table.add_row(name, f"{rows} × {cols}", own.schema.likelihood, f"{own.n_cells:,}", f"{hidden:,}",
                      f"{explained[name]:.0%}")  # fmt: skip
    return table


def _structure(demo: Demo) -> Group:
    """One line per factor: where it lives, what it adds to each relation."""
    structure, explained = demo.model.structure(), demo.model.variance_explained()
    entities, relations = demo.model.schema_.entities, list(explained.index)
    table = _table("factor", *entities, "", *relations, "role")
    for name, factor in structure.iterrows():
        style = _ROLE_STYLES[factor["role"]]
        lives = [Text("●" if factor[entity] > 0 else "·", style) for entity in entities]
        adds = [_share(float(explained.loc[r, str(name)])) if r in factor["relations"] else "·" for r in relations]
        table.add_row(str(name), *lives, "", *adds, Text(factor["role"], style))
    counts = structure["role"].value_counts()
    shown = [Text(f"{counts[role]} {role}", f"bold {style}") for role, style in _ROLE_STYLES.items() if role in counts]
    legend = "● lives in the entity set, · switched off there; % of variance it adds to each relation by itself"
    return Group(Columns(shown), Text(), table, Padding(Text(legend, "bright_black"), (1, 0, 0, 0)))


def _share(value: float) -> str:
    return f"{value:.1%}" if value >= 0.0005 else "0"


def _errors(demo: Demo) -> Table:
    table = _table("RMSE of gray values, 0 to 1", *demo.errors.columns)
    for method, row in demo.errors.iterrows():
        style = "bold" if method == GROUP else ""
        table.add_row(Text(METHODS[str(method)], style), *(Text(f"{value:.4f}", style) for value in row))
    return table


def _words(demo: Demo) -> list[Padding]:
    return [Padding(Text(f"• {sentence}"), (1, 0, 0, 0)) for sentence in findings(demo)]
