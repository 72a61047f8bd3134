"""`gcmf`, the command. Nothing heavy is imported before a command runs, so that help is quick."""

from __future__ import annotations

import signal
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gcmf import __version__
from gcmf.cli.demo import demo
from gcmf.cli.describe import describe
from gcmf.cli.doctor import doctor
from gcmf.cli.evaluate import evaluate
from gcmf.cli.export import export
from gcmf.cli.fit import fit
from gcmf.cli.init import init
from gcmf.cli.predict import predict
from gcmf.cli.rankings import explain, recommend, similar
from gcmf.cli.report import report
from gcmf.cli.terminal import DASHES, show_error, show_note, show_stop
from gcmf.cli.update import update
from gcmf.errors import GcmfError, LockedError
from gcmf.interrupts import Terminated, in_main_thread, terminate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: The exit code of who finds another process at work on the file.
LOCKED = 3


class Command(TyperCommand):
    """A command whose help shows flags as flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _plain_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments; say where ids go that look like options."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # Typer takes click's errors from click or from a copy that it brings: there is no one place to import from.
            takes_ids = any(DASHES in (getattr(parameter, "help", None) or "") for parameter in self.params)
            if type(error).__name__ == "NoSuchOption" and takes_ids:
                error.message += f". {DASHES}"  # type: ignore[attr-defined]  # NoSuchOption has one
            raise


class Commands(TyperGroup):
    """Shows an error that gcmf raises on purpose as a paragraph, and any other as the traceback it needs."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters."""
        return _plain_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings(), _terminable():
                warnings.showwarning = _shower_of_warnings()
                return super().invoke(ctx)
        except GcmfError as error:
            if ctx.params.get("debug"):
                raise
            show_error(str(error))
            raise typer.Exit(LOCKED if isinstance(error, LockedError) else 1) from None
        except OSError as error:
            # Files and folders are the caller's: what cannot be read or written is told, not traced. A pipe that was
            # closed is Typer's.
            if ctx.params.get("debug") or error.filename is None:
                raise
            show_error(f"{error.filename}: {error.strerror}.")
            raise typer.Exit(1) from None
        except KeyboardInterrupt as stop:
            show_stop(str(stop) or "nothing was written.")
            raise typer.Exit(143 if Terminated.raised else 130) from None


@contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM raise `Terminated` while a command runs, where nobody has other plans with it."""
    ours = in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    Terminated.raised = False
    if ours:
        signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _plain_flags(parameters: list[Any]) -> list[Any]:
    """Let help say `--force`, where Typer says `--force <bool>` as if a value were wanted, and <str> for a list."""
    for parameter in parameters:
        if parameter.nargs == -1:
            parameter.display_type_rich = lambda **_: "<str>"
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


def _shower_of_warnings() -> Callable[..., None]:
    """Return what shows a warning as a note, and each one once."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            show_note(str(message))

    return show


app = typer.Typer(
    cls=Commands,
    add_completion=True,
    pretty_exceptions_show_locals=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gcmf {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and stop.", callback=_show_version, is_eager=True),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
) -> None:
    """Learn one low-rank representation of any collection of matrices that share entities.

    Exit codes:
    0 all is done (also a fit that was stopped early: its model is written)
    1 the data, a file or an option value cannot be used
    2 the command itself is wrong
    3 another process is writing to the file
    4 an update could not take in all that is new (a line says what)
    130 stopped by Ctrl-C (a line says what that left)
    143 stopped by SIGTERM (a line says what that left)
    """
    del version, debug
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def run() -> None:
    """Run the command as a process of its own: once all is done and said, no signal makes it look otherwise."""
    try:
        app(prog_name="gcmf")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


_COMMANDS = (
    init, fit, update, predict, recommend, similar, explain, describe, report, export, evaluate, doctor, demo,
)  # fmt: skip
for _command in _COMMANDS:
    app.command(cls=Command)(_command)
