"""How far a fit is, for a person who watches: a line in a terminal, or below a cell of a notebook."""

from __future__ import annotations

import sys
import time
import uuid
from typing import TYPE_CHECKING, Any, Protocol

from gcmf.errors import counted

if TYPE_CHECKING:
    from gcmf.outcome import StepInfo

#: A fit shorter than this needs no bar.
PATIENCE_SECONDS = 2.0
#: A notebook gets no more messages than one in so many seconds: they travel, and pile up where it is slow.
_BETWEEN_SECONDS = 0.2


class Line(Protocol):
    """Where progress is shown."""

    def show(self, text: str, done: int, total: int) -> None:
        """Replace what was shown before."""

    def close(self) -> None:
        """Leave the last one standing."""


def is_watched() -> bool:
    """Whether there is a person to show progress to."""
    return sys.stderr.isatty() or _notebook() is not None


def _notebook() -> Any:
    """The shell of the notebook whose kernel this process is, or None: Jupyter, VS Code and Colab all have kernels."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if hasattr(shell, "kernel") else None


class ProgressBar:
    """Sweeps, bound and factors alive, after some patience."""

    def __init__(self, *, patience: float) -> None:
        self._patience = patience
        self._started = time.monotonic()
        self._line: Line | None = None

    def __call__(self, info: StepInfo) -> None:
        """Show a sweep."""
        if self._line is None:
            if time.monotonic() - self._started < self._patience:
                return
            shell = _notebook()
            self._line = TerminalLine() if shell is None else NotebookLine(shell)
        text = f"{info.objective} {info.elbo:,.1f} ({info.change:+.3g}), {counted(info.n_factors, 'factor')}"
        text = f"start {info.restart + 1}, {text}" if info.restart else text
        self._line.show(text, info.iteration, info.n_sweeps)

    def close(self) -> None:
        """Leave the last line standing."""
        if self._line is not None:
            self._line.close()


class TerminalLine:
    """One line on stderr."""

    def __init__(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only who watches pays for it
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn  # noqa: PLC0415

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=Console(stderr=True))
        self._task = self._bar.add_task("fitting", total=None)
        self._bar.start()

    def show(self, text: str, done: int, total: int) -> None:
        """Move the bar."""
        self._bar.update(self._task, completed=done, total=total, description=text)

    def close(self) -> None:
        """Let go of the terminal."""
        self._bar.stop()


class NotebookLine:
    """An output below the cell that is replaced in place.

    Updates of an output are part of the protocol that Jupyter, VS Code and Colab speak. The bars of rich and tqdm are
    widgets there: they need ipywidgets, which not all of them have, and leave nothing in a stored notebook.
    """

    def __init__(self, shell: Any) -> None:
        self._publish, self._id = shell.display_pub.publish, {"display_id": uuid.uuid4().hex}
        self._started = self._shown = time.monotonic()
        self._last: tuple[str, int, int] = ("fitting", 0, 0)
        self._publish(self._as_output(), transient=self._id)

    def show(self, text: str, done: int, total: int) -> None:
        """Replace the output, unless that was done a moment ago."""
        self._last = (text, done, total)
        if time.monotonic() - self._shown >= _BETWEEN_SECONDS:
            self._send()

    def close(self) -> None:
        """Show the last sweep, whenever it was."""
        self._send()

    def _send(self) -> None:
        self._shown = time.monotonic()
        self._publish(self._as_output(), transient=self._id, update=True)

    def _as_output(self) -> dict[str, str]:
        """The line as a page and as a text, of which the notebook takes what it can show."""
        text, done, total = self._last
        line = f"sweep {done} of at most {total}, {text}, {time.monotonic() - self._started:.0f} s"
        bar = f'<progress value="{done}" max="{max(total, 1)}" aria-label="sweeps of the fit"></progress>'
        return {"text/plain": line, "text/html": f"<div>{bar} {line}</div>"}
