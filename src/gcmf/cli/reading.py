"""A bar while tables are read, for those who wait longer than a moment."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from rich import progress
from rich.markup import escape

from gcmf.cli.screen import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gcmf.io.sources.specs import Report

_SECONDS = 2.0
"""What is read sooner needs no bar."""


@contextmanager
def waiting(what: str) -> Iterator[Report]:
    """Yield what reading reports to; after two seconds a terminal shows it as a bar."""
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), progress.TimeElapsedColumn())
    bars = progress.Progress(*columns, console=console(stderr=True), transient=True)
    task = bars.add_task(what, total=None)

    def report(name: str, number: int, total: int) -> None:
        shown = "".join(letter if letter.isprintable() else "?" for letter in name)
        # One table takes as long as it takes: its bar only shows that something goes on.
        bars.update(task, description=f"{what} {escape(shown)}", completed=number, total=total if total > 1 else None)

    timer = Timer(_SECONDS, bars.start)
    timer.daemon = True
    if bars.console.is_terminal:
        timer.start()
    try:
        yield report
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        if bars.live.is_started:
            bars.stop()
