"""What all commands share of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


#: Where no terminal says how wide it is, lines of tables and notes may be this long.
_WIDTH = 160


def console(*, stderr: bool = False, wide: bool = False) -> Console:
    """Return the terminal; results go to stdout, progress and errors to stderr; `wide` where nobody sets a width."""
    from rich.console import Console  # noqa: PLC0415 - help must not wait for it

    screen = Console(stderr=stderr, highlight=False)
    if wide and not screen.is_terminal:
        screen.width = _WIDTH
    return screen


def show_error(message: str) -> None:
    """Show an error as one short paragraph."""
    from rich.text import Text  # noqa: PLC0415

    screen = console(stderr=True)
    # A file or another program gets the message in one piece, however long the paths in it are.
    screen.print(Text.assemble(("Error: ", "bold red"), message), soft_wrap=not screen.is_terminal)


def show_json(value: object) -> None:
    """Show plain values as JSON, for other programs; what is no number is null."""
    import json  # noqa: PLC0415
    import math  # noqa: PLC0415

    def plain(one: object) -> object:
        if isinstance(one, dict):
            return {str(key): plain(own) for key, own in one.items()}
        if isinstance(one, list | tuple):
            return [plain(own) for own in one]
        return None if isinstance(one, float) and not math.isfinite(one) else one

    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def plain_table(*columns: str) -> Table:
    """Return an empty table without lines; all columns but the first are numbers."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        # A narrow terminal shows names in several lines rather than in part, and numbers always whole.
        table.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
    return table
