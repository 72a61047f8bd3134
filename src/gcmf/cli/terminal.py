"""What all commands share: the console, on which all is text and nothing but text, tables, progress, common options."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box, progress
from rich.console import Console
from rich.table import Table
from rich.text import Text

import gcmf
from gcmf.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rich.console import ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Column

    from gcmf.estimators.gcmf import GCMF

ModelFile = Annotated[Path, typer.Argument(help="A model file.")]
ProjectFile = Annotated[Path, typer.Argument(help="A project file, or a folder with a gcmf.toml.")]
AsJson = Annotated[bool, typer.Option("--json", help="Report as JSON.")]

DASHES = "Ids that begin with a dash come last, after --."

#: Where no terminal says how wide it is, lines of tables and notes may be this long.
_WIDTH = 160
#: What is read sooner needs no bar.
_SECONDS = 2.0


# --- the console --------------------------------------------------------------------------------------------


def visible(text: str, *, kept: str = "\n") -> str:
    r"""Return a text with `\x1b` for each character that does not print; those in `kept` stay.

    A name or an id may hold anything, also what makes a terminal move its cursor or change its title. Everything
    that the commands show passes here: by `console`, by `show_json`, or by hand.
    """
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in kept else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


class Terminal(Console):
    """Shows control characters as their escapes, and reads neither markup nor emoji codes in what it is given."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """Every string passes here: those printed, and the cells and heads of tables."""
        return super().render_str(visible(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Every text with a style passes here, and loses its styles if it holds what must be escaped."""
        if isinstance(renderable, Text) and (shown := visible(renderable.plain)) != renderable.plain:
            whole = {name: getattr(renderable, name) for name in ("justify", "overflow", "no_wrap", "end")}
            renderable = Text(shown, renderable.style, **whole)
        return super().render(renderable, options)


def console(*, stderr: bool = False, wide: bool = False) -> Console:
    """Return the terminal; results go to stdout, progress and errors to stderr; `wide` where nobody sets a width."""
    screen = Terminal(stderr=stderr)
    if wide and not screen.is_terminal:
        screen.width = _WIDTH
    return screen


def show_error(message: str) -> None:
    """Show an error as one short paragraph."""
    _show_paragraph("Error:", "bold red", message)


def show_note(message: str) -> None:
    """Show what a person should know of the result, apart from it."""
    _show_paragraph("Note:", "bold yellow", message)


def show_stop(message: str) -> None:
    """Say that the command was stopped, and what that left."""
    _show_paragraph("Stopped:", "bold yellow", message)


def _show_paragraph(head: str, style: str, message: str) -> None:
    screen = console(stderr=True)
    # A file or another program gets the message in one piece, however long the paths in it are.
    screen.print(Text(head, style), message, soft_wrap=not screen.is_terminal)


def show_written(*files: object, more: str = "") -> None:
    """Say where results were written."""
    paths = Text(", ".join(map(str, files)), "bold")
    console().print("Written:", paths, *([more] if more else []), soft_wrap=True)


def show_json(value: object) -> None:
    """Show plain values as JSON, for other programs; what is no number is null."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False)
    # JSON leaves some control characters as they are; its own escapes say the same to who reads it.
    print("".join(letter if letter.isprintable() or letter == "\n" else json.dumps(letter)[1:-1] for letter in text))


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {str(key): _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def plain_table(*columns: str, left: int = 1) -> Table:
    """Return an empty table without lines; all columns but the first ones, `left`, are numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        # A narrow terminal shows names in several lines rather than in part, and numbers always whole.
        table.add_column(column, justify="left" if number < left else "right", overflow="fold")
    return table


@contextmanager
def stopping(left: str) -> Iterator[None]:
    """Make Ctrl-C say what it left; without this, that nothing was written. The innermost one knows best."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise type(stop)(str(stop) or left) from None


def load_model(path: Path) -> GCMF:
    """Return the model of a file, which must be one of relations: what else a file may hold has no ids to ask about."""
    model = gcmf.load(path)
    if not isinstance(model, gcmf.GCMF):
        kind = type(model).__name__
        msg = (
            f"{path} holds a {kind}, which knows samples by their position and no ids or relations to ask about: use it"
            f" in Python, by gcmf.load({str(path)!r}), or fit the same tables with GCMF."
        )
        raise OptionError(msg)
    return model


# --- progress -----------------------------------------------------------------------------------------------


def bar_text(pattern: str, *, style: str = "none", column: Column | None = None) -> progress.TextColumn:
    """Return a text in a line of progress; names in it are no markup."""
    return progress.TextColumn(pattern, style, markup=False, table_column=column)


class Progress(progress.Progress):
    """Lines on stderr that tell how far something is; columns given as strings are texts about the task."""

    def __init__(self, *columns: str | progress.ProgressColumn, transient: bool = False, disable: bool = False) -> None:
        texts = (bar_text(column) if isinstance(column, str) else column for column in columns)
        super().__init__(*texts, console=console(stderr=True), transient=transient, disable=disable)


@contextmanager
def waiting(what: str, *, quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Yield what reading reports to; after two seconds a terminal shows it as a bar."""
    bars = Progress("{task.description}", progress.BarColumn(), progress.TimeElapsedColumn(), transient=True)
    task = bars.add_task(what, total=None)

    def report(name: str, number: int, total: int) -> None:
        shown = "".join(letter if letter.isprintable() else "?" for letter in name)
        # One table takes as long as it takes: its bar only shows that something goes on.
        bars.update(task, description=f"{what} {shown}", completed=number, total=total if total > 1 else None)

    timer = Timer(_SECONDS, bars.start)
    timer.daemon = True
    if bars.console.is_terminal and not quiet:
        timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        if bars.live.is_started:
            bars.stop()
