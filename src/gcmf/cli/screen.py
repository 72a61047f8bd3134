"""What all commands share of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console(*, stderr: bool = False) -> Console:
    """Return the terminal; results go to stdout, progress and errors to stderr."""
    from rich.console import Console  # noqa: PLC0415 - help must not wait for it

    return Console(stderr=stderr, highlight=False)


def show_error(message: str) -> None:
    """Show an error as one short paragraph."""
    from rich.text import Text  # noqa: PLC0415

    console(stderr=True).print(Text.assemble(("Error: ", "bold red"), message))
