"""`gcmf demo`: fit something, and show what comes out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.columns import Columns
from rich.console import Group
from rich.padding import Padding
from rich.panel import Panel
from rich.progress import BarColumn, TimeElapsedColumn
from rich.text import Text

from gcmf.cli.terminal import AsJson, Progress, console, plain_table, show_json, show_written, stopping
from gcmf.errors import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from gcmf.demo import Demo
    from gcmf.outcome import StepInfo

_ROLE_STYLES = {"shared": "cyan", "partial": "magenta", "private": "yellow"}
_FIT_NAMES = {"left": "left alone", "right": "right alone"}


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figure and the model.")] = Path("gcmf-demo"),
    seed: Annotated[int, typer.Option(help="Decides what is hidden and where fits start.", min=0)] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace files that gcmf did not write.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit handwritten digits cut in halves; show the schema, the structure found and held-out errors."""
    from gcmf.demo import MAX_ITER, check_files, run_demo, save_demo
    from gcmf.io.outputs import make_folder
    from gcmf.io.results import describe

    make_folder(out)
    check_files(out, force=force)
    with FitBars(MAX_ITER) as bars:
        done = run_demo(seed=seed, report=bars.report)
    with stopping(f"what is in {out} is not complete."):
        files = save_demo(done, out)
    if as_json:
        errors = done.errors.to_dict(orient="index")
        show_json({"errors": errors, **describe(done.model), "files": [str(file) for file in files]})
    else:
        _show(done)
        show_written(*files)


class FitBars(Progress):
    """One line per fit: a bar, sweeps, factors alive, time."""

    def __init__(self, max_iter: int) -> None:
        columns = ("{task.description:<12}", BarColumn(bar_width=24), "{task.fields[state]}", TimeElapsedColumn())
        super().__init__(*columns)
        self._max_iter = max_iter

    def report(self, name: str, info: StepInfo | None) -> None:
        """Open a line for a fit that starts, or move the last one."""
        if info is None:
            self._fill()
            state = "starting" if self.tasks else "starting (may have to compile)"
            self.add_task(_FIT_NAMES.get(name, name), total=None, state=state)
            return
        sweeps, factors = counted(info.iteration, "sweep"), counted(info.n_factors, "factor")
        state = f"{sweeps:>10}, {factors:>10}, ELBO {info.elbo:,.0f}"
        self.update(self.task_ids[-1], total=self._max_iter, completed=info.iteration, state=state)

    def stop(self) -> None:
        """Leave the lines standing."""
        self._fill()
        super().stop()

    def _fill(self) -> None:
        """Fill the bars of fits that converged before their last sweep."""
        for task in self.tasks:
            if not task.finished:
                done = max(task.completed, 1)
                self.update(task.id, total=done, completed=done)


def _show(demo: Demo) -> None:
    """Show the schema, the structure found, the errors, and what they mean."""
    from gcmf.demo import findings

    words = [Padding(Text(f"• {sentence}"), (1, 0, 0, 0)) for sentence in findings(demo)]
    screen = console()
    screen.print()
    screen.print(_panel("The collection", _schema(demo)))
    screen.print(_panel("The structure found", _structure(demo)))
    screen.print(_panel("Held-out error", Group(_errors(demo), *words)))


def _panel(title: str, content: RenderableType) -> Panel:
    return Panel(content, title=f"[bold]{title}", title_align="left", border_style="bright_black", padding=(1, 2))


def _schema(demo: Demo) -> Table:
    table = plain_table("relation", "joins", "kind", "seen", "hidden", "explained", left=3)
    explained = demo.model.variance_explained()["total"]
    for name, seen in demo.train.relations.items():
        rows, cols = (f"{entity} ({demo.train.entities[entity].size:,})" for entity in (seen.rows, seen.cols))
        hidden = demo.whole.relations[name].n_cells - seen.n_cells
        counts = f"{seen.n_cells:,}", f"{hidden:,}"
        table.add_row(name, f"{rows} × {cols}", seen.schema.likelihood, *counts, f"{explained[name]:.0%}")
    return table


def _structure(demo: Demo) -> Group:
    """One line per factor: where it lives, what it adds to each relation."""
    structure, explained = demo.model.structure(), demo.model.variance_explained()
    entities, relations = demo.model.schema_.entities, list(explained.index)
    table = plain_table("factor", *entities, "", *relations, "role")
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
    from gcmf.demo import GROUP, METHODS

    table = plain_table("RMSE of gray values, 0 to 1", *demo.errors.columns)
    for method, row in demo.errors.iterrows():
        style = "bold" if method == GROUP else ""
        table.add_row(Text(METHODS[str(method)], style), *(Text(f"{value:.4f}", style) for value in row))
    return table
