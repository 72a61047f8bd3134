"""What all commands share of the terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.progress import TextColumn
    from rich.table import Column, Table


#: Where no terminal says how wide it is, lines of tables and notes may be this long.
_WIDTH = 160


def visible(text: str, *, kept: str = "\n") -> str:
    r"""Return a text with `\x1b` for each character that does not print; those in `kept` stay.

    A name or an id may hold anything, also what makes a terminal move its cursor or change its title. Everything
    that the commands show passes here: by `console`, by `show_json`, or by hand.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else _escaped(one) for one in text)


def _escaped(one: str) -> str:
    return one.encode("unicode_escape").decode("ascii")


def console(*, stderr: bool = False, wide: bool = False) -> Console:
    """Return the terminal; results go to stdout, progress and errors to stderr; `wide` where nobody sets a width."""
    from gcmf.cli.terminal import Terminal  # noqa: PLC0415 - help must not wait for it

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
    from rich.text import Text  # noqa: PLC0415

    screen = console(stderr=True)
    # A file or another program gets the message in one piece, however long the paths in it are.
    screen.print(Text(head, style), message, soft_wrap=not screen.is_terminal)


@contextmanager
def stopping(left: str) -> Iterator[None]:
    """Make Ctrl-C say what it left; without this, that nothing was written. The innermost one knows best."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(str(stop) or left) from None


def show_json(value: object) -> None:
    """Show plain values as JSON, for other programs; what is no number is null."""
    import json  # noqa: PLC0415
    import math  # noqa: PLC0415

    def plain(one: object) -> object:
        if isinstance(one, dict):
            return {str(key): plain(part) for key, part in one.items()}
        if isinstance(one, list | tuple):
            return [plain(part) for part in one]
        return None if isinstance(one, float) and not math.isfinite(one) else one

    text = json.dumps(plain(value), indent=2, ensure_ascii=False)
    # JSON leaves some control characters as they are; its own escapes say the same to who reads it.
    print("".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text))


def plain_table(*columns: str) -> Table:
    """Return an empty table without lines; all columns but the first are numbers."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        # A narrow terminal shows names in several lines rather than in part, and numbers always whole.
        table.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
    return table


def bar_text(pattern: str, *, style: str = "none", column: Column | None = None) -> TextColumn:
    """Return a text in a line of progress; names in it are no markup."""
    from rich.progress import TextColumn  # noqa: PLC0415

    return TextColumn(pattern, style, markup=False, table_column=column)
